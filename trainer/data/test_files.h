// For the tests of this folder: small files of the real formats in a folder of their own.
#pragma once

#include <cstdio>  // before jpeglib.h, which needs FILE
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <jpeglib.h>
#include <spng.h>
#include <stdlib.h>
#include <zlib.h>

#include "trainer/data/dataset.h"

namespace paceline::trainer::data {

// Gone, with everything in it, at the end of the test.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "paceline-data-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(path_); }

  std::string path(const std::string& name = "") const { return name.empty() ? path_.string() : (path_ / name).string(); }

  // Makes the folders on the way.
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path path_;
};

inline std::string big_endian(const std::vector<std::uint32_t>& numbers) {
  std::string bytes;
  for (const std::uint32_t n : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(n >> shift & 255);
  }
  return bytes;
}

// Byte i of the pixels is i mod 251.
inline std::string some_bytes(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 251);
  return bytes;
}
inline std::string idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
  return big_endian({0x803, count, rows, columns}) + some_bytes(std::size_t{count} * rows * columns);
}
// Label i is i mod 10.
inline std::string idx_labels(std::uint32_t count) {
  std::string bytes = big_endian({0x801, count});
  for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

inline std::string gzipped(const std::string& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// `samples` holds height x width x components bytes.
inline std::string jpeg(int width, int height, const std::vector<std::uint8_t>& samples, J_COLOR_SPACE space = JCS_RGB,
                        int components = 3) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = components;
  info.in_color_space = space;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(samples.data() + y * width * components);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(memory), bytes);
  free(memory);
  return file;
}

inline std::string png(int width, int height, const std::vector<std::uint8_t>& samples,
                       spng_color_type type = SPNG_COLOR_TYPE_TRUECOLOR) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr head{};
  head.width = static_cast<std::uint32_t>(width);
  head.height = static_cast<std::uint32_t>(height);
  head.bit_depth = 8;
  head.color_type = static_cast<std::uint8_t>(type);
  spng_set_ihdr(context, &head);
  EXPECT_EQ(spng_encode_image(context, samples.data(), samples.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
  std::size_t bytes = 0;
  int problem = 0;
  void* memory = spng_get_png_buffer(context, &bytes, &problem);
  std::string file(static_cast<char*>(memory), bytes);
  free(memory);
  spng_ctx_free(context);
  return file;
}

// An image of one colour.
inline std::vector<std::uint8_t> plain_colour(int width, int height, std::vector<std::uint8_t> colour) {
  std::vector<std::uint8_t> samples;
  for (int i = 0; i < width * height; ++i) samples.insert(samples.end(), colour.begin(), colour.end());
  return samples;
}

// Fails unless `status` is an error of `kind` whose message holds all of `parts`.
inline void expect_error(const Status& status, ErrorKind kind, const std::vector<std::string>& parts, const std::string& what) {
  ASSERT_FALSE(status.ok()) << what;
  EXPECT_EQ(status.kind(), kind) << what << ": " << status.message();
  for (const std::string& part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos) << what << ": '" << part << "' not in: " << status.message();
}

}  // namespace paceline::trainer::data
