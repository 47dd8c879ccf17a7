#include "base/fork.h"

#include <array>
#include <atomic>

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

namespace paceline {
namespace {

std::atomic<std::uint64_t> generation{0};

// By descriptor: which file it was, for the number may be another one's by now. Those beyond the last are kept by children.
constexpr int kMostDescriptors = 65536;
std::array<std::atomic<std::uint64_t>, kMostDescriptors> files{};
std::atomic<int> highest{-1};

// 0: none. As a child may ask it of itself, between fork and all else.
std::uint64_t file_number(int descriptor) {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 ? found.st_ino ^ (static_cast<std::uint64_t>(found.st_dev) << 48) : 0;
}

void on_forked() {
  ++generation;
  for (int descriptor = 0; descriptor <= highest; ++descriptor) {
    const std::uint64_t number = files[static_cast<std::size_t>(descriptor)].exchange(0);
    if (number != 0 && file_number(descriptor) == number) ::close(descriptor);
  }
  highest = -1;
}

}  // namespace

std::uint64_t process_generation() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, on_forked);
  PACELINE_CHECK(registered == 0, "pthread_atfork: error {}", registered);
  return generation.load(std::memory_order_relaxed);
}

void close_in_children(int descriptor) {
  process_generation();
  if (descriptor < 0 || descriptor >= kMostDescriptors) return;
  files[static_cast<std::size_t>(descriptor)] = file_number(descriptor);
  int known = highest;
  while (known < descriptor && !highest.compare_exchange_weak(known, descriptor)) {
  }
}

}  // namespace paceline
