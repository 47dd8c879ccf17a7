// One TLS connection over any stream of bytes: encrypts what is written to it and decrypts what it reads. It owns no descriptor and
// never waits: what moves the encrypted bytes is behind RawStream, and when there are none it says so. Loop thread.
//
// A side connects or accepts; shake_hands() is called until it is done, then read() and write(). The peer is somebody who holds the
// job's key, or there is no channel. An end without the peer's TLS goodbye (close_notify) is an error, not an end: bytes that
// somebody cut off would look like it.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <sys/uio.h>

#include "transport/stream.h"
#include "transport/tls/offered_key.h"
#include "transport/tls/tls_context.h"

struct ssl_st;

namespace paceline::transport {

// What a side that has not shown the key may send before it is cut off.
inline constexpr std::size_t kMostHandshake = 16384;

// Moves encrypted bytes; never blocks. As Stream::read_some and write_some.
class RawStream {
 public:
  virtual ~RawStream() = default;
  virtual Stream::Moved read_raw(std::span<std::byte> to) = 0;
  virtual Stream::Moved write_raw(std::span<const std::byte> from) = 0;
};

class TlsChannel {
 public:
  enum class Side { kConnects, kAccepts };
  enum class Next { kDone, kRead, kWrite, kFailed };  // what to wait for before the next call

  // `below` outlives it.
  TlsChannel(std::shared_ptr<const TlsContext> context, Side side, RawStream& below);
  ~TlsChannel();
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  Next shake_hands();
  // Why that failed: kBadRequest when trying again makes no difference (another key, no TLS), else kPeerLost or kCorrupt.
  const Status& failure() const { return failure_; }

  // The handshake is over, and the channel has nothing more to do: what follows passes it by (TlsOptions::only_opens).
  bool is_past() const { return confirmed_; }

  // Fills `spaces` as far as there is something. kLater: nothing, and reading_waits_for_write() says for what to wait.
  Stream::Moved read(std::span<const iovec> spaces);
  // In full records, whatever the pieces are. After kLater, or less than all, the same bytes come first in the next call.
  Stream::Moved write(std::span<const iovec> pieces);
  // Whether there may be more to read without a byte from below.
  bool may_have_more() const { return !drained_; }
  bool reading_waits_for_write() const { return reading_waits_for_write_; }

  // Tells the peer that nothing more comes, if the stream takes that at once. Once, last.
  void say_goodbye();

  std::uint64_t keys_used() const { return keys_used_; }  // to send with

 private:
  struct Below;  // the callbacks through which OpenSSL reaches `below`

  void note(const char* bytes, std::size_t count);
  std::optional<Status> certificate_reason(unsigned long code) const;
  Status handshake_reason() const;
  Status other_plane() const;
  Status established_reason() const;
  void settle();
  Next confirm();
  std::optional<Next> waits_for(int result) const;
  void answer_in_the_clear();
  void change_key_if_due();
  std::span<const std::byte> next_record(std::span<const iovec> pieces, std::size_t from);

  std::shared_ptr<const TlsContext> context_;
  const Side side_;
  RawStream& below_;
  ssl_st* native_;
  Status failure_;
  OfferedKey offered_;

  bool established_ = false, confirmed_ = false;
  bool drained_ = true;
  bool reading_waits_for_write_ = false;
  bool write_pending_ = false;   // a record is encrypted and not out
  std::optional<Status> ended_;  // why nothing more comes from below; success for an end
  std::optional<Status> write_failed_;
  std::optional<Stream::Moved> read_end_;  // what every further read() says
  std::size_t taken_ = 0, given_ = 0;      // encrypted bytes during the handshake
  std::array<char, 4> first_{};            // of the encrypted bytes that came
  std::uint64_t bytes_ = 0, records_ = 0;  // sent under the present key
  std::uint64_t keys_used_ = 1;
  std::unique_ptr<std::byte[]> record_;  // where pieces are put together
};

}  // namespace paceline::transport
