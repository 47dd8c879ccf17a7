// IDX files, the format of MNIST: big-endian magic 0x00000803 (bytes, 3 dimensions) or 0x00000801 (1 dimension), the dimensions,
// the bytes. Plain or gzip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"

namespace paceline::trainer::data {

struct IdxImages {
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::byte> pixels{};  // count x rows x columns
};

// From a file's content, gzip or not. `name` is for messages. kBadRequest: wrong magic, a dimension of zero, fewer or more bytes
// than the dimensions say. No more memory is taken than the dimensions say or the stream really holds, whichever is less.
Result<IdxImages> parse_idx_images(std::span<const std::byte> content, const std::string& name);
Result<std::vector<std::uint8_t>> parse_idx_labels(std::span<const std::byte> content, const std::string& name);

// The four files of MNIST by their usual names, each plain or with ".gz", in `folder`. Ten classes. Images and labels must agree in
// number, the halves in the size of the images.
struct IdxSet {
  std::string name;
  Normalisation normalisation;
};
Result<DatasetPair> open_idx(const std::filesystem::path& folder, const IdxSet& set);
// Each of the four names, plain and with ".gz", there or not.
std::vector<std::filesystem::path> idx_files(const std::filesystem::path& folder);

}  // namespace paceline::trainer::data
