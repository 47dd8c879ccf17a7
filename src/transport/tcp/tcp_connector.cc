#include "transport/tcp/tcp_connector.h"

#include "base/text.h"
#include "transport/tcp/tcp_stream.h"
#include "transport/tcp/tls_stream.h"

namespace paceline::transport {

using asio::ip::tcp;

TcpConnector::TcpConnector(TcpLoop& loop, const TcpOptions& tcp_options, std::shared_ptr<const TlsContext> tls, Address address,
                           Duration deadline, Transport::Connected connected)
    : loop_(&loop),
      tcp_(tcp_options),
      tls_(std::move(tls)),
      address_(std::move(address)),
      deadline_(deadline),
      until_(loop.now() + deadline),
      connected_(std::move(connected)) {
  loop.add_member(*this);
}

TcpConnector::~TcpConnector() { on_loop_gone(); }

void TcpConnector::on_loop_gone() {
  resolver_.reset();
  drop_try();
  if (loop_ != nullptr) std::exchange(loop_, nullptr)->remove_member(*this);
}

void TcpConnector::finish(Result<std::unique_ptr<Connection>> result) {
  if (loop_ == nullptr) return;
  loop_->cancel(timer_);
  on_loop_gone();
  std::exchange(connected_, nullptr)(std::move(result));
}

void TcpConnector::start() {
  asio::error_code failure;
  const auto literal = asio::ip::make_address(address_.host, failure);
  if (!failure) endpoints_.emplace_back(literal, address_.port);
  // From the loop, so that the caller is not called back before it returns.
  loop_->post([self = shared_from_this()] {
    if (self->loop_ == nullptr) return;
    if (!self->endpoints_.empty() || self->left() <= Duration::zero()) return self->try_next();
    self->timer_ = self->loop_->run_after(self->left(), [weak = self->weak_from_this()] {
      if (const auto alive = weak.lock()) alive->try_next();
    });
    self->resolver_.emplace(self->loop_->io());
    self->resolver_->async_resolve(
        self->address_.host, std::to_string(self->address_.port), Resolver::numeric_service,
        [self](const asio::error_code& error_code, const Resolver::results_type& found) { self->on_resolved(error_code, found); });
  });
}

void TcpConnector::on_resolved(const asio::error_code& failure, const Resolver::results_type& found) {
  if (loop_ == nullptr) return;
  const TcpLoop::Turn turn(*loop_);
  if (failure) return finish(error(ErrorKind::kPeerLost, "cannot connect to {}: {}", address_.text(), failure.message()));
  for (const auto& entry : found) endpoints_.push_back(entry.endpoint());
  try_next();
}

void TcpConnector::try_next() {
  loop_->cancel(timer_);
  drop_try();
  if (left() <= Duration::zero()) {
    return finish(error(ErrorKind::kDeadline, "cannot connect to {}: no answer within {}", address_.text(), to_text(deadline_)));
  }
  if (tried_ == endpoints_.size())
    return finish(error(last_failure_.kind(), "cannot connect to {}: {}", address_.text(), last_failure_.message()));
  const tcp::endpoint endpoint = endpoints_[tried_++];
  socket_.emplace(loop_->io());
  Status status = open_socket(*socket_, endpoint);
  if (status.ok()) status = TcpStream::configure(socket_->native_handle(), tcp_);
  if (!status.ok()) {
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

void TcpConnector::give_up_try(Status reason) {
  last_failure_ = std::move(reason);
  try_next();
}

void TcpConnector::drop_try() {
  socket_.reset();
  if (shaking_ != nullptr) std::exchange(shaking_, nullptr)->abandon();
}

void TcpConnector::on_connected(const asio::error_code& failure) {
  const TcpLoop::Turn turn(*loop_);
  if (failure) return give_up_try(error(ErrorKind::kPeerLost, "{}", failure.message()));
  asio::error_code ignored;
  const auto remote = socket_->remote_endpoint(ignored);
  if (ignored) return give_up_try(error(ErrorKind::kPeerLost, "{}", ignored.message()));
  // A port of the kernel's choosing that nobody listens on can turn out to be connected to itself.
  if (socket_->local_endpoint(ignored) == remote) return give_up_try(error(ErrorKind::kPeerLost, "nobody listens there"));
  if (tls_ != nullptr) return shake_hands(endpoint_text(remote));
  hand_over(std::make_shared<TcpStream>(*loop_, std::move(*socket_), endpoint_text(remote)));
}

void TcpConnector::shake_hands(std::string peer) {
  auto stream = std::make_shared<TlsStream>(*loop_, std::move(*socket_), std::move(peer), tls_, TlsChannel::Side::kConnects);
  shaking_ = stream;
  stream->shake_hands([self = shared_from_this(), number = tried_](const Status& how) {
    if (self->loop_ == nullptr || self->shaking_ == nullptr || self->tried_ != number) return;  // it was given up
    if (!how.ok()) return self->give_up_try(how);
    self->hand_over(std::exchange(self->shaking_, nullptr));
  });
}

void TcpConnector::hand_over(std::shared_ptr<Stream> stream) {
  stream->become_admitted();
  finish(std::unique_ptr<Connection>(std::make_unique<StreamConnection>(std::move(stream))));
}

}  // namespace paceline::transport
