// The few operations on files that checkpoints need, behind an interface, so that tests can make any of them fail or lose what was
// not synchronised. Errors are kIo and name the path and the system's reason.
//
// Threads: any, as long as no two use the same path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::runtime {

class FileWriter {
 public:
  virtual ~FileWriter() = default;  // closes; says nothing about the disk
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // What was appended is on the disk, and the file is closed. Once, last.
  virtual Status finish() = 0;
};

class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual std::uint64_t size() const = 0;
  // Exactly to.size() bytes from `offset`; kCorrupt when the file has fewer.
  virtual Status read(std::uint64_t offset, std::span<std::byte> to) const = 0;
};

// Held as long as it lives; the system frees it when the process dies.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};

class Files {
 public:
  virtual ~Files() = default;
  // kOverloaded when another process has it.
  virtual Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path) = 0;
  virtual Result<std::unique_ptr<FileWriter>> create(const std::string& path) = 0;  // empties one that is there
  virtual Result<std::unique_ptr<FileReader>> open(const std::string& path) = 0;
  virtual Status make_directories(const std::string& path) = 0;               // with all above it; one that is there is well
  virtual Status rename(const std::string& from, const std::string& to) = 0;  // replaces a file, or an empty directory
  virtual Status sync_directory(const std::string& path) = 0;                 // its entries are on the disk
  virtual Status remove_all(const std::string& path) = 0;                     // nothing there is well
  // Names, ascending; nothing when the directory does not exist.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
};

// The operating system's.
Files& system_files();

// Writes `pieces` one behind the other as the file `path`, which is there completely or not at all whatever happens in between:
// under another name first, synchronised, renamed, the directory synchronised. On failure nothing is left behind, if the disk lets
// it.
Status write_file(Files& files, const std::string& path, std::span<const std::span<const std::byte>> pieces);

}  // namespace paceline::runtime
