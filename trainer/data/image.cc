#include "trainer/data/image.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which needs FILE
#include <cstring>
#include <memory>

#include <spng.h>
// jerror.h declares fewer messages when it is not included after jpeglib.h.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

namespace paceline::trainer::data {
namespace {

Status too_large(const std::string& name, std::uint64_t width, std::uint64_t height) {
  return error(ErrorKind::kBadRequest, "{}: an image of {} x {} pixels, expected at least one and at most {} pixels", name, width,
               height, kLargestImage);
}

bool size_ok(std::uint64_t width, std::uint64_t height) {
  return width > 0 && height > 0 && width <= static_cast<std::uint64_t>(kLargestImage) &&
         height <= static_cast<std::uint64_t>(kLargestImage) / width;
}

// libjpeg reports an error by leaving through longjmp, so everything it may jump over lives here, outside the jumping function.
struct JpegReader {
  jpeg_error_mgr errors{};
  jpeg_decompress_struct info{};
  std::jmp_buf bail_out{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  bool created = false;

  JpegReader() {
    info.err = jpeg_std_error(&errors);
    info.client_data = this;
    errors.error_exit = [](j_common_ptr common) {
      auto* self = static_cast<JpegReader*>(common->client_data);
      (*common->err->format_message)(common, self->message.data());
      std::longjmp(self->bail_out, 1);
    };
    // Stray bytes between markers are common and harmless; data that ends early or makes no sense is not.
    errors.emit_message = [](j_common_ptr common, int level) {
      if (level >= 0) return;
      const int code = common->err->msg_code;
      if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE ||
          code == JWRN_MUST_RESYNC) {
        (*common->err->error_exit)(common);
      }
    };
    errors.output_message = [](j_common_ptr) {};
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() {
    if (created) jpeg_destroy_decompress(&info);
  }
};

// Each step returns false after libjpeg gave up; no object with a destructor may begin inside.
bool read_jpeg_head(JpegReader& reader, std::span<const std::byte> content) {
  if (setjmp(reader.bail_out) != 0) return false;
  jpeg_create_decompress(&reader.info);
  reader.created = true;
  jpeg_mem_src(&reader.info, reinterpret_cast<const unsigned char*>(content.data()), content.size());
  jpeg_read_header(&reader.info, TRUE);
  const bool four_inks = reader.info.jpeg_color_space == JCS_CMYK || reader.info.jpeg_color_space == JCS_YCCK;
  reader.info.out_color_space = four_inks ? JCS_CMYK : JCS_RGB;
  reader.info.dct_method = JDCT_ISLOW;
  return true;
}

bool read_jpeg_rows(JpegReader& reader, std::uint8_t* to, std::size_t row_bytes) {
  if (setjmp(reader.bail_out) != 0) return false;
  jpeg_start_decompress(&reader.info);
  while (reader.info.output_scanline < reader.info.output_height) {
    JSAMPROW row = to + reader.info.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.info, &row, 1);
  }
  jpeg_finish_decompress(&reader.info);
  return true;
}

// Ink to light. Adobe's files, which is nearly all with four inks, store the inks inverted.
void cmyk_to_rgb(std::span<const std::uint8_t> inks, bool inverted, std::span<std::uint8_t> rgb) {
  for (std::size_t pixel = 0; pixel * 4 < inks.size(); ++pixel) {
    const auto light = [&](std::size_t i) {
      return static_cast<unsigned>(inverted ? inks[pixel * 4 + i] : 255 - inks[pixel * 4 + i]);
    };
    for (std::size_t c = 0; c < 3; ++c) rgb[pixel * 3 + c] = static_cast<std::uint8_t>((light(c) * light(3) + 127) / 255);
  }
}

Result<Image> decode_jpeg(std::span<const std::byte> content, const std::string& name) {
  JpegReader reader;
  if (!read_jpeg_head(reader, content))
    return error(ErrorKind::kBadRequest, "{}: unreadable JPEG: {}", name, reader.message.data());
  if (!size_ok(reader.info.image_width, reader.info.image_height))
    return too_large(name, reader.info.image_width, reader.info.image_height);
  const bool four_inks = reader.info.out_color_space == JCS_CMYK;
  Image image{.width = reader.info.image_width, .height = reader.info.image_height};
  const auto pixels = static_cast<std::size_t>(image.width * image.height);
  image.rgb.resize(pixels * 3);
  std::vector<std::uint8_t> inks(four_inks ? pixels * 4 : 0);
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * (four_inks ? 4 : 3);
  if (!read_jpeg_rows(reader, four_inks ? inks.data() : image.rgb.data(), row_bytes)) {
    return error(ErrorKind::kBadRequest, "{}: unreadable JPEG: {}", name, reader.message.data());
  }
  if (four_inks) cmyk_to_rgb(inks, reader.info.saw_Adobe_marker != 0, image.rgb);
  return image;
}

Result<Image> decode_png(std::span<const std::byte> content, const std::string& name) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(0), &spng_ctx_free);
  if (!context) return error(ErrorKind::kOverloaded, "{}: no memory to decode it", name);
  const auto unreadable = [&](int problem) {
    return error(ErrorKind::kBadRequest, "{}: unreadable PNG: {}", name, spng_strerror(problem));
  };
  constexpr std::size_t kChunk = std::size_t{64} << 20;
  if (const int problem = spng_set_chunk_limits(context.get(), kChunk, kChunk)) return unreadable(problem);
  if (const int problem = spng_set_png_buffer(context.get(), content.data(), content.size())) return unreadable(problem);
  spng_ihdr head{};
  if (const int problem = spng_get_ihdr(context.get(), &head)) return unreadable(problem);
  if (!size_ok(head.width, head.height)) return too_large(name, head.width, head.height);
  Image image{.width = head.width, .height = head.height};
  std::size_t bytes = 0;
  if (const int problem = spng_decoded_image_size(context.get(), SPNG_FMT_RGB8, &bytes)) return unreadable(problem);
  PACELINE_CHECK(bytes == static_cast<std::size_t>(image.width * image.height * 3), "{} bytes for {} x {} pixels", bytes,
                 image.width, image.height);
  image.rgb.resize(bytes);
  if (const int problem = spng_decode_image(context.get(), image.rgb.data(), bytes, SPNG_FMT_RGB8, 0)) return unreadable(problem);
  return image;
}

// Which source positions make an output position, and with which weights.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights{};
};

// A side of `from` pixels scaled to `to`, of which `count` pixels from the centre are wanted.
std::vector<Taps> triangle_taps(std::int64_t from, std::int64_t to, std::int64_t count) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  const std::int64_t skipped = (to - count) / 2;
  std::vector<Taps> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const double centre = (static_cast<double>(i + skipped) + 0.5) * scale;  // the middle of pixel p lies at p + 0.5
    const auto first = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(centre - reach)), 0, from - 1);
    const auto last = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(centre + reach)), first, from - 1);
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t p = first; p <= last; ++p) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(p) + 0.5 - centre) / reach));
      sum += weights.back();
    }
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = first;
    for (const double weight : weights) taps.weights.push_back(static_cast<float>(weight / sum));
  }
  return all;
}

}  // namespace

ImageFormat image_format(std::span<const std::byte> content) {
  constexpr std::array<unsigned char, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  constexpr std::array<unsigned char, 3> kJpeg = {0xff, 0xd8, 0xff};
  if (content.size() >= kPng.size() && std::memcmp(content.data(), kPng.data(), kPng.size()) == 0) return ImageFormat::kPng;
  if (content.size() >= kJpeg.size() && std::memcmp(content.data(), kJpeg.data(), kJpeg.size()) == 0) return ImageFormat::kJpeg;
  return ImageFormat::kUnknown;
}

Result<Image> decode_image(std::span<const std::byte> content, const std::string& name) {
  switch (image_format(content)) {
    case ImageFormat::kJpeg:
      return decode_jpeg(content, name);
    case ImageFormat::kPng:
      return decode_png(content, name);
    case ImageFormat::kUnknown:
      break;
  }
  return error(ErrorKind::kBadRequest, "{}: unreadable image: neither JPEG nor PNG by its first bytes ({} bytes in all)", name,
               content.size());
}

void resize_and_crop(const Image& image, std::int64_t size, std::vector<std::uint8_t>& planes) {
  PACELINE_CHECK(image.width > 0 && image.height > 0 && size > 0, "{} x {} pixels to {}", image.width, image.height, size);
  const std::int64_t shorter = std::min(image.width, image.height);
  const auto scaled = [&](std::int64_t side) { return (side * size * 2 + shorter) / (shorter * 2); };  // rounded to the nearest
  const std::vector<Taps> across = triangle_taps(image.width, scaled(image.width), size);
  const std::vector<Taps> down = triangle_taps(image.height, scaled(image.height), size);

  const std::int64_t first_row = down.front().first;
  const std::int64_t rows = down.back().first + static_cast<std::int64_t>(down.back().weights.size()) - first_row;
  const auto side = static_cast<std::size_t>(size);
  std::vector<float> narrowed(static_cast<std::size_t>(rows) * side * 3);
  for (std::int64_t y = 0; y < rows; ++y) {
    const std::uint8_t* source = image.rgb.data() + (first_row + y) * image.width * 3;
    float* to = narrowed.data() + static_cast<std::size_t>(y) * side * 3;
    for (std::size_t x = 0; x < side; ++x) {
      std::array<float, 3> sum{};
      const std::uint8_t* pixel = source + across[x].first * 3;
      for (const float weight : across[x].weights) {
        for (std::size_t c = 0; c < 3; ++c) sum[c] += weight * static_cast<float>(*pixel++);
      }
      for (std::size_t c = 0; c < 3; ++c) to[x * 3 + c] = sum[c];
    }
  }
  planes.resize(3 * side * side);
  for (std::size_t y = 0; y < side; ++y) {
    const float* top = narrowed.data() + static_cast<std::size_t>(down[y].first - first_row) * side * 3;
    for (std::size_t x = 0; x < side * 3; ++x) {
      float sum = 0;
      for (std::size_t tap = 0; tap < down[y].weights.size(); ++tap) sum += down[y].weights[tap] * top[tap * side * 3 + x];
      planes[x % 3 * side * side + y * side + x / 3] = static_cast<std::uint8_t>(std::clamp(sum + 0.5f, 0.0f, 255.0f));
    }
  }
}

}  // namespace paceline::trainer::data
