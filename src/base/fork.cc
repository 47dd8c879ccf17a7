#include "base/fork.h"

#include <atomic>

#include <pthread.h>

#include "base/check.h"

namespace paceline {
namespace {

std::atomic<std::uint64_t> generation{0};

}  // namespace

std::uint64_t process_generation() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++generation; });
  PACELINE_CHECK(registered == 0, "pthread_atfork: error {}", registered);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace paceline
