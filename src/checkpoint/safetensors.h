// The safetensors format, which most tools for networks read: length of the header (u64, little-endian), header (JSON: name ->
// dtype, shape, place), then the tensors' bytes. Plain function, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"

namespace paceline::checkpoint {

struct ExportedTensor {
  std::string name;
  std::string dtype;  // as in paceline: float32, float64, int64, int32, uint8, bool
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// The file is there completely or not at all. kIo naming it; kBadRequest for a dtype that is not in the list.
Status write_safetensors(Files& files, const std::string& path, const std::vector<ExportedTensor>& tensors,
                         const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace paceline::checkpoint
