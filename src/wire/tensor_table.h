// The tensors of a job in forward order: what workers must agree on before the first iteration, and what servers know of a model.
// The values of all tensors stand one behind the other in one array of float32 (the *arena*), in the order of the table; a
// tensor's place in it is `offset`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "wire/codec.h"

namespace paceline::wire {

struct TensorInfo {
  std::string name;   // as in the network: "conv1.weight"
  std::string dtype;  // "float32"
  std::vector<std::int64_t> shape;
  Layer layer;             // ascending over the table
  std::int32_t group = 0;  // parameter group: index into the job's options
  bool frozen = false;     // has rank 0's initial value on all workers for ever, and no gradient

  std::int64_t elements() const;
  bool operator==(const TensorInfo&) const = default;
};

struct TensorTable {
  std::vector<TensorInfo> tensors;
  std::vector<std::string> layers;  // names, by Layer::index

  std::int64_t elements() const;              // of the arena
  std::vector<std::int64_t> offsets() const;  // of each tensor in the arena, in elements; one more at the end: the total
  bool operator==(const TensorTable&) const = default;
};

// Why `table` cannot be trained: empty or all frozen, a dtype other than float32, layers not ascending from 0 or without a name,
// elements that overflow, a negative dimension, a name twice, frozen tensors that do not stand last in layers of their own.
Status validate(const TensorTable& table);

// `tensor 7: "fc1.weight" float32 [4096, 25088] against float32 [4096, 9216]`; nothing when equal.
std::optional<std::string> first_difference(const TensorTable& a, const TensorTable& b);

void encode(const TensorTable& table, Writer& to);
TensorTable decode_tensor_table(Reader& from);  // from.ok() tells

}  // namespace paceline::wire
