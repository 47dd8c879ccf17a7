// Gradients of which most elements are zero: choosing the few that are sent, packing them, and adding them up. Plain loops, the
// same bits everywhere; pure functions and objects without shared state.
//
// Zeros here are +0: the sum of such arrays is the same whether their zeros are added or left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace paceline::tensor {

// Chooses elements by magnitude. One thread at a time; its memory is kept from call to call.
class LargestElements {
 public:
  // Moves the `count` elements of `kept` with the largest magnitudes to the same places of `sent`, and fewer when there are not so
  // many other than zero; of equal magnitudes those that come first. Their places in `kept`, and all other places in `sent`, become
  // +0. NaN counts as larger than infinity. Equal lengths, no overlap. O(n).
  void take(std::span<float> kept, std::span<float> sent, std::size_t count);

 private:
  struct Threshold {
    std::uint32_t magnitude = 0;  // as bits; larger ones are taken,
    std::size_t equal = 0;        // and so many that equal it
  };
  Threshold threshold_by_counting(std::span<const float> values, std::size_t count);
  Threshold threshold_by_partition(std::span<const float> values, std::size_t count);

  std::vector<std::uint32_t> scratch_;
};

// Some elements of an array of float32, the others being zero: `values[i]` at `indices[i]`, which ascend.
struct SparseView {
  std::span<const std::uint32_t> indices;
  std::span<const float> values;
};

// Of each element: index and value. What is sent for an array is the indices, one behind the other, then the values.
inline constexpr std::size_t kSparseBytes = sizeof(std::uint32_t) + sizeof(float);

// How many elements of `values` are not +0.
std::size_t count_sparse(std::span<const float> values);
// Appends them: indices (counted from `first`) from `at` on in `indices`, the values in the same places of `packed`. Returns the
// place behind the last one. Requires room.
std::size_t pack_sparse(std::span<const float> values, std::uint32_t first, std::size_t at, std::span<std::uint32_t> indices,
                        std::span<float> packed);
// What `payload` holds of an array of `elements` elements; nothing when it is not a whole number of elements above zero, or indices
// do not ascend below `elements`. `payload` is aligned to four bytes and outlives the view.
std::optional<SparseView> parse_sparse(std::span<const std::byte> payload, std::size_t elements);
// The same of a payload that has been parsed before.
SparseView sparse_view(std::span<const std::byte> payload);

// A part of an array that is to be added: dense, or sparse with indices counted from the array's begin, of which the part begins at
// `first`.
struct SparseSource {
  std::span<const float> dense;
  SparseView sparse;
  std::uint32_t first = 0;
};
// The source for the elements first .. first + count - 1 of `whole`. O(log n).
SparseSource part_of(const SparseView& whole, std::size_t first, std::size_t count);

// dst[i] = (((src0[i] + src1[i]) + src2[i]) + ...) * scale in the order of `sources`, as sum_in_rank_order would of dense arrays
// whose zeros are +0. `scale` is rounded to float32. Costs a pass over dst, and what the sources hold.
void sum_sparse(std::span<float> dst, std::span<const SparseSource> sources, double scale);

// The index, in the part, of the source's first infinite or NaN element.
std::optional<std::size_t> first_non_finite(const SparseSource& source);
// Requires that the source holds it.
float element_of(const SparseSource& source, std::size_t index);

}  // namespace paceline::tensor
