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
std::array<std::atomic<std::uint64_t>, kMostDescriptors> sockets{};
std::atomic<int> highest{-1};

// 0: no socket. As a child may ask it of itself, between fork and all else.
std::uint64_t socket_number(int descriptor) {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

void on_forked() {
  ++generation;
  for (int descriptor = 0; descriptor <= highest; ++descriptor) {
    const std::uint64_t number = sockets[static_cast<std::size_t>(descriptor)].exchange(0);
    if (number != 0 && socket_number(descriptor) == number) ::close(descriptor);
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
  sockets[static_cast<std::size_t>(descriptor)] = socket_number(descriptor);
  int known = highest;
  while (known < descriptor && !highest.compare_exchange_weak(known, descriptor)) {
  }
}

}  // namespace paceline
