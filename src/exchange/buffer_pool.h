// Memory for gradients and values, given out and taken back again. Blocks are kept in classes by size (eighths of a power of two),
// so at most an eighth is wasted and nothing is allocated once each class has as many blocks as were ever needed at a time. One
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paceline::exchange {

class BufferPool {
 public:
  static constexpr std::uint32_t kNone = 0xffff'ffff;

  // A block of at least `elements` floats, contents undefined, with one reference.
  std::uint32_t take(std::size_t elements);
  void add_reference(std::uint32_t buffer) { ++blocks_[buffer].references; }
  // Takes a reference back; the last one frees the block for others.
  void release(std::uint32_t buffer);
  std::uint32_t references(std::uint32_t buffer) const { return blocks_[buffer].references; }
  bool in_use(std::uint32_t buffer) const { return buffer < blocks_.size() && blocks_[buffer].references > 0; }

  std::span<float> of(std::uint32_t buffer, std::size_t elements) { return {blocks_[buffer].memory.get(), elements}; }
  std::span<const float> of(std::uint32_t buffer, std::size_t elements) const { return {blocks_[buffer].memory.get(), elements}; }

 private:
  struct Block {
    std::unique_ptr<float[]> memory;
    std::size_t size_class = 0;
    std::uint32_t references = 0;
    std::uint32_t next_free = kNone;
  };

  std::vector<Block> blocks_;
  std::vector<std::uint32_t> first_free_;  // by size class
};

}  // namespace paceline::exchange
