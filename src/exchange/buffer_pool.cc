#include "exchange/buffer_pool.h"

#include <bit>

#include "base/check.h"

namespace paceline::exchange {
namespace {

constexpr std::size_t kStepsPerOctave = 8;
constexpr std::size_t kSmallest = 64;  // floats

struct SizeClass {
  std::size_t index = 0, elements = 0;
};

SizeClass class_of(std::size_t elements) {
  if (elements <= kSmallest) return {0, kSmallest};
  const auto octave = static_cast<std::size_t>(std::bit_width(elements - 1)) - 1;  // 2^octave < elements <= 2^(octave + 1)
  const std::size_t base = std::size_t{1} << octave;
  const std::size_t step = base / kStepsPerOctave;
  const std::size_t steps = (elements - base + step - 1) / step;
  return {octave * kStepsPerOctave + steps, base + steps * step};
}

}  // namespace

std::uint32_t BufferPool::take(std::size_t elements) {
  const SizeClass wanted = class_of(elements);
  if (wanted.index >= first_free_.size()) first_free_.resize(wanted.index + 1, kNone);
  std::uint32_t& first = first_free_[wanted.index];
  std::uint32_t buffer = first;
  if (buffer == kNone) {
    buffer = static_cast<std::uint32_t>(blocks_.size());
    blocks_.push_back({std::unique_ptr<float[]>(new float[wanted.elements]), wanted.index, 0, kNone});
  } else {
    first = blocks_[buffer].next_free;
  }
  blocks_[buffer].references = 1;
  return buffer;
}

void BufferPool::release(std::uint32_t buffer) {
  PACELINE_CHECK(in_use(buffer), "buffer {} given back twice", buffer);
  Block& block = blocks_[buffer];
  if (--block.references > 0) return;
  block.next_free = first_free_[block.size_class];
  first_free_[block.size_class] = buffer;
}

}  // namespace paceline::exchange
