// How expected failures travel: as values. Programmer errors abort (base/check.h); exceptions live only at the torch, CLI and
// Python borders.
//
// The kinds are named by what the caller can do. The message is one sentence for a person: who, what, where, what was found,
// what to do. Programs read the kind, the code and the subject, and never the sentence. `Status` is cheap to copy and safe to
// hand between threads.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "base/check.h"

namespace paceline {

enum class ErrorKind {
  kBadRequest,  // correct the request: a wrong option, file, shape, or workers that disagree (exit code 2)
  kPeerLost,    // restart the peer or resume without it: it died or went silent
  kDeadline,    // wait longer or find out why: alive, but no progress within the limit
  kCancelled,   // nothing to do: somebody asked to stop
  kOverloaded,  // try again later: a stated limit is reached
  kCorrupt,     // fetch or read it again: bytes failed their check
  kIo,          // look at the disk, the port, the rights: the system refused
};

// The code of an error that has no other: "bad-request", "peer-lost", ...
const char* code_of(ErrorKind kind);

// What is wrong with what, for programs.
struct Cause {
  std::string code;     // a word, at most 15 letters: "illegal", "contradiction"; "": code_of(kind)
  std::string subject;  // as the user names it, at most 63 letters: "--momentum"; "": only the sentence says it
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  Status(ErrorKind kind, std::string message, Cause cause = {})
      : error_(std::make_shared<const Error>(Error{kind, std::move(message), std::move(cause)})) {}

  bool ok() const { return error_ == nullptr; }
  ErrorKind kind() const {
    PACELINE_CHECK(error_, "kind() of a success");
    return error_->kind;
  }
  const std::string& message() const {
    static const std::string none;
    return error_ ? error_->message : none;
  }
  // "" for a success.
  std::string code() const {
    if (error_ == nullptr) return "";
    return error_->cause.code.empty() ? code_of(error_->kind) : error_->cause.code;
  }
  std::string subject() const { return error_ ? error_->cause.subject : ""; }
  // The same error with what of `cause` it lacks: whoever is nearest to the mistake knows best.
  Status because(const Cause& cause) const {
    if (error_ == nullptr) return *this;
    return Status(error_->kind, error_->message,
                  {error_->cause.code.empty() ? cause.code : error_->cause.code,
                   error_->cause.subject.empty() ? cause.subject : error_->cause.subject});
  }

 private:
  struct Error {
    ErrorKind kind;
    std::string message;
    Cause cause;
  };
  std::shared_ptr<const Error> error_;
};

// e.g. `return error(ErrorKind::kBadRequest, "--window {} is smaller than two chunks", window);`
template <typename... Args>
Status error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return Status(kind, fmt::format(format, std::forward<Args>(args)...));
}

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    PACELINE_CHECK(!std::get<1>(state_).ok(), "a Result made from a success has no value");
  }

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  const T& value() const& {
    require();
    return std::get<0>(state_);
  }
  T& value() & {
    require();
    return std::get<0>(state_);
  }
  T&& value() && {
    require();
    return std::get<0>(std::move(state_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  void require() const { PACELINE_CHECK(ok(), "value of a failed Result: {}", std::get<1>(state_).message()); }
  std::variant<T, Status> state_;
};

}  // namespace paceline

// Returns from the enclosing function when `expression`, a Status, is an error.
#define PACELINE_RETURN_IF_ERROR(expression)                                                              \
  do {                                                                                                    \
    if (::paceline::Status paceline_status = (expression); !paceline_status.ok()) return paceline_status; \
  } while (false)

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)
// `PACELINE_ASSIGN_OR_RETURN(auto table, read_table(file));`
#define PACELINE_ASSIGN_OR_RETURN(target, expression) \
  PACELINE_ASSIGN_OR_RETURN_INNER(PACELINE_CONCAT(paceline_result_, __LINE__), target, expression)
#define PACELINE_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) return result.status();                         \
  target = std::move(result).value()
