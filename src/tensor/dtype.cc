#include "tensor/dtype.h"

#include <array>
#include <string>

#include "base/text.h"

namespace paceline::tensor {
namespace {

constexpr std::array<const char*, kDTypeCount> kNames = {"float32", "float64", "int32", "float16", "bfloat16"};

}  // namespace

const char* name_of(DType dtype) {
  PACELINE_CHECK(is_dtype(static_cast<std::uint8_t>(dtype)), "{} is no element type", static_cast<int>(dtype));
  return kNames[static_cast<std::size_t>(dtype)];
}

Result<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<DType>(i);
  }
  const std::array<std::string, kDTypeCount> candidates = {kNames[0], kNames[1], kNames[2], kNames[3], kNames[4]};
  return error(ErrorKind::kBadRequest, "'{}' is no element type{}; legal are float32, float64, int32, float16, bfloat16", name,
               suggestion(name, candidates));
}

}  // namespace paceline::tensor
