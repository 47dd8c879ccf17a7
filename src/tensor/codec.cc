#include "tensor/codec.h"

#include <algorithm>
#include <vector>

#include "tensor/narrow.h"
#include "tensor/reduce.h"
#include "tensor/sparse.h"

namespace paceline::tensor {
namespace {

class DenseCodec final : public Codec {
 public:
  DenseCodec(DType type, double factor) : type_(type), factor_(factor) {}

  std::size_t size(std::size_t elements) const override { return elements * size_of(type_); }
  bool raw() const override { return type_ == DType::kFloat32; }

  void encode(std::span<const float> values, std::span<std::byte> place) const override {
    const TensorView to(place.data(), type_, values.size());
    if (factor_ == 1) return convert(to, values);
    narrow(to, values, static_cast<float>(factor_));
  }
  void decode(std::span<const std::byte> payload, std::span<float> values) const override {
    convert(values, ConstTensorView(payload.data(), type_, values.size()));
  }

  void add_up(std::span<float> sum, std::span<const Encoded> sources, double scale) const override {
    thread_local std::vector<ConstTensorView> views;
    thread_local std::vector<float> zeros;  // whose bits are zeros of every type
    views.clear();
    for (const Encoded& source : sources) {
      if (source.payload.empty() && zeros.size() < sum.size()) zeros.resize(sum.size());
    }
    for (const Encoded& source : sources)
      views.push_back(source.payload.empty() ? ConstTensorView(zeros.data(), type_, sum.size()) : view(source));
    sum_widened(sum, views, scale / factor_);
  }
  std::optional<Element> first_non_finite(const Encoded& source) const override {
    if (source.payload.empty()) return std::nullopt;
    const auto index = tensor::first_non_finite(view(source));
    if (!index) return std::nullopt;
    Element found{.index = *index};
    convert(std::span(&found.value, 1), view(source).slice(*index, 1));
    return found;
  }

 private:
  ConstTensorView view(const Encoded& source) const {
    return ConstTensorView(source.payload.data(), type_, source.elements).slice(source.range.first, source.range.count);
  }

  DType type_;
  double factor_;
};

// Zeros are +0, so that a sum is the same whether they are added or left out.
class SparseCodec final : public Codec {
 public:
  std::size_t size(std::size_t elements) const override { return elements * sizeof(float); }
  bool raw() const override { return true; }
  bool packs() const override { return true; }
  bool fits(std::size_t elements, std::uint64_t bytes) const override {
    return bytes == size(elements) || (bytes > 0 && bytes < size(elements) && bytes % kSparseBytes == 0);
  }
  bool valid(std::span<const std::byte> payload, std::size_t elements) const override {
    return payload.size() == size(elements) || parse_sparse(payload, elements).has_value();
  }

  void encode(std::span<const float> values, std::span<std::byte> place) const override {
    std::ranges::copy(std::as_bytes(values), place.begin());
  }
  // No byte at all would say that nothing was used, so an array of zeros is one zero.
  std::optional<std::size_t> pack(std::span<const float> values, std::span<const Range> used,
                                  std::span<std::byte> place) const override {
    std::size_t held = 0;
    for (const Range& range : used) held += count_sparse(values.subspan(range.first, range.count));
    const std::size_t count = std::max<std::size_t>(held, 1);
    if (count * kSparseBytes >= size(values.size())) return std::nullopt;
    const std::span indices(reinterpret_cast<std::uint32_t*>(place.data()), count);
    const std::span packed(reinterpret_cast<float*>(place.data() + indices.size_bytes()), count);
    indices[0] = 0;
    packed[0] = 0;
    std::size_t at = 0;
    for (const Range& range : used)
      at = pack_sparse(values.subspan(range.first, range.count), static_cast<std::uint32_t>(range.first), at, indices, packed);
    return count * kSparseBytes;
  }
  void decode(std::span<const std::byte> payload, std::span<float> values) const override {
    std::ranges::copy(payload, std::as_writable_bytes(values).begin());
  }

  void add_up(std::span<float> sum, std::span<const Encoded> sources, double scale) const override {
    thread_local std::vector<SparseSource> views;
    views.clear();
    for (const Encoded& source : sources) views.push_back(view(source));
    sum_sparse(sum, views, scale);
  }
  std::optional<Element> first_non_finite(const Encoded& source) const override {
    const SparseSource of = view(source);
    const auto index = tensor::first_non_finite(of);
    if (!index) return std::nullopt;
    return Element{*index, element_of(of, *index)};
  }

 private:
  SparseSource view(const Encoded& source) const {
    if (source.payload.empty()) return {};
    if (source.payload.size() < size(source.elements))
      return part_of(sparse_view(source.payload), source.range.first, source.range.count);
    return {.dense = ConstTensorView(source.payload.data(), DType::kFloat32, source.elements)
                         .slice(source.range.first, source.range.count)
                         .as<float>()};
  }
};

}  // namespace

std::shared_ptr<const Codec> dense_codec(DType type, double factor) { return std::make_shared<DenseCodec>(type, factor); }
std::shared_ptr<const Codec> sparse_codec() { return std::make_shared<SparseCodec>(); }

}  // namespace paceline::tensor
