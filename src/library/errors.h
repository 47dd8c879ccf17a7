// How a Status leaves through the C interface, and what keeps everything else inside: exceptions end here.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "base/status.h"
#include "paceline/paceline.h"

namespace paceline::library {

inline constexpr const char* kOrder = "order";    // code of a call that is not the handle's turn
inline constexpr const char* kHandle = "handle";  // code of a handle that is none
inline constexpr const char* kNull = "null";      // code of a pointer that must not be NULL
inline constexpr const char* kStruct = "struct";  // code of a struct of a wrong size

// A refusal with a code and what it is about.
template <typename... Args>
Status refusal(const char* code, const char* subject, fmt::format_string<Args...> format, Args&&... args) {
  return Status(ErrorKind::kBadRequest, fmt::format(format, std::forward<Args>(args)...), {code, subject});
}

// As much of the text as there is room for, with a 0 behind it, and not cut inside a letter.
std::string_view cut_text(std::string_view text, std::size_t room);

std::int32_t kind_of(const Status& status);
// The kind of an error that the user names. Requires: is_error_kind(kind).
ErrorKind error_kind_of(std::int32_t kind);
bool is_error_kind(std::int32_t kind);

// Fills what `error`, which may be null, has room for, and returns the kind.
std::int32_t give(const Status& status, paceline_error* error);
// Not yet: the call's own limit has passed.
std::int32_t give_again(paceline_error* error);
// Whether `error` can be filled. A call whose error cannot is refused, silently, and does nothing.
bool can_fill(const paceline_error* error);

// What an exception in the middle of a call says.
Status status_of_exception(std::exception_ptr exception);

// Every function of the interface is `return guarded(error, [&]() -> Status { ... })`, or a Result<bool>: false is PACELINE_AGAIN.
template <typename Work>
std::int32_t guarded(paceline_error* error, Work work) noexcept {
  if (!can_fill(error)) return PACELINE_BAD_REQUEST;
  try {
    const auto done = work();
    if constexpr (std::is_same_v<decltype(done), const Result<bool>>) {
      if (done.ok() && !*done) return give_again(error);
      return give(done.status(), error);
    } else {
      return give(done, error);
    }
  } catch (...) {
    try {
      return give(status_of_exception(std::current_exception()), error);
    } catch (...) {
      return PACELINE_OVERLOADED;  // not even memory for the sentence
    }
  }
}

template <typename T>
Status check_given(const T* pointer, const char* name) {
  return pointer != nullptr ? Status() : refusal(kNull, name, "{} is NULL", name);
}

}  // namespace paceline::library
