#include "runtime/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace paceline::runtime {
namespace {

// One call writes at most so much, so that a disk that fills up is noticed soon.
constexpr std::size_t kMostAtOnce = std::size_t{8} << 20;

Status system_error(const char* what, const std::string& path, int number) {
  return error(ErrorKind::kIo, "cannot {} {}: {}", what, path, std::generic_category().message(number));
}

class SystemWriter final : public FileWriter {
 public:
  SystemWriter(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~SystemWriter() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return system_error("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
  }

  Status finish() override {
    if (::fsync(descriptor_) != 0) return system_error("write", path_, errno);
    // After close() fails, the descriptor is gone all the same.
    if (::close(std::exchange(descriptor_, -1)) != 0) return system_error("close", path_, errno);
    return {};
  }

 private:
  int descriptor_;
  std::string path_;
};

class SystemReader final : public FileReader {
 public:
  SystemReader(int descriptor, std::string path, std::uint64_t size)
      : descriptor_(descriptor), path_(std::move(path)), size_(size) {}
  ~SystemReader() override { ::close(descriptor_); }

  std::uint64_t size() const override { return size_; }

  Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      const ssize_t got = ::pread(descriptor_, to.data(), std::min(to.size(), kMostAtOnce), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error("read", path_, errno);
      if (got == 0) return error(ErrorKind::kCorrupt, "{} is cut off at byte {}", path_, offset);
      offset += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
    return {};
  }

 private:
  int descriptor_;
  std::string path_;
  std::uint64_t size_;
};

class SystemLock final : public DirectoryLock {
 public:
  explicit SystemLock(int descriptor) : descriptor_(descriptor) {}
  ~SystemLock() override { ::close(descriptor_); }

 private:
  int descriptor_;
};

class SystemFiles final : public Files {
 public:
  Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return system_error("read the directory", path, errno);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return std::unique_ptr<DirectoryLock>(new SystemLock(descriptor));
    const int failed = errno;
    ::close(descriptor);
    if (failed == EWOULDBLOCK) return error(ErrorKind::kOverloaded, "another process is using {}", path);
    return system_error("lock the directory", path, failed);
  }

  Result<std::unique_ptr<FileWriter>> create(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) return system_error("write", path, errno);
    return std::unique_ptr<FileWriter>(new SystemWriter(descriptor, path));
  }

  Result<std::unique_ptr<FileReader>> open(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return system_error("read", path, errno);
    struct stat about {};
    if (::fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) {
      ::close(descriptor);
      return error(ErrorKind::kIo, "cannot read {}: it is no file", path);
    }
    return std::unique_ptr<FileReader>(new SystemReader(descriptor, path, static_cast<std::uint64_t>(about.st_size)));
  }

  Status make_directories(const std::string& path) override {
    std::error_code problem;
    std::filesystem::create_directories(path, problem);
    return problem ? system_error("make the directory", path, problem.value()) : Status();
  }

  Status rename(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0 ? Status() : system_error("write", to, errno);
  }

  Status sync_directory(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return system_error("write", path, errno);
    const int failed = ::fsync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    return failed == 0 ? Status() : system_error("write", path, failed);
  }

  Status remove_all(const std::string& path) override {
    std::error_code problem;
    std::filesystem::remove_all(path, problem);
    return problem ? system_error("remove", path, problem.value()) : Status();
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code problem;
    for (std::filesystem::directory_iterator entry(path, problem), end; !problem && entry != end; entry.increment(problem)) {
      names.push_back(entry->path().filename().string());
    }
    if (problem && problem != std::errc::no_such_file_or_directory)
      return system_error("read the directory", path, problem.value());
    std::ranges::sort(names);
    return names;
  }
};

Status write_and_rename(Files& files, const std::string& path, const std::string& temporary,
                        std::span<const std::span<const std::byte>> pieces) {
  {
    PACELINE_ASSIGN_OR_RETURN(const auto writer, files.create(temporary));
    for (const auto piece : pieces) PACELINE_RETURN_IF_ERROR(writer->append(piece));
    PACELINE_RETURN_IF_ERROR(writer->finish());
  }
  PACELINE_RETURN_IF_ERROR(files.rename(temporary, path));
  return files.sync_directory(std::filesystem::path(path).parent_path().string());
}

}  // namespace

Files& system_files() {
  static SystemFiles files;
  return files;
}

Status write_file(Files& files, const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  const std::string temporary = path + ".tmp";
  Status status = write_and_rename(files, path, temporary, pieces);
  if (!status.ok()) (void)files.remove_all(temporary);  // what counts is the first failure
  return status;
}

}  // namespace paceline::runtime
