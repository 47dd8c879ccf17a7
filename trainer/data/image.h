// JPEG and PNG in memory to pixels, and pixels to the size that a network wants. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::trainer::data {

struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> rgb{};  // height x width x 3
};

// Pixels; a larger image is refused before memory is taken. A fuzzer gets few, so that it tries many files a second.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
constexpr std::int64_t kLargestImage = std::int64_t{1} << 16;
#else
constexpr std::int64_t kLargestImage = std::int64_t{1} << 26;
#endif

enum class ImageFormat { kUnknown, kJpeg, kPng };

// By the first bytes (8 are enough), whatever the file is called.
ImageFormat image_format(std::span<const std::byte> content);

// Grey, palette, 16-bit, CMYK and transparent images become RGB with 8 bits (transparency is left away). `name` is for messages.
// kBadRequest: neither JPEG nor PNG, damaged, truncated, larger than kLargestImage.
Result<Image> decode_image(std::span<const std::byte> content, const std::string& name);

// Scales the shorter side to `size` (bilinear; where it shrinks, averaging over what falls together), cuts out the centre. Gives
// 3 x size x size bytes, one plane per channel. `image` is not empty, `size` at least 1.
void resize_and_crop(const Image& image, std::int64_t size, std::vector<std::uint8_t>& planes);

}  // namespace paceline::trainer::data
