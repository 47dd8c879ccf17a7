#include "base/job_key_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace paceline {
namespace {

constexpr std::string_view kDescriptor = "fd:", kClearData = ",clear-data";
constexpr std::size_t kMostBytes = 64 << 10;  // of a certificate with all that leads to its authority
constexpr int kFirstOwn = 3;                  // descriptor behind standard input, output and error

std::string reason(int number) { return std::generic_category().message(number); }

// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

Result<JobKey> read_from(int descriptor, const std::string& source) {
  std::vector<std::byte> bytes(kMostBytes + 1);
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count = ::pread(descriptor, bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return error(ErrorKind::kIo, "job key {} cannot be read: {}", source, reason(errno));
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  auto key = JobKey::from(std::span(bytes).first(got));
  wipe(bytes);
  if (key.ok()) return key;
  if (key.status().code() == kNoCertificate)
    return error(ErrorKind::kBadRequest, "certificate file {}: {}", source, key.status().message()).because({kNoCertificate, ""});
  return error(ErrorKind::kBadRequest, "job key {}: {}{}; make one with 'paceline key new FILE'", source,
               got > JobKey::kBytes ? "more than 32 bytes (a line end behind the key?); " : "", key.status().message());
}

std::vector<::gid_t> own_groups() {
  std::vector<::gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  groups.resize(static_cast<std::size_t>(std::max(0, ::getgroups(static_cast<int>(groups.size()), groups.data()))));
  groups.push_back(::getegid());
  return groups;
}

Status check_file(const std::string& path, const struct stat& about) {
  if (!S_ISREG(about.st_mode)) {
    return error(ErrorKind::kBadRequest, "job key {} is no regular file but {}; give the file that 'paceline key new FILE' made",
                 path, S_ISDIR(about.st_mode) ? "a directory (folder)" : "a pipe, a socket or a device");
  }
  const KeyRights rights = rights_of({about.st_uid, about.st_gid, about.st_mode}, ::geteuid(), own_groups());
  if (rights == KeyRights::kAnotherUsers) {
    return error(ErrorKind::kBadRequest,
                 "job key {} belongs to user {}, who can change it; copy it to a file of your own (user {})", path, about.st_uid,
                 ::geteuid());
  }
  if (rights == KeyRights::kTooOpen) {
    return error(ErrorKind::kBadRequest, "job key {} has mode {:04o}: others may use it; chmod 600 {}", path, about.st_mode & 07777,
                 path);
  }
  return {};
}

Result<JobKey> read_key(const std::string& source) {
  if (source.starts_with(kDescriptor)) {
    int number = -1;
    const bool clear_data = source.ends_with(kClearData);
    const char* const end = source.data() + source.size() - (clear_data ? kClearData.size() : 0);
    const auto [last, problem] = std::from_chars(source.data() + kDescriptor.size(), end, number);
    if (problem != std::errc() || last != end || number < kFirstOwn || ::fcntl(number, F_GETFD) < 0) {
      return error(ErrorKind::kBadRequest, "job key {}: this process has inherited no such descriptor; it has to be 3 or more",
                   source);
    }
    // Kept open, since whoever is started next may read it too, but only by those that it is handed on to.
    ::fcntl(number, F_SETFD, FD_CLOEXEC);
    auto key = read_from(number, source);
    return key.ok() && clear_data ? key->leaving_data_clear() : key;
  }
  // A device, a pipe or a socket may do something when it is opened; O_NONBLOCK keeps a pipe without a writer from waiting.
  struct stat about {};
  if (::stat(source.c_str(), &about) == 0) PACELINE_RETURN_IF_ERROR(check_file(source, about));
  const Descriptor file(::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.number() < 0) {
    const int why = errno;
    const bool none = why == ENOENT || why == ENOTDIR;
    return error(none ? ErrorKind::kBadRequest : ErrorKind::kIo, "job key {} cannot be opened: {}{}", source, reason(why),
                 none ? fmt::format("; make one with 'paceline key new {}'", source) : "");
  }
  // Of what was opened, since another file may have taken its name meanwhile.
  if (::fstat(file.number(), &about) != 0) return error(ErrorKind::kIo, "job key {} cannot be examined: {}", source, reason(errno));
  PACELINE_RETURN_IF_ERROR(check_file(source, about));
  return read_from(file.number(), source);
}

}  // namespace

KeyRights rights_of(const KeyFile& file, ::uid_t user, std::span<const ::gid_t> groups) {
  constexpr ::mode_t kOthers = 077, kButReadByGroup = 037;
  if (file.owner != user && file.owner != 0) return KeyRights::kAnotherUsers;
  if ((file.mode & kOthers) == 0) return KeyRights::kFit;
  const bool roots = file.owner == 0 && user != 0;
  const bool by_own_group = (file.mode & kButReadByGroup) == 0 && std::ranges::find(groups, file.group) != groups.end();
  return roots && by_own_group ? KeyRights::kFit : KeyRights::kTooOpen;
}

Result<JobKey> read_job_key(const std::string& source) {
  auto key = read_key(source);
  return key.ok() ? std::move(key) : key.status().because({"key", ""});
}

Status write_job_key(const std::string& path, const JobKey& key) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.number() < 0) {
    if (errno == EEXIST)
      return error(ErrorKind::kBadRequest, "{} is there already, and a key that is in use must not go; give another name", path)
          .because({"key", ""});
    const bool none = errno == ENOENT || errno == ENOTDIR;
    return error(none ? ErrorKind::kBadRequest : ErrorKind::kIo, "{} cannot be made: {}", path, reason(errno));
  }
  const ssize_t written = ::write(file.number(), key.bytes().data(), JobKey::kBytes);
  if (written == static_cast<ssize_t>(JobKey::kBytes) && ::fsync(file.number()) == 0) return {};
  const int why = written >= 0 && written < static_cast<ssize_t>(JobKey::kBytes) ? ENOSPC : errno;
  ::unlink(path.c_str());
  return error(ErrorKind::kIo, "{} cannot be written: {}", path, reason(why));
}

}  // namespace paceline
