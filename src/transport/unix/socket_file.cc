#include "transport/unix/socket_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace paceline::transport {
namespace {

constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
// Somebody who holds a folder for longer is not about to listen in it.
constexpr auto kPatience = std::chrono::seconds(2);

// Between a test whether a socket was left behind and its replacement no other process of ours makes one in the same folder: it
// might be the one that is removed.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path) {
    const std::string folder = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
    descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0) {
      status_ = error(ErrorKind::kBadRequest, "folder {}: {}", folder, system_message(errno));
      return;
    }
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EINTR && (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= until)) {
        status_ = error(ErrorKind::kIo, "folder {} is locked by another process: {}", folder, system_message(errno));
        return;
      }
      std::this_thread::yield();
    }
  }
  ~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  const Status& status() const { return status_; }

 private:
  int descriptor_;
  Status status_;
};

// Whether no process has this socket any more. Asked for datagrams, so that one that listens for connections gets none by it: the
// kernel says that the type is wrong.
bool is_left_behind(const SocketEndpoint& endpoint) {
  const int probe = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const int failed = ::connect(probe, endpoint.data(), static_cast<socklen_t>(endpoint.size()));
  const bool refused = failed != 0 && errno == ECONNREFUSED;
  ::close(probe);
  return refused;
}

// Frees the name if what has it was left behind. Success: there is nothing now.
Status clear(const std::string& path, const SocketEndpoint& endpoint) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};  // bind() says what is wrong, if anything is
  if (!S_ISSOCK(found.st_mode))
    return error(ErrorKind::kBadRequest, "the file is there and no socket, and stays; give another path").because({"address", ""});
  if (found.st_uid != ::geteuid())
    return error(ErrorKind::kBadRequest, "the socket there is of another user, and stays; give another path")
        .because({"address", ""});
  if (!is_left_behind(endpoint)) return error(ErrorKind::kIo, "another process listens there").because({"port-in-use", ""});
  ::unlink(path.c_str());
  return {};
}

}  // namespace

Result<SocketEndpoint> endpoint_of(const std::string& path) {
  if (path.size() > kLongestPath)
    return error(ErrorKind::kBadRequest, "the path has {} bytes, and a socket's has at most {}", path.size(), kLongestPath)
        .because({"address", ""});
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  return SocketEndpoint(&name, offsetof(sockaddr_un, sun_path) + path.size() + 1);
}

Result<std::shared_ptr<SocketFile>> SocketFile::listen(Acceptor& socket, const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const SocketEndpoint endpoint, endpoint_of(path));
  const FolderLock lock(path);
  PACELINE_RETURN_IF_ERROR(lock.status());
  PACELINE_RETURN_IF_ERROR(clear(path, endpoint));
  PACELINE_RETURN_IF_ERROR(open_socket(socket, endpoint));
  ::fchmod(socket.native_handle(), S_IRUSR | S_IWUSR);  // the file gets it as it is made
  asio::error_code failure;
  socket.bind(endpoint, failure);
  const bool taken = failure.value() == EADDRINUSE;
  if (failure)
    return error(taken ? ErrorKind::kIo : ErrorKind::kBadRequest, "{}", failure.message())
        .because({taken ? "port-in-use" : "address", ""});
  struct stat made {};
  ::lstat(path.c_str(), &made);
  const std::shared_ptr<SocketFile> file(new SocketFile(path, made.st_dev, made.st_ino));
  socket.listen(Acceptor::max_listen_connections, failure);
  if (failure) return error(ErrorKind::kIo, "{}", failure.message());
  return file;
}

void remove_left_behind(const std::string& path) {
  const FolderLock lock(path);
  if (!lock.status().ok()) return;
  const std::filesystem::path file(path);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(file.parent_path(), ignored)) {
    // Of members ".3", of a script's later jobs "-1" and "-1.3".
    const std::string name = entry.path().filename(), own = file.filename();
    const bool beside = name.starts_with(own + ".") || name.starts_with(own + "-");
    if (name != own && (!beside || name.find_first_not_of("-.0123456789", own.size()) != std::string::npos)) continue;
    if (const auto endpoint = endpoint_of(entry.path()); endpoint.ok()) (void)clear(entry.path(), *endpoint);
  }
}

SocketFile::~SocketFile() {
  struct stat there {};
  if (::lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ && there.st_ino == inode_) ::unlink(path_.c_str());
}

}  // namespace paceline::transport
