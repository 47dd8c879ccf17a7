#include "lab/stream.h"

#include <cerrno>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/text.h"

namespace paceline::lab {
namespace {

constexpr std::size_t kBlock = std::size_t{64} * 1024;
constexpr timeval kPatience = {.tv_sec = 5, .tv_usec = 0};

struct Listening {
  Descriptor socket;
  sockaddr_in address{};
};

Result<Descriptor> tcp_socket() {
  Descriptor descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (descriptor.get() < 0) return system_error("cannot make a socket");
  setsockopt(descriptor.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  setsockopt(descriptor.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  return descriptor;
}

Result<Listening> listen_at(const std::string& address) {
  Listening listening;
  PACELINE_ASSIGN_OR_RETURN(listening.socket, tcp_socket());
  listening.address.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &listening.address.sin_addr);
  socklen_t length = sizeof listening.address;
  auto* const general = reinterpret_cast<sockaddr*>(&listening.address);
  if (bind(listening.socket.get(), general, length) != 0 || listen(listening.socket.get(), 1) != 0 ||
      getsockname(listening.socket.get(), general, &length) != 0) {
    return system_error("cannot listen at " + address);
  }
  return listening;
}

void send_until_cut(int socket) {
  const std::vector<std::byte> block(kBlock);
  while (send(socket, block.data(), block.size(), MSG_NOSIGNAL) > 0) {
  }
}

// A wait that cannot be early.
Status wait_for(Duration duration) {
  const Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(duration);
  const itimerspec spec = {.it_interval = {},
                           .it_value = {.tv_sec = whole.count(), .tv_nsec = std::max<long>(1, (duration - whole).count())}};
  std::uint64_t expirations = 0;
  if (timer.get() < 0 || timerfd_settime(timer.get(), 0, &spec, nullptr) != 0) return system_error("cannot make a timer");
  while (read(timer.get(), &expirations, sizeof expirations) < 0) {
    if (errno != EINTR) return system_error("cannot read a timer");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Stream>> Stream::start(const Descriptor& from, const Descriptor& to, const std::string& address,
                                              std::optional<BytesPerSecond> pace) {
  Listening listening;
  PACELINE_RETURN_IF_ERROR(within(to, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(listening, listen_at(address));
    return {};
  }));
  Descriptor sender;
  PACELINE_RETURN_IF_ERROR(within(from, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(sender, tcp_socket());
    return {};
  }));
  if (pace) {
    const auto rate = static_cast<std::uint64_t>(pace->value);
    if (setsockopt(sender.get(), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) != 0)
      return system_error("cannot pace a stream");
  }
  if (connect(sender.get(), reinterpret_cast<sockaddr*>(&listening.address), sizeof listening.address) != 0)
    return system_error("cannot connect to " + address);
  Descriptor receiver(accept4(listening.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (receiver.get() < 0) return system_error("nobody connected to " + address);
  return std::unique_ptr<Stream>(new Stream(std::move(sender), std::move(receiver)));
}

Stream::Stream(Descriptor sender, Descriptor receiver) : sender_(std::move(sender)), receiver_(std::move(receiver)) {
  sending_ = std::thread(send_until_cut, sender_.get());
  receiving_ = std::thread([this] {
    std::vector<std::byte> block(4 * kBlock);
    for (ssize_t count = 0; (count = recv(receiver_.get(), block.data(), block.size(), 0)) > 0;) received_ += count;
  });
}

Stream::~Stream() {
  shutdown(sender_.get(), SHUT_RDWR);
  shutdown(receiver_.get(), SHUT_RDWR);
  sending_.join();
  receiving_.join();
}

Result<BytesPerSecond> Stream::measure(Duration warm_up, Duration period) {
  PACELINE_RETURN_IF_ERROR(wait_for(warm_up));
  const std::int64_t before = received_;
  const TimePoint start = clock_.now();
  PACELINE_RETURN_IF_ERROR(wait_for(period));
  const std::int64_t count = received_ - before;
  const double taken = seconds(clock_.now() - start);
  if (count == 0) return error(ErrorKind::kIo, "lab: nothing arrived for {} on a plain stream", to_text(period));
  return BytesPerSecond{static_cast<double>(count) / taken};
}

}  // namespace paceline::lab
