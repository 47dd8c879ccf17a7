#include "base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fork.h"

namespace paceline {
namespace {

// One call writes at most so much, so that a disk that fills up is noticed soon.
constexpr std::size_t kMostAtOnce = std::size_t{8} << 20;
constexpr int kMostLinks = 40;  // the kernel's own limit

const char* code_of_number(int number) {
  if (number == ENOSPC || number == EDQUOT || number == EFBIG) return "disk-full";
  return number == ENOENT ? "no-file" : "";
}

Status system_error(const char* what, const std::string& path, int number) {
  const char* hint = number == EFBIG ? "; 'ulimit -f' says how large a file may be" : "";
  return Status(ErrorKind::kIo, fmt::format("cannot {} {}: {}{}", what, path, std::generic_category().message(number), hint),
                {code_of_number(number), ""});
}

// Why what is there is no regular file; success for one.
Status check_regular(const std::string& path, mode_t mode) {
  if (S_ISREG(mode)) return {};
  const char* kind = S_ISDIR(mode) ? "a directory (folder)" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
  return error(ErrorKind::kBadRequest, "{}: is not a regular file but {}", path, kind).because({"no-file", ""});
}

Status cannot_open(const std::string& path, int number) {
  const std::string reason = std::generic_category().message(number);
  if (number == ENOENT || number == ENOTDIR)
    return error(ErrorKind::kBadRequest, "{}: cannot be opened: {}", path, reason).because({"no-file", ""});
  return error(ErrorKind::kIo, "{}: cannot be opened: {}", path, reason);
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

  Status overwrite_beginning(std::span<const std::byte> bytes) override {
    for (off_t offset = 0; !bytes.empty();) {
      const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return system_error("write", path_, errno);
      offset += written;
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
    for (std::size_t done = 0; done < to.size();) {
      const std::size_t wanted = std::min(to.size() - done, kMostAtOnce);
      const ssize_t got = ::pread(descriptor_, to.data() + done, wanted, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return error(ErrorKind::kIo, "{}: cannot be read at byte {}: {}", path_, offset + done, std::strerror(errno));
      if (got == 0) {
        return error(ErrorKind::kCorrupt, "{}: ends at byte {}, {} bytes expected from byte {} on", path_, offset + done, to.size(),
                     offset);
      }
      done += static_cast<std::size_t>(got);
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
  explicit SystemLock(int descriptor) : descriptor_(descriptor) { close_in_children(descriptor); }
  // Children that this process forked have it too, until they have closed it.
  ~SystemLock() override {
    if (process_generation() == owner_) ::flock(descriptor_, LOCK_UN);
    ::close(descriptor_);
  }

 private:
  int descriptor_;
  std::uint64_t owner_ = process_generation();
};

class SystemFiles final : public Files {
 public:
  Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return system_error("read the directory", path, errno);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return std::unique_ptr<DirectoryLock>(new SystemLock(descriptor));
    const int failed = errno;
    ::close(descriptor);
    if (failed == EWOULDBLOCK) return error(ErrorKind::kOverloaded, "another process is using {}", path).because({"in-use", ""});
    return system_error("lock the directory", path, failed);
  }

  Result<std::unique_ptr<FileWriter>> create(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return std::unique_ptr<FileWriter>(new SystemWriter(descriptor, path));
    if (errno == EEXIST) return error(ErrorKind::kOverloaded, "{} is there already", path);
    return system_error("write", path, errno);
  }

  Result<std::unique_ptr<FileReader>> open(const std::string& path) override {
    struct stat about {};
    // What is no file is not even opened: a device may do something then, a socket cannot be.
    if (::stat(path.c_str(), &about) == 0) PACELINE_RETURN_IF_ERROR(check_regular(path, about.st_mode));
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return cannot_open(path, errno);
    const Status regular =
        ::fstat(descriptor, &about) == 0 ? check_regular(path, about.st_mode) : system_error("examine", path, errno);
    auto reader = std::make_unique<SystemReader>(descriptor, path, static_cast<std::uint64_t>(about.st_size));
    PACELINE_RETURN_IF_ERROR(regular);
    return std::unique_ptr<FileReader>(std::move(reader));
  }

  Result<std::string> destination(const std::string& path) override {
    struct stat about {};
    if (::stat(path.c_str(), &about) == 0)
      PACELINE_RETURN_IF_ERROR(check_regular(path, about.st_mode));
    else if (errno != ENOENT)
      return system_error("write", path, errno);
    std::filesystem::path target = path;
    if (!target.has_filename())
      return error(ErrorKind::kBadRequest, "{}: is the name of a folder, not of a file", path).because({"no-file", ""});
    // Link by link, since the last one may point to what is not there yet.
    std::error_code problem;
    for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(target, problem)); ++links) {
      if (links == kMostLinks) return system_error("write", path, ELOOP);
      const auto next = std::filesystem::read_symlink(target, problem);
      if (problem) return system_error("write", path, problem.value());
      target = target.parent_path() / next;
    }
    const std::filesystem::path folder = target.parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder, problem))
      return error(ErrorKind::kBadRequest, "{}: cannot be written: there is no folder {}", path, folder.string())
          .because({"no-file", ""});
    return target.string();
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

  Status remove_file(const std::string& path) override {
    return ::unlink(path.c_str()) == 0 || errno == ENOENT ? Status() : system_error("remove", path, errno);
  }

  Status remove_directory_if_empty(const std::string& path) override {
    const bool well = ::rmdir(path.c_str()) == 0 || errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST;
    return well ? Status() : system_error("remove the directory", path, errno);
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code problem;
    for (std::filesystem::directory_iterator entry(path, problem), end; !problem && entry != end; entry.increment(problem)) {
      names.push_back(entry->path().filename().string());
    }
    if (problem && problem != std::errc::no_such_file_or_directory && problem != std::errc::not_a_directory)
      return system_error("read the directory", path, problem.value());
    std::ranges::sort(names);
    return names;
  }
};

}  // namespace

Files& system_files() {
  static SystemFiles files;
  return files;
}

Result<std::string> read_text(Files& files, const std::string& path, Bytes limit) {
  PACELINE_ASSIGN_OR_RETURN(const auto file, files.open(path));
  if (file->size() > static_cast<std::uint64_t>(limit.count)) {
    return error(ErrorKind::kBadRequest, "{}: {} bytes, at most {} can be handled", path, file->size(), limit.count);
  }
  std::string text(file->size(), '\0');
  PACELINE_RETURN_IF_ERROR(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace paceline
