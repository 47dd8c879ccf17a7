#include "transport/unix/unix_transport.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transport/unix/socket_file.h"

namespace paceline::transport {
namespace {

constexpr std::string_view kScheme = "unix";
constexpr int kMostBeside = 65535;  // files beside one path

// By a descriptor of the process itself: its number may be another one's later.
class KnownProcess final : public PeerProcess {
 public:
  // Null where there are no such descriptors, and of a process that is not seen from here.
  static std::shared_ptr<const PeerProcess> find(pid_t number) {
    const auto descriptor = number > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, number, 0)) : -1;
    return descriptor < 0 ? nullptr : std::make_shared<KnownProcess>(descriptor);
  }
  explicit KnownProcess(int descriptor) : descriptor_(descriptor) {}
  ~KnownProcess() override { ::close(descriptor_); }
  KnownProcess(const KnownProcess&) = delete;
  KnownProcess& operator=(const KnownProcess&) = delete;

  bool ended() const override {
    pollfd wait{descriptor_, POLLIN, 0};
    return ::poll(&wait, 1, 0) == 1;
  }

 private:
  int descriptor_;
};

class UnixFamily final : public SocketFamily {
 public:
  explicit UnixFamily(const SocketOptions& options) : send_buffer_(options.send_buffer) {}

  Result<std::vector<SocketEndpoint>> known(const Address& address) const override {
    PACELINE_ASSIGN_OR_RETURN(const std::string path, path_of(address));
    PACELINE_ASSIGN_OR_RETURN(SocketEndpoint endpoint, endpoint_of(path));
    return std::vector<SocketEndpoint>{std::move(endpoint)};
  }

  std::unique_ptr<Search> search(SocketLoop&, const Address&, Found) const override { return nullptr; }  // all are known

  Result<Listening> listen(SocketLoop& loop, const Address& address) const override {
    PACELINE_ASSIGN_OR_RETURN(const std::string path, path_of(address));
    if (address.port != 0) return listen_at(loop, path);
    for (int number = 1; number <= kMostBeside; ++number) {
      const std::string beside = fmt::format("{}.{}", path, number);
      auto listening = listen_at(loop, beside);
      // Whatever has that name keeps it; what is wrong with the folder or the path is so for all of them.
      if (listening.ok() || ::access(beside.c_str(), F_OK) != 0) return listening;
    }
    return error(ErrorKind::kIo, "all {} files beside it are in use", kMostBeside);
  }

  bool configure(int descriptor) const override {
    if (!send_buffer_) return true;
    const int bytes = static_cast<int>(send_buffer_->count / 2);  // the kernel doubles it
    return ::setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0;
  }

  // Whoever connects has no file.
  Ends ends(int descriptor, const SocketEndpoint&, const SocketEndpoint&) const override {
    ucred process{};
    socklen_t length = sizeof process;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &process, &length) != 0) return {.peer = "a process of this machine"};
    return {.peer = fmt::format("process {} of this machine", process.pid), .process = KnownProcess::find(process.pid)};
  }

 private:
  static Result<std::string> path_of(const Address& address) {
    if (address.scheme() == kScheme) return address.host.substr(kScheme.size() + 1);
    return error(ErrorKind::kBadRequest, "this process talks through files, and takes {}:/PATH", kScheme).because({"address", ""});
  }

  static Result<Listening> listen_at(SocketLoop& loop, const std::string& path) {
    Acceptor socket(loop.io());
    PACELINE_ASSIGN_OR_RETURN(auto file, SocketFile::listen(socket, path));
    return Listening{std::move(socket), Address{fmt::format("{}:{}", kScheme, path), Address::kTheFile}, std::move(file)};
  }

  std::optional<Bytes> send_buffer_;
};

}  // namespace

void remove_unix_left_behind(const Address& meeting) {
  if (meeting.scheme() == kScheme) remove_left_behind(meeting.host.substr(kScheme.size() + 1));
}

Result<std::unique_ptr<Transport>> try_make_unix_transport(const SocketOptions& options) {
  return try_make_socket_transport(std::make_shared<UnixFamily>(options), options);
}

}  // namespace paceline::transport
