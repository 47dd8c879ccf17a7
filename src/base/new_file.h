// A file that is there under its name completely or not at all, whatever happens in between: written beside it under a name that
// nothing else has, synchronised, renamed. A regular file that was there is replaced; a symbolic link
// stays, and what it points to is replaced; anything else is refused before a byte is written. One that is not finished leaves
// nothing behind, if the disk lets it.
//
// Threads: as Files.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/files.h"

namespace paceline {

// Names of files that are being written end so.
inline constexpr std::string_view kTemporarySuffix = ".tmp";

class NewFile {
 public:
  // `files` outlives it.
  static Result<std::unique_ptr<NewFile>> create(Files& files, const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  FileWriter& writer() { return *writer_; }
  const std::string& path() const { return path_; }  // links resolved
  // The file gets its name. Once, last; instead of the writer's.
  Status finish();

 private:
  NewFile(Files& files, std::string path, std::string temporary, std::unique_ptr<FileWriter> writer)
      : files_(files), path_(std::move(path)), temporary_(std::move(temporary)), writer_(std::move(writer)) {}

  Files& files_;
  std::string path_, temporary_;
  std::unique_ptr<FileWriter> writer_;
  bool has_name_ = false;
};

// `pieces` one behind the other; the directory is synchronised too.
Status write_file(Files& files, const std::string& path, std::span<const std::span<const std::byte>> pieces);
Status write_file(Files& files, const std::string& path, std::string_view text);

// Whether a file of this name could be written now; makes none.
Status can_write(Files& files, const std::string& path);

}  // namespace paceline
