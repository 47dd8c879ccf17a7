#include "checkpoint/safetensors.h"

#include <array>
#include <map>

#include <nlohmann/json.hpp>

#include "base/new_file.h"

namespace paceline::checkpoint {
namespace {

constexpr std::size_t kAlignment = 8;  // of the tensors' bytes, so that a file can be mapped

const std::map<std::string, std::string>& dtype_names() {
  static const std::map<std::string, std::string> names = {{"float32", "F32"}, {"float64", "F64"}, {"int64", "I64"},
                                                           {"int32", "I32"},   {"uint8", "U8"},    {"bool", "BOOL"}};
  return names;
}

}  // namespace

Status write_safetensors(Files& files, const std::string& path, const std::vector<ExportedTensor>& tensors,
                         const std::vector<std::pair<std::string, std::string>>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  std::uint64_t place = 0;
  for (const ExportedTensor& tensor : tensors) {
    const auto dtype = dtype_names().find(tensor.dtype);
    if (dtype == dtype_names().end())
      return error(ErrorKind::kBadRequest, "\"{}\" is of {}, which --export cannot write", tensor.name, tensor.dtype);
    header[tensor.name] = {
        {"dtype", dtype->second}, {"shape", tensor.shape}, {"data_offsets", {place, place + tensor.bytes.size()}}};
    place += tensor.bytes.size();
  }
  // A folder's name, and so a class's, need not be UTF-8.
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  std::array<std::byte, 8> length;
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::byte>(static_cast<std::uint64_t>(text.size()) >> (8 * i));
  std::vector<std::span<const std::byte>> pieces = {length, std::as_bytes(std::span<const char>(text))};
  for (const ExportedTensor& tensor : tensors) pieces.push_back(tensor.bytes);
  return write_file(files, path, pieces);
}

}  // namespace paceline::checkpoint
