// Any bytes as a JPEG or PNG file.
#include <cstdlib>

#include "trainer/data/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace paceline::trainer::data;
  const auto image = decode_image({reinterpret_cast<const std::byte*>(bytes), size}, "fuzz");
  if (!image.ok()) return 0;
  if (image->rgb.size() != static_cast<std::size_t>(image->width * image->height * 3)) std::abort();
  std::vector<std::uint8_t> planes;
  resize_and_crop(*image, 8, planes);
  if (planes.size() != 3 * 8 * 8) std::abort();
  return 0;
}
