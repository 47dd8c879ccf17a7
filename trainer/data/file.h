// Reading files by position, with errors that name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/quantity.h"
#include "base/status.h"

namespace paceline::trainer::data {

// An open file. Any number of threads may read at once. Moves, does not copy.
class File {
 public:
  // kBadRequest when there is no such file or it is not a regular one, kIo when the system refuses.
  static Result<File> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return static_cast<std::int64_t>(reader_->size()); }  // when it was opened

  // Fills `to` from `offset` on; kBadRequest when the file ends before that.
  Status read_at(std::int64_t offset, std::span<std::byte> to) const;

 private:
  File(std::filesystem::path path, std::unique_ptr<FileReader> reader) : path_(std::move(path)), reader_(std::move(reader)) {}
  std::filesystem::path path_;
  std::unique_ptr<FileReader> reader_;
};

// The whole file. kBadRequest when it is larger than `limit`.
Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, Bytes limit);

// Big-endian and little-endian numbers at a byte position of a buffer that is long enough.
std::uint32_t big_endian_32(std::span<const std::byte> bytes, std::size_t at);

// Inflates gzip data held in memory (several members follow each other as gunzip allows). Gives the first `limit` bytes of the
// content; a stream that is damaged before that, or ends inside a member, is kBadRequest. Memory grows with what really comes out.
// `name` is for messages.
struct Inflated {
  std::vector<std::byte> bytes;
  bool more = false;  // the content goes on behind `limit`
};
Result<Inflated> gunzip(std::span<const std::byte> compressed, std::int64_t limit, const std::string& name);

}  // namespace paceline::trainer::data
