// Memory for blocks that arrive before their place is free, used again: nothing is allocated once warm. One thread; the pool
// outlives its blocks.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace paceline::collectives {

class BlockPool {
 public:
  // Owns memory of at least the size asked for; gives it back when destroyed.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), memory_(std::move(other.memory_)), bytes_(other.bytes_) {}
    Block& operator=(Block&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(memory_, other.memory_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Block() {
      if (pool_ != nullptr) pool_->give_back(std::move(memory_), bytes_);
    }
    explicit operator bool() const { return pool_ != nullptr; }
    std::span<std::byte> bytes() const { return {memory_.get(), bytes_}; }

   private:
    friend class BlockPool;
    Block(BlockPool* pool, std::unique_ptr<std::byte[]> memory, std::size_t bytes)
        : pool_(pool), memory_(std::move(memory)), bytes_(bytes) {}

    BlockPool* pool_ = nullptr;
    std::unique_ptr<std::byte[]> memory_;
    std::size_t bytes_ = 0;
  };

  // Contents undefined; aligned for every element type.
  Block take(std::size_t bytes) {
    auto& free = free_[class_of(bytes)];
    if (free.empty()) return {this, std::unique_ptr<std::byte[]>(new std::byte[std::size_t{1} << class_of(bytes)]), bytes};
    Block block(this, std::move(free.back()), bytes);
    free.pop_back();
    return block;
  }

 private:
  // Sizes are rounded up to powers of two.
  static std::size_t class_of(std::size_t bytes) { return bytes <= 1 ? 0 : static_cast<std::size_t>(std::bit_width(bytes - 1)); }
  void give_back(std::unique_ptr<std::byte[]> memory, std::size_t bytes) { free_[class_of(bytes)].push_back(std::move(memory)); }

  std::array<std::vector<std::unique_ptr<std::byte[]>>, 64> free_;
};

}  // namespace paceline::collectives
