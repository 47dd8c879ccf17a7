#include "transport/tcp/tcp_acceptor.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/socket.h>

#include "base/log.h"
#include "transport/tcp/tcp_stream.h"
#include "transport/tcp/tls_stream.h"

namespace paceline::transport {
namespace {

using asio::ip::tcp;

constexpr int kMostAtOnce = 64;  // accepted before others get their turn
constexpr Duration kRetry = std::chrono::milliseconds(100);

int open_spare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

struct TcpAcceptor::Ready {
  using allocator_type = HandlerAllocator<void>;
  allocator_type get_allocator() const { return allocator_type(acceptor->memory_); }
  void operator()(const asio::error_code& failure) const {
    if (failure || !acceptor->acceptor_) return;
    const TcpLoop::Turn turn(*acceptor->loop_);
    acceptor->on_ready();
  }

  std::shared_ptr<TcpAcceptor> acceptor;
};

TcpAcceptor::TcpAcceptor(TcpLoop& loop, const ListenOptions& options, const TcpOptions& tcp, std::shared_ptr<const TlsContext> tls,
                         Transport::Accepted accepted)
    : loop_(&loop), options_(options), tcp_(tcp), tls_(std::move(tls)), accepted_(std::move(accepted)) {
  loop.add_member(*this);
}

TcpAcceptor::~TcpAcceptor() { close(); }

void TcpAcceptor::close() {
  acceptor_.reset();
  shaking_.clear();
  if (spare_ >= 0) ::close(std::exchange(spare_, -1));
  if (loop_ == nullptr) return;
  loop_->cancel(retry_);
  loop_->remove_member(*this);
  loop_ = nullptr;
}

void TcpAcceptor::on_loop_gone() { close(); }

Status TcpAcceptor::open(const Address& address) {
  Resolver resolver(loop_->io());
  asio::error_code failure;
  const auto found =
      resolver.resolve(address.host, std::to_string(address.port), Resolver::numeric_service | Resolver::passive, failure);
  if (failure) return error(ErrorKind::kBadRequest, "cannot listen on {}: {}", address.text(), failure.message());
  Status status;
  for (const auto& entry : found) {
    status = bind(entry.endpoint());
    if (status.ok()) break;
  }
  if (!status.ok()) return error(status.kind(), "cannot listen on {}: {}", address.text(), status.message());
  address_ = Address{address.host, acceptor_->local_endpoint().port()};
  spare_ = open_spare();
  wait();
  return {};
}

Status TcpAcceptor::bind(const tcp::endpoint& endpoint) {
  const int descriptor = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (descriptor < 0) return error(ErrorKind::kIo, "{}", system_message(errno));
  Acceptor acceptor(loop_->io());
  asio::error_code failure;
  acceptor.assign(endpoint.protocol(), descriptor, failure);
  if (failure) {
    ::close(descriptor);
  } else {
    // A server that is started again is not kept waiting by the connections of its former life.
    acceptor.set_option(Acceptor::reuse_address(true), failure);
    if (!failure) acceptor.bind(endpoint, failure);
    if (!failure) acceptor.listen(Acceptor::max_listen_connections, failure);
  }
  if (failure.value() == EADDRNOTAVAIL) return error(ErrorKind::kBadRequest, "this machine has no such address");
  if (failure) return error(ErrorKind::kIo, "{}", failure.message());
  acceptor_.emplace(std::move(acceptor));
  return {};
}

void TcpAcceptor::wait() { acceptor_->async_wait(Acceptor::wait_read, Ready{shared_from_this()}); }

void TcpAcceptor::on_ready() {
  for (int taken = 0; taken < kMostAtOnce && acceptor_; ++taken) {
    tcp::endpoint peer;
    auto length = static_cast<socklen_t>(peer.capacity());
    const int descriptor = ::accept4(acceptor_->native_handle(), peer.data(), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      peer.resize(length);
      out_of_descriptors_ = false;
      take_in(descriptor, peer);
      continue;
    }
    if (errno == EAGAIN) break;
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) continue;  // that one is gone already
    if (!std::exchange(out_of_descriptors_, true)) {
      log::warn("{}: refusing connections: {}; existing ones go on", address_.text(), system_message(errno));
    }
    if (spare_ < 0) spare_ = open_spare();
    if (spare_ < 0) {
      // The one who waits makes the socket readable, so waiting for that would keep the loop busy.
      retry_ = loop_->run_after(kRetry, [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && self->acceptor_) self->on_ready();
      });
      return;
    }
    refuse_one();
  }
  if (acceptor_) wait();
}

void TcpAcceptor::refuse_one() {
  ::close(std::exchange(spare_, -1));
  const int descriptor = ::accept4(acceptor_->native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor >= 0) ::close(descriptor);
  spare_ = open_spare();
}

void TcpAcceptor::take_in(int descriptor, const tcp::endpoint& peer) {
  if (strangers_->now >= options_.strangers && !make_room()) {
    ::close(descriptor);
    return;
  }
  Socket socket(loop_->io());
  asio::error_code failure;
  if (TcpStream::configure(descriptor, tcp_).ok()) socket.assign(peer.protocol(), descriptor, failure);
  if (failure || !socket.is_open()) {  // it was reset meanwhile, or memory is short: it is refused like one that never came
    ::close(descriptor);
    return;
  }
  if (tls_ != nullptr) return shake_hands(std::move(socket), endpoint_text(peer));
  auto stream = std::make_shared<TcpStream>(*loop_, std::move(socket), endpoint_text(peer));
  stream->become_stranger(strangers_, options_.stranger_deadline);
  hand_over(std::move(stream));
}

// Whoever holds the key has shown it after two journeys. So the one of those who have not, and have had most time, goes for
// another: a crowd that only holds places keeps no member out.
bool TcpAcceptor::make_room() {
  if (shaking_.empty()) return false;
  const auto longest = shaking_.front();
  shaking_.erase(shaking_.begin());
  longest->give_way();
  return true;
}

// It is a stranger from now on, with a stranger's time and among their number. One that fails is handed over too, for whoever
// counts strangers.
void TcpAcceptor::shake_hands(Socket socket, std::string peer) {
  auto stream = std::make_shared<TlsStream>(*loop_, std::move(socket), std::move(peer), tls_, TlsChannel::Side::kAccepts);
  stream->become_stranger(strangers_, options_.stranger_deadline);
  shaking_.push_back(stream);
  stream->shake_hands([weak = weak_from_this(), which = std::weak_ptr(stream)](const Status&) {
    const auto self = weak.lock();
    const auto shaken = which.lock();
    if (shaken == nullptr || self == nullptr || !self->acceptor_) return;
    std::erase(self->shaking_, shaken);
    self->hand_over(shaken);
  });
}

void TcpAcceptor::hand_over(std::shared_ptr<Stream> stream) {
  const auto self = shared_from_this();  // the callback may destroy the listener
  accepted_(std::make_unique<StreamConnection>(std::move(stream)));
}

}  // namespace paceline::transport
