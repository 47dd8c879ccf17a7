// Files and directories of the system, behind an interface, so that tests can make any operation fail or lose what was not
// synchronised. What is read is a regular file, what is written becomes one: anything else (a directory, a device, a pipe, a
// socket) is refused, and opening never blocks. Errors name the path and the system's reason: kBadRequest when there is no such
// file or it is none, kIo when the system refuses.
//
// Threads: any, as long as no two write the same path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline {

class FileWriter {
 public:
  virtual ~FileWriter() = default;  // closes; says nothing about the disk
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // Replaces the first bytes of what was appended.
  virtual Status overwrite_beginning(std::span<const std::byte> bytes) = 0;
  // What was appended is on the disk, and the file is closed. Once, last.
  virtual Status finish() = 0;
};

class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual std::uint64_t size() const = 0;  // when it was opened
  // Exactly to.size() bytes from `offset`; kCorrupt when the file has fewer. Any number of threads at once.
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
  // A new file; kOverloaded when there is something of this name: take another one.
  virtual Result<std::unique_ptr<FileWriter>> create(const std::string& path) = 0;
  virtual Result<std::unique_ptr<FileReader>> open(const std::string& path) = 0;
  // The path of the file that writing to `path` makes or replaces: that of its target where `path` is a symbolic link, even when
  // nothing is there yet. kBadRequest when something else than a regular file is there, or no folder to put it in.
  virtual Result<std::string> destination(const std::string& path) = 0;
  virtual Status make_directories(const std::string& path) = 0;               // with all above it; one that is there is well
  virtual Status rename(const std::string& from, const std::string& to) = 0;  // replaces a file, or an empty directory
  virtual Status sync_directory(const std::string& path) = 0;                 // its entries are on the disk
  virtual Status remove_file(const std::string& path) = 0;                    // nothing there is well
  virtual Status remove_directory_if_empty(const std::string& path) = 0;      // one that holds something stays, and is well
  // Names, ascending; nothing when there is no such directory.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
};

// The operating system's.
Files& system_files();

// All of a file. kBadRequest also when it has more than `limit` bytes.
Result<std::string> read_text(Files& files, const std::string& path, Bytes limit);

}  // namespace paceline
