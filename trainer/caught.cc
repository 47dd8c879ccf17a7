#include "trainer/caught.h"

#include <new>

#include <c10/util/Exception.h>

namespace paceline::trainer {
namespace {

std::string first_line(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \n");
  return begin == std::string::npos ? "no reason is given" : text.substr(begin, text.find('\n', begin) - begin);
}

Status too_little_memory(const std::string& who, const std::string& detail) {
  return error(ErrorKind::kOverloaded, "{}there is not enough memory to compute with{}; give a smaller --mini-batch", who, detail);
}

// LibTorch has no type of its own for it on the CPU.
bool is_about_memory(const std::string& line) {
  return line.find("can't allocate memory") != std::string::npos || line.find("not enough memory") != std::string::npos;
}

Status status_of(const std::string& who, const char* what, const std::string& said) {
  const std::string line = first_line(said);
  if (is_about_memory(line)) return too_little_memory(who, " (" + line + ")");
  return error(ErrorKind::kIo, "{}{}{}", who, what, line);
}

}  // namespace

Status caught(const std::string& who, const std::function<Status()>& work) {
  const std::string begin = who.empty() ? "" : who + ": ";
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return too_little_memory(begin, "");
  } catch (const c10::Error& problem) {
    return status_of(begin, "LibTorch failed: ", problem.what_without_backtrace());
  } catch (const std::exception& problem) {
    return status_of(begin, "", problem.what());
  }
}

}  // namespace paceline::trainer
