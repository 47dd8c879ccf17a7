// How what was asked is said to be wrong.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace paceline {

// A kBadRequest (exit code 2) with this message.
template <typename... Args>
Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return error(ErrorKind::kBadRequest, format, std::forward<Args>(args)...);
}

// The same of a key of a JSON object, which is the subject; `format` goes on after its name: "key 'workers'" + " is 0; ...".
template <typename... Args>
Status wrong_key(const std::string& key, fmt::format_string<Args...> format, Args&&... args) {
  return wrong("key '{}'{}", key, fmt::format(format, std::forward<Args>(args)...)).because({"", key});
}

// What a sentence around that of `status` keeps of it; nothing where only the kind was known.
inline Cause cause_of(const Status& status) {
  if (status.ok() || status.code() == code_of(status.kind())) return {"", status.subject()};
  return {status.code(), status.subject()};
}

// The error with the place where it was found in front of its sentence: "case 3: key 'workers' is 0; ...".
inline Status at(const std::string& place, const Status& status) {
  return Status(status.kind(), fmt::format("{}: {}", place, status.message()), cause_of(status));
}

}  // namespace paceline
