// Any bytes as an IDX file, plain or gzip.
#include <cstdlib>

#include "trainer/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace paceline::trainer::data;
  const std::span<const std::byte> content(reinterpret_cast<const std::byte*>(bytes), size);
  const auto images = parse_idx_images(content, "fuzz");
  if (images.ok() && images->pixels.size() != static_cast<std::size_t>(images->count * images->rows * images->columns))
    std::abort();
  const auto labels = parse_idx_labels(content, "fuzz");
  if (labels.ok() && labels->empty()) std::abort();
  return 0;
}
