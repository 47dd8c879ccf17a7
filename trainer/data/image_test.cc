#include "trainer/data/image.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"
#include "trainer/data/test_files.h"

namespace paceline::trainer::data {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(DecodeImage, ReadsPngExactly) {
  std::vector<std::uint8_t> rgb;
  for (int i = 0; i < 7 * 5 * 3; ++i) rgb.push_back(static_cast<std::uint8_t>(i * 37));
  const auto image = decode_image(bytes_of(png(7, 5, rgb)), "x.png");
  ASSERT_TRUE(image.ok()) << image.status().message();
  EXPECT_EQ(image->width, 7);
  EXPECT_EQ(image->height, 5);
  EXPECT_EQ(image->rgb, rgb);
}

TEST(DecodeImage, MakesGreyAndTransparentPngRgb) {
  EXPECT_EQ(decode_image(bytes_of(png(2, 1, {10, 200}, SPNG_COLOR_TYPE_GRAYSCALE)), "").value().rgb,
            (std::vector<std::uint8_t>{10, 10, 10, 200, 200, 200}));
  EXPECT_EQ(decode_image(bytes_of(png(1, 1, {1, 2, 3, 99}, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA)), "").value().rgb,
            (std::vector<std::uint8_t>{1, 2, 3}));
}

TEST(DecodeImage, ReadsJpegOfAnyColourSpaceWithinItsLoss) {
  const auto near = [](const std::string& file, std::vector<int> colour) {
    const auto image = decode_image(bytes_of(file), "x.jpg");
    ASSERT_TRUE(image.ok()) << image.status().message();
    ASSERT_EQ(image->rgb.size(), 16u * 8 * 3);
    for (std::size_t i = 0; i < image->rgb.size(); ++i) ASSERT_NEAR(image->rgb[i], colour[i % 3], 4);
  };
  near(jpeg(16, 8, plain_colour(16, 8, {200, 100, 50})), {200, 100, 50});
  near(jpeg(16, 8, plain_colour(16, 8, {77}), JCS_GRAYSCALE, 1), {77, 77, 77});
  // Inverted inks, as Adobe writes them: 255 is none. 200 * 128 / 255 = 100.
  near(jpeg(16, 8, plain_colour(16, 8, {200, 100, 50, 128}), JCS_CMYK, 4), {100, 50, 25});
}

TEST(DecodeImage, RefusesImagesLargerThanTheLimitBeforeTakingMemory) {
  std::string file = png(1, 1, {1, 2, 3});
  const std::string size = big_endian({60000, 60000});
  std::copy(size.begin(), size.end(), file.begin() + 16);
  const std::string crc = big_endian({static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(file.data()) + 12, 17))});
  std::copy(crc.begin(), crc.end(), file.begin() + 29);
  expect_error(decode_image(bytes_of(file), "huge.png").status(), ErrorKind::kBadRequest, {"huge.png", "60000 x 60000"}, "png");
  std::string other = jpeg(8, 8, plain_colour(8, 8, {1, 2, 3}));
  const std::size_t frame = other.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  other.replace(frame + 5, 4, "\xea\x60\xea\x60");
  expect_error(decode_image(bytes_of(other), "huge.jpg").status(), ErrorKind::kBadRequest, {"huge.jpg", "60000 x 60000"}, "jpeg");
}

TEST(DecodeImage, RefusesEveryTruncation) {
  std::vector<std::uint8_t> noise;
  Random random(1);
  for (int i = 0; i < 16 * 16 * 3; ++i) noise.push_back(static_cast<std::uint8_t>(random.next()));
  for (const std::string& file : {png(16, 16, noise), jpeg(16, 16, noise)}) {
    ASSERT_TRUE(decode_image(bytes_of(file), "").ok());
    for (std::size_t length = 0; length + 16 < file.size(); ++length) {
      expect_error(decode_image(bytes_of(file.substr(0, length)), "cut.img").status(), ErrorKind::kBadRequest,
                   {"cut.img", "unreadable"}, std::to_string(length));
    }
  }
}

// The twin: every output pixel straight from the definition, over the whole image, in two dimensions at once.
double twin_pixel(const Image& image, std::int64_t size, std::int64_t x, std::int64_t y, std::int64_t c) {
  const std::int64_t shorter = std::min(image.width, image.height);
  const auto side = [&](std::int64_t from) {
    return std::floor(static_cast<double>(from * size) / static_cast<double>(shorter) + 0.5);
  };
  const double to_w = side(image.width), to_h = side(image.height);
  const double scale_x = static_cast<double>(image.width) / to_w, scale_y = static_cast<double>(image.height) / to_h;
  const double centre_x = (static_cast<double>(x) + std::floor((to_w - static_cast<double>(size)) / 2) + 0.5) * scale_x;
  const double centre_y = (static_cast<double>(y) + std::floor((to_h - static_cast<double>(size)) / 2) + 0.5) * scale_y;
  double sum = 0, weights = 0;
  for (std::int64_t j = 0; j < image.height; ++j) {
    for (std::int64_t i = 0; i < image.width; ++i) {
      const double w = std::max(0.0, 1 - std::abs(static_cast<double>(i) + 0.5 - centre_x) / std::max(1.0, scale_x)) *
                       std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - centre_y) / std::max(1.0, scale_y));
      sum += w * image.rgb[static_cast<std::size_t>((j * image.width + i) * 3 + c)];
      weights += w;
    }
  }
  return sum / weights;
}

TEST(ResizeAndCrop, GivesWhatTheTwinGives) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    Image image{.width = static_cast<std::int64_t>(1 + random.below(14)),
                .height = static_cast<std::int64_t>(1 + random.below(14))};
    for (std::int64_t i = 0; i < image.width * image.height * 3; ++i) image.rgb.push_back(static_cast<std::uint8_t>(random.next()));
    const auto size = static_cast<std::int64_t>(1 + random.below(9));
    std::vector<std::uint8_t> planes;
    resize_and_crop(image, size, planes);
    ASSERT_EQ(static_cast<std::int64_t>(planes.size()), 3 * size * size);
    for (std::int64_t i = 0; i < 3 * size * size; ++i) {
      const double expected = twin_pixel(image, size, i % size, i / size % size, i / (size * size));
      ASSERT_NEAR(planes[static_cast<std::size_t>(i)], expected, 0.501) << "seed " << seed << " at " << i;
    }
  }
}

TEST(ResizeAndCrop, LeavesAnImageOfTheRightSizeAlone) {
  Image image{.width = 3, .height = 3};
  for (int i = 0; i < 27; ++i) image.rgb.push_back(static_cast<std::uint8_t>(i * 9));
  std::vector<std::uint8_t> planes;
  resize_and_crop(image, 3, planes);
  for (std::size_t i = 0; i < 27; ++i) EXPECT_EQ(planes[i % 3 * 9 + i / 3], image.rgb[i]);
}

}  // namespace
}  // namespace paceline::trainer::data
