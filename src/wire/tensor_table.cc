#include "wire/tensor_table.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

namespace paceline::wire {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
// On the wire in the word of the group, which is not negative.
constexpr std::uint32_t kFrozenBit = std::uint32_t{1} << 31;

std::string describe(const TensorInfo& tensor) {
  return fmt::format("\"{}\" {} [{}] in layer {}, group {}{}", tensor.name, tensor.dtype, fmt::join(tensor.shape, ", "),
                     tensor.layer.index, tensor.group, tensor.frozen ? ", frozen" : "");
}

}  // namespace

std::int64_t TensorInfo::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t dimension : shape) product *= dimension;
  return product;
}

std::int64_t TensorTable::elements() const {
  std::int64_t sum = 0;
  for (const TensorInfo& tensor : tensors) sum += tensor.elements();
  return sum;
}

std::vector<std::int64_t> TensorTable::offsets() const {
  std::vector<std::int64_t> offsets = {0};
  offsets.reserve(tensors.size() + 1);
  for (const TensorInfo& tensor : tensors) offsets.push_back(offsets.back() + tensor.elements());
  return offsets;
}

namespace {

// What is frozen needs no place between what moves, and a gate waits for one of both.
Status check_frozen(const TensorTable& table) {
  for (std::size_t i = 1; i < table.tensors.size(); ++i) {
    const TensorInfo &before = table.tensors[i - 1], &tensor = table.tensors[i];
    if (before.frozen && !tensor.frozen) {
      return error(ErrorKind::kBadRequest, "tensor \"{}\" stands behind frozen ones; those come last", tensor.name);
    }
    if (before.frozen != tensor.frozen && before.layer == tensor.layer) {
      return error(ErrorKind::kBadRequest,
                   "frozen tensor \"{}\" stands in layer {} with others; frozen ones have layers of their own", tensor.name,
                   tensor.layer.index);
    }
  }
  return {};
}

}  // namespace

Status validate(const TensorTable& table) {
  if (std::ranges::all_of(table.tensors, &TensorInfo::frozen))
    return error(ErrorKind::kBadRequest, "the model has no parameters to train");
  PACELINE_RETURN_IF_ERROR(check_frozen(table));
  std::int32_t layer = 0;
  std::int64_t total = 0;
  std::set<std::string> names;
  for (const TensorInfo& tensor : table.tensors) {
    if (tensor.dtype != "float32")
      return error(ErrorKind::kBadRequest, "tensor \"{}\" is {}; only float32 can be trained", tensor.name, tensor.dtype);
    if (tensor.layer.index < layer || tensor.layer.index > layer + 1 ||
        tensor.layer.index >= static_cast<std::int32_t>(table.layers.size())) {
      return error(ErrorKind::kBadRequest,
                   "tensor \"{}\" stands in layer {} after layer {}; layers ascend one by one and have a name", tensor.name,
                   tensor.layer.index, layer);
    }
    layer = tensor.layer.index;
    std::int64_t elements = 1;
    for (const std::int64_t dimension : tensor.shape) {
      if (dimension < 0 || (dimension > 0 && elements > kMostElements / dimension)) {
        return error(ErrorKind::kBadRequest, "tensor \"{}\" has the illegal shape [{}]", tensor.name,
                     fmt::join(tensor.shape, ", "));
      }
      elements *= dimension;
    }
    total += elements;
    if (total > kMostElements) return error(ErrorKind::kBadRequest, "the model has more than {} parameters", kMostElements);
    if (!names.insert(tensor.name).second)
      return error(ErrorKind::kBadRequest, "tensor \"{}\" stands twice in the table", tensor.name);
  }
  return {};
}

std::optional<std::string> first_difference(const TensorTable& a, const TensorTable& b) {
  const std::size_t common = std::min(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (a.tensors[i] != b.tensors[i])
      return fmt::format("tensor {}: {} against {}", i, describe(a.tensors[i]), describe(b.tensors[i]));
  }
  if (a.tensors.size() != b.tensors.size())
    return fmt::format("the number of tensors: {} against {}", a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < std::min(a.layers.size(), b.layers.size()); ++i) {
    if (a.layers[i] != b.layers[i]) return fmt::format("layer {}: \"{}\" against \"{}\"", i, a.layers[i], b.layers[i]);
  }
  if (a.layers.size() != b.layers.size())
    return fmt::format("the number of layers: {} against {}", a.layers.size(), b.layers.size());
  return std::nullopt;
}

void encode(const TensorTable& table, Writer& to) {
  to.put_list(table.tensors, [](Writer& writer, const TensorInfo& tensor) {
    writer.put_text(tensor.name);
    writer.put_text(tensor.dtype);
    writer.put_list(tensor.shape, [](Writer& w, std::int64_t dimension) { w.put(dimension); });
    writer.put(tensor.layer.index);
    writer.put(static_cast<std::uint32_t>(tensor.group) | (tensor.frozen ? kFrozenBit : 0));
  });
  to.put_list(table.layers, [](Writer& writer, const std::string& name) { writer.put_text(name); });
}

TensorTable decode_tensor_table(Reader& from) {
  TensorTable table;
  table.tensors = from.get_list<TensorInfo>(20, [](Reader& reader) {
    TensorInfo tensor;
    tensor.name = reader.get_text();
    tensor.dtype = reader.get_text();
    tensor.shape = reader.get_list<std::int64_t>(8, [](Reader& r) { return r.get<std::int64_t>(); });
    tensor.layer.index = reader.get<std::int32_t>();
    const auto word = reader.get<std::uint32_t>();
    tensor.group = static_cast<std::int32_t>(word & ~kFrozenBit);
    tensor.frozen = (word & kFrozenBit) != 0;
    return tensor;
  });
  table.layers = from.get_list<std::string>(4, [](Reader& reader) { return reader.get_text(); });
  return table;
}

}  // namespace paceline::wire
