#include "tensor/dtype.h"

#include <array>

namespace paceline::tensor {
namespace {

constexpr std::array<const char*, kDTypeCount> kNames = {"float32", "float64", "int32", "float16", "bfloat16"};

}  // namespace

const char* name_of(DType dtype) {
  PACELINE_CHECK(is_dtype(static_cast<std::uint8_t>(dtype)), "{} is no element type", static_cast<int>(dtype));
  return kNames[static_cast<std::size_t>(dtype)];
}

}  // namespace paceline::tensor
