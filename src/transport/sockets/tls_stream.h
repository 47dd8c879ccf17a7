// A SocketStream whose bytes are encrypted (tls/tls_channel.h): the socket and its waiting are SocketStream's, between it and the
// frames stands a TlsChannel. Its user gets it when the handshake is over, one way or the other; until then an accepted one counts
// as a stranger, with a stranger's deadline.
#pragma once

#include <functional>

#include "transport/sockets/handshake_allowance.h"
#include "transport/sockets/socket_stream.h"
#include "transport/tls/tls_channel.h"

namespace paceline::transport {

class TlsStream final : public SocketStream, private RawStream {
 public:
  // `allowance`: of the side that accepts, for what a stranger may cost; null: none.
  TlsStream(SocketLoop& loop, Socket socket, Ends ends, std::shared_ptr<const TlsContext> context, TlsChannel::Side side,
            std::shared_ptr<HandshakeAllowance> allowance = nullptr);

  // Before start(). `done` is called once, by the loop, unless that goes first: the stream is encrypted, or `how` says why not, and
  // then it is closed and says so as soon as it is started.
  void shake_hands(std::function<void(const Status& how)> done);
  // Ends a handshake that is not over, since somebody else needs the place.
  void give_way();

 private:
  void step();
  TlsChannel::Next charged_step();
  void end_handshake(const Status& how);
  std::shared_ptr<TlsStream> self() { return std::static_pointer_cast<TlsStream>(shared_from_this()); }

  Moved read_some(std::span<const iovec> spaces) override {
    return channel_.is_past() ? SocketStream::read_some(spaces) : channel_.read(spaces);
  }
  Moved write_some(std::span<const iovec> pieces) override {
    return channel_.is_past() ? SocketStream::write_some(pieces) : channel_.write(pieces);
  }
  void want_read(std::size_t least) override;
  void close_stream() override;

  Moved read_raw(std::span<std::byte> to) override;
  Moved write_raw(std::span<const std::byte> from) override;

  TlsChannel channel_;
  std::shared_ptr<HandshakeAllowance> allowance_;
  std::function<void(const Status&)> done_;  // empty once it is to be called
};

}  // namespace paceline::transport
