#include "transport/sockets/tls_stream.h"

#include <ctime>

namespace paceline::transport {
namespace {

// A channel may hold the beginning of a record, so that fewer bytes are to come than the payload still needs.
constexpr std::size_t kMostHeld = 17U << 10;

// Of this thread.
Duration processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

TlsStream::TlsStream(SocketLoop& loop, Socket socket, Ends ends, std::shared_ptr<const TlsContext> context, TlsChannel::Side side,
                     std::shared_ptr<HandshakeAllowance> allowance)
    : SocketStream(loop, std::move(socket), std::move(ends)),
      channel_(std::move(context), side, *this),
      allowance_(std::move(allowance)) {}

void TlsStream::shake_hands(std::function<void(const Status&)> done) {
  done_ = std::move(done);
  step();
}

void TlsStream::give_way() {
  finish(error(ErrorKind::kOverloaded, "{} had been here longest of all that had shown no key when another one came", peer()));
}

TlsChannel::Next TlsStream::charged_step() {
  if (allowance_ == nullptr) return channel_.shake_hands();
  const Duration before = processor_time();
  const TlsChannel::Next next = channel_.shake_hands();
  allowance_->charge(processor_time() - before);
  return next;
}

void TlsStream::step() {
  const Duration wait = allowance_ == nullptr ? Duration{0} : allowance_->wait(socket_loop().now());
  if (wait > Duration{0}) {
    socket_loop().run_after(wait, [weak = weak_from_this()] {
      const auto alive = std::static_pointer_cast<TlsStream>(weak.lock());
      if (alive != nullptr && alive->open() && alive->done_) alive->step();
    });
    return;
  }
  const TlsChannel::Next next = charged_step();
  if (next == TlsChannel::Next::kDone) return end_handshake({});
  if (next == TlsChannel::Next::kFailed) {
    const Status why = channel_.failure();
    const auto done = std::exchange(done_, nullptr);  // before the stream is closed, which would call it
    finish(error(why.kind(), "{}: {}", peer(), why.message()));
    return done(why);
  }
  const auto what = next == TlsChannel::Next::kWrite ? Socket::wait_write : Socket::wait_read;
  socket().async_wait(what, [self = self()](const asio::error_code& failure) {
    if (failure || !self->open()) return;
    const SocketLoop::Turn turn(self->socket_loop());
    self->step();
  });
}

void TlsStream::end_handshake(const Status& how) {
  if (done_) std::exchange(done_, nullptr)(how);
}

void TlsStream::want_read(std::size_t least) {
  if (channel_.is_past()) return SocketStream::want_read(least);
  if (channel_.may_have_more()) return read_soon();
  if (channel_.reading_waits_for_write()) return wait_to_read(Socket::wait_write);
  SocketStream::want_read(least > kMostHeld ? least - kMostHeld : 1);
}

void TlsStream::close_stream() {
  channel_.say_goodbye();
  SocketStream::close_stream();
  // The time for strangers was over, or the loop goes and takes this with it.
  if (done_ && loop() != nullptr) {
    loop()->post(
        [self = self()] { self->end_handshake(error(ErrorKind::kDeadline, "it did not finish the TLS handshake in time")); });
  }
}

Stream::Moved TlsStream::read_raw(std::span<std::byte> to) {
  const iovec space{to.data(), to.size()};
  return SocketStream::read_some({&space, 1});
}

Stream::Moved TlsStream::write_raw(std::span<const std::byte> from) {
  const iovec piece{const_cast<std::byte*>(from.data()), from.size()};  // only read
  return SocketStream::write_some({&piece, 1});
}

}  // namespace paceline::transport
