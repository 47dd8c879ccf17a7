#include "library/errors.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/shorten.h"

namespace paceline::library {
namespace {

template <std::size_t kRoom>
void copy_text(std::string_view text, char (&to)[kRoom]) {
  const std::string_view cut = cut_text(text, kRoom);
  std::memcpy(to, cut.data(), cut.size());
  to[cut.size()] = 0;
}

std::int32_t fill(std::int32_t kind, std::string_view code, std::string_view subject, std::string_view message,
                  paceline_error* error) {
  if (error == nullptr) return kind;
  error->kind = kind;
  copy_text(code, error->code);
  copy_text(subject, error->subject);
  copy_text(shortened(message, sizeof error->message - 1), error->message);
  return kind;
}

}  // namespace

std::string_view cut_text(std::string_view text, std::size_t room) {
  std::size_t length = std::min(text.size(), room - 1);
  if (length < text.size()) {
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  }
  return text.substr(0, length);
}

std::int32_t kind_of(const Status& status) {
  constexpr std::int32_t kKinds[] = {PACELINE_BAD_REQUEST, PACELINE_PEER_LOST, PACELINE_DEADLINE, PACELINE_CANCELLED,
                                     PACELINE_OVERLOADED,  PACELINE_CORRUPT,   PACELINE_IO};
  return status.ok() ? PACELINE_DONE : kKinds[static_cast<std::size_t>(status.kind())];
}

bool is_error_kind(std::int32_t kind) { return kind >= PACELINE_BAD_REQUEST && kind <= PACELINE_IO; }

ErrorKind error_kind_of(std::int32_t kind) {
  PACELINE_CHECK(is_error_kind(kind), "{} is no kind of an error", kind);
  return static_cast<ErrorKind>(kind - PACELINE_BAD_REQUEST);
}

std::int32_t give(const Status& status, paceline_error* error) {
  return fill(kind_of(status), status.code(), status.subject(), status.message(), error);
}

std::int32_t give_again(paceline_error* error) {
  return fill(PACELINE_AGAIN, "again", "", "the call's limit has passed and nothing else has happened; call again", error);
}

bool can_fill(const paceline_error* error) { return error == nullptr || error->size >= sizeof(paceline_error); }

Status status_of_exception(std::exception_ptr exception) {
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const std::bad_alloc&) {
    return Status(ErrorKind::kOverloaded, "there is no memory for this call", {"memory", ""});
  } catch (const std::system_error& problem) {
    return Status(ErrorKind::kOverloaded, fmt::format("the system refused: {}", problem.what()));
  } catch (const std::exception& problem) {
    return Status(ErrorKind::kCorrupt, fmt::format("an error inside the library: {}", problem.what()));
  } catch (...) {
    return Status(ErrorKind::kCorrupt, "an error inside the library");
  }
}

}  // namespace paceline::library
