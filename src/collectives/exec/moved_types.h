// Elements of collective operations. Those that are added are of tensor::DType; operations that add nothing move others too, which
// have the numbers behind it, a name and a size, and no kernel. Pure; any thread.
#pragma once

#include <array>

#include "tensor/dtype.h"
#include "wire/collective.h"

namespace paceline::collectives {

struct MovedType {
  const char* name;
  std::size_t size;
};
// By number, as on the wire and in the C interface: never renumber.
inline constexpr std::array<MovedType, wire::kCollectiveDTypes> kMovedTypes = {{
    {"float32", 4},        {"float64", 8},
    {"int32", 4},          {"float16", 2},
    {"bfloat16", 2},       {"int64", 8},
    {"int16", 2},          {"int8", 1},
    {"uint8", 1},          {"bool", 1},
    {"uint16", 2},         {"uint32", 4},
    {"uint64", 8},         {"complex32", 4},
    {"complex64", 8},      {"complex128", 16},
    {"float8_e4m3fn", 1},  {"float8_e4m3fnuz", 1},
    {"float8_e5m2", 1},    {"float8_e5m2fnuz", 1},
    {"float8_e8m0fnu", 1},
}};
static_assert(wire::kAddedCollectiveDTypes == tensor::kDTypeCount);

constexpr const MovedType& moved(tensor::DType type) {
  const auto number = static_cast<std::size_t>(type);
  PACELINE_CHECK(number < kMovedTypes.size(), "{} is no element type", number);
  return kMovedTypes[number];
}

}  // namespace paceline::collectives
