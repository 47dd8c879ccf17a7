// Memory for the one operation of a kind that waits at a time, so that waiting allocates nothing. Asio gives the memory back before
// it calls the handler, so the handler may wait again at once.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace paceline::transport {

class HandlerMemory {
 public:
  HandlerMemory() = default;
  HandlerMemory(const HandlerMemory&) = delete;
  HandlerMemory& operator=(const HandlerMemory&) = delete;

  void* take(std::size_t bytes) {
    if (bytes > sizeof storage_ || std::exchange(in_use_, true)) return ::operator new(bytes);
    return storage_;
  }
  void give_back(void* memory) {
    if (memory == storage_) {
      in_use_ = false;
    } else {
      ::operator delete(memory);
    }
  }

 private:
  alignas(std::max_align_t) std::byte storage_[256];
  bool in_use_ = false;
};

// What Asio asks a handler for; see get_allocator() of the handlers.
template <typename T>
struct HandlerAllocator {
  using value_type = T;

  explicit HandlerAllocator(HandlerMemory& from) : memory(&from) {}
  template <typename U>
  HandlerAllocator(const HandlerAllocator<U>& other) : memory(other.memory) {}

  T* allocate(std::size_t count) { return static_cast<T*>(memory->take(count * sizeof(T))); }
  void deallocate(T* place, std::size_t) { memory->give_back(place); }
  template <typename U>
  bool operator==(const HandlerAllocator<U>& other) const {
    return memory == other.memory;
  }

  HandlerMemory* memory;
};

}  // namespace paceline::transport
