#include "transport/sockets/socket_acceptor.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/socket.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/wrong.h"
#include "transport/sockets/socket_stream.h"
#include "transport/sockets/tls_stream.h"

namespace paceline::transport {
namespace {

constexpr int kMostAtOnce = 64;  // accepted before others get their turn
constexpr Duration kRetry = std::chrono::milliseconds(100);

int open_spare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

struct SocketAcceptor::Ready {
  using allocator_type = HandlerAllocator<void>;
  allocator_type get_allocator() const { return allocator_type(acceptor->memory_); }
  void operator()(const asio::error_code& failure) const {
    if (failure || !acceptor->acceptor_) return;
    const SocketLoop::Turn turn(*acceptor->loop_);
    acceptor->on_ready();
  }

  std::shared_ptr<SocketAcceptor> acceptor;
};

SocketAcceptor::SocketAcceptor(SocketLoop& loop, std::shared_ptr<const SocketFamily> family, std::shared_ptr<const TlsContext> tls,
                               const ListenOptions& options, Transport::Accepted accepted)
    : loop_(&loop), family_(std::move(family)), tls_(std::move(tls)), options_(options), accepted_(std::move(accepted)) {
  loop.add_member(*this);
}

SocketAcceptor::~SocketAcceptor() { close(); }

void SocketAcceptor::close() {
  kept_.reset();
  acceptor_.reset();
  shaking_.clear();
  if (spare_ >= 0) ::close(std::exchange(spare_, -1));
  if (loop_ == nullptr) return;
  loop_->cancel(retry_);
  loop_->remove_member(*this);
  loop_ = nullptr;
}

void SocketAcceptor::on_loop_gone() { close(); }

Status SocketAcceptor::open(const Address& address) {
  auto listening = family_->listen(*loop_, address);
  if (!listening.ok())
    return error(listening.status().kind(), "cannot listen on {}: {}", address.text(), listening.status().message())
        .because(cause_of(listening.status()));
  address_ = listening->address;
  kept_ = listening->kept;
  acceptor_.emplace(std::move(listening->socket));
  spare_ = open_spare();
  wait();
  return {};
}

void SocketAcceptor::wait() { acceptor_->async_wait(Acceptor::wait_read, Ready{shared_from_this()}); }

void SocketAcceptor::on_ready() {
  for (int taken = 0; taken < kMostAtOnce && acceptor_; ++taken) {
    if (const Duration wait = tls_ == nullptr ? Duration{0} : allowance_->wait(loop_->now()); wait > Duration{0})
      return look_again(wait);
    SocketEndpoint peer;
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
    if (spare_ < 0) return look_again(kRetry);
    refuse_one();
  }
  if (acceptor_) wait();
}

// The one who waits makes the socket readable, so waiting for that would keep the loop busy.
void SocketAcceptor::look_again(Duration later) {
  retry_ = loop_->run_after(later, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->acceptor_) self->on_ready();
  });
}

void SocketAcceptor::refuse_one() {
  ::close(std::exchange(spare_, -1));
  const int descriptor = ::accept4(acceptor_->native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor >= 0) ::close(descriptor);
  spare_ = open_spare();
}

void SocketAcceptor::take_in(int descriptor, const SocketEndpoint& peer) {
  if (strangers_->now >= options_.strangers && !make_room()) {
    ::close(descriptor);
    return;
  }
  close_in_children(descriptor);
  Socket socket(loop_->io());
  asio::error_code failure;
  if (family_->configure(descriptor)) socket.assign(peer.protocol(), descriptor, failure);
  if (failure || !socket.is_open()) {  // it was reset meanwhile, or memory is short: it is refused like one that never came
    ::close(descriptor);
    return;
  }
  Ends ends = family_->ends(descriptor, socket.local_endpoint(failure), peer);
  if (tls_ != nullptr) return shake_hands(std::move(socket), std::move(ends));
  auto stream = std::make_shared<SocketStream>(*loop_, std::move(socket), std::move(ends));
  stream->become_stranger(strangers_, options_.stranger_deadline);
  hand_over(std::move(stream));
}

// Whoever holds the key has shown it after two journeys. So the one of those who have not, and have had most time, goes for
// another: a crowd that only holds places keeps no member out.
bool SocketAcceptor::make_room() {
  if (shaking_.empty()) return false;
  const auto longest = shaking_.front();
  shaking_.erase(shaking_.begin());
  longest->give_way();
  return true;
}

// It is a stranger from now on, with a stranger's time and among their number. One that fails is handed over too, for whoever
// counts strangers.
void SocketAcceptor::shake_hands(Socket socket, Ends ends) {
  auto stream =
      std::make_shared<TlsStream>(*loop_, std::move(socket), std::move(ends), tls_, TlsChannel::Side::kAccepts, allowance_);
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

void SocketAcceptor::hand_over(std::shared_ptr<Stream> stream) {
  const auto self = shared_from_this();  // the callback may destroy the listener
  accepted_(std::make_unique<StreamConnection>(std::move(stream)));
}

}  // namespace paceline::transport
