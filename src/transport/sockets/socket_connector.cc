#include "transport/sockets/socket_connector.h"

#include <cerrno>

#include "base/text.h"
#include "base/wrong.h"
#include "transport/sockets/socket_stream.h"
#include "transport/sockets/tls_stream.h"

namespace paceline::transport {
SocketConnector::SocketConnector(SocketLoop& loop, std::shared_ptr<const SocketFamily> family,
                                 std::shared_ptr<const TlsContext> tls, Address address, Duration deadline,
                                 Transport::Connected connected)
    : loop_(&loop),
      family_(std::move(family)),
      tls_(std::move(tls)),
      address_(std::move(address)),
      deadline_(deadline),
      until_(loop.now() + deadline),
      connected_(std::move(connected)) {
  loop.add_member(*this);
}

SocketConnector::~SocketConnector() { on_loop_gone(); }

void SocketConnector::on_loop_gone() {
  search_.reset();
  drop_try();
  if (loop_ != nullptr) std::exchange(loop_, nullptr)->remove_member(*this);
}

void SocketConnector::finish(Result<std::unique_ptr<Connection>> result) {
  if (loop_ == nullptr) return;
  loop_->cancel(timer_);
  on_loop_gone();
  std::exchange(connected_, nullptr)(std::move(result));
}

void SocketConnector::start() {
  auto known = family_->known(address_);
  if (known.ok()) endpoints_ = std::move(*known);
  // From the loop, so that the caller is not called back before it returns.
  loop_->post([self = shared_from_this(), legal = known.status()] {
    if (self->loop_ == nullptr) return;
    if (!legal.ok())
      return self->finish(
          error(legal.kind(), "cannot connect to {}: {}", self->address_.text(), legal.message()).because(cause_of(legal)));
    if (!self->endpoints_.empty() || self->left() <= Duration::zero()) return self->try_next();
    self->timer_ = self->loop_->run_after(self->left(), [weak = self->weak_from_this()] {
      if (const auto alive = weak.lock()) alive->try_next();
    });
    self->search_ = self->family_->search(
        *self->loop_, self->address_,
        [self](const asio::error_code& failure, std::vector<SocketEndpoint> found) { self->on_found(failure, std::move(found)); });
  });
}

void SocketConnector::on_found(const asio::error_code& failure, std::vector<SocketEndpoint> found) {
  if (loop_ == nullptr) return;
  const SocketLoop::Turn turn(*loop_);
  if (failure)
    return finish(
        error(ErrorKind::kPeerLost, "cannot connect to {}: {}", address_.text(), failure.message()).because({"no-host", ""}));
  endpoints_ = std::move(found);
  try_next();
}

void SocketConnector::try_next() {
  loop_->cancel(timer_);
  drop_try();
  if (left() <= Duration::zero()) {
    return finish(error(ErrorKind::kDeadline, "cannot connect to {}: no answer within {}", address_.text(), to_text(deadline_))
                      .because({"unreachable", ""}));
  }
  if (tried_ == endpoints_.size())
    return finish(error(last_failure_.kind(), "cannot connect to {}: {}", address_.text(), last_failure_.message())
                      .because({all_refused_ || last_failure_.code() != kRefused ? last_failure_.code() : "", ""}));
  const SocketEndpoint endpoint = endpoints_[tried_++];
  socket_.emplace(loop_->io());
  Status status = open_socket(*socket_, endpoint);
  if (status.ok() && !family_->configure(socket_->native_handle()))
    status = error(ErrorKind::kIo, "cannot set the options of a socket: {}", system_message(errno));
  if (!status.ok()) {
    if (status.kind() == ErrorKind::kBadRequest) return pass_over(status.message());
    return finish(error(status.kind(), "cannot connect to {}: {}", address_.text(), status.message()));
  }
  const auto share = left() / static_cast<Duration::rep>(1 + endpoints_.size() - tried_);
  timer_ = loop_->run_after(share, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->give_up_try(error(ErrorKind::kPeerLost, "no answer"));
  });
  socket_->async_connect(endpoint, [self = shared_from_this(), number = tried_](const asio::error_code& failure) {
    // A late answer of an address that was given up is none.
    if (self->loop_ != nullptr && self->socket_ && self->tried_ == number) self->on_connected(failure);
  });
}

void SocketConnector::give_up_try(Status reason) {
  all_refused_ = all_refused_ && reason.code() == kRefused;
  last_failure_ = std::move(reason);
  try_next();
}

// An address that this machine has no way to: it says nothing of whether somebody listens at the others.
void SocketConnector::pass_over(const std::string& reason) {
  if (last_failure_.ok()) last_failure_ = error(ErrorKind::kPeerLost, "{}", reason);
  try_next();
}

void SocketConnector::drop_try() {
  socket_.reset();
  if (shaking_ != nullptr) std::exchange(shaking_, nullptr)->abandon();
}

void SocketConnector::on_connected(const asio::error_code& failure) {
  const SocketLoop::Turn turn(*loop_);
  if (failure.value() == EADDRNOTAVAIL) return pass_over(failure.message());  // as of ::1 where IPv6 is off
  if (failure) {
    const bool refused = failure == asio::error::connection_refused;
    return give_up_try(Status(ErrorKind::kPeerLost, failure.message(), {.code = refused ? kRefused : "", .subject = {}}));
  }
  asio::error_code ignored;
  const auto remote = socket_->remote_endpoint(ignored);
  if (ignored) return give_up_try(error(ErrorKind::kPeerLost, "{}", ignored.message()));
  // A port of the kernel's choosing that nobody listens on can turn out to be connected to itself.
  const auto local = socket_->local_endpoint(ignored);
  if (local == remote) return give_up_try(error(ErrorKind::kPeerLost, "nobody listens there"));
  Ends ends = family_->ends(socket_->native_handle(), local, remote);
  if (tls_ != nullptr) return shake_hands(std::move(ends));
  hand_over(std::make_shared<SocketStream>(*loop_, std::move(*socket_), std::move(ends)));
}

void SocketConnector::shake_hands(Ends ends) {
  auto stream = std::make_shared<TlsStream>(*loop_, std::move(*socket_), std::move(ends), tls_, TlsChannel::Side::kConnects);
  shaking_ = stream;
  stream->shake_hands([self = shared_from_this(), number = tried_](const Status& how) {
    if (self->loop_ == nullptr || self->shaking_ == nullptr || self->tried_ != number) return;  // it was given up
    if (!how.ok()) return self->give_up_try(how);
    self->hand_over(std::exchange(self->shaking_, nullptr));
  });
}

void SocketConnector::hand_over(std::shared_ptr<Stream> stream) {
  stream->become_admitted();
  finish(std::unique_ptr<Connection>(std::make_unique<StreamConnection>(std::move(stream))));
}

}  // namespace paceline::transport
