#include "transport/tls/tls_channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/check.h"

namespace paceline::transport {
namespace {

using Moved = Stream::Moved;
using Outcome = Moved::Outcome;

constexpr std::size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;
// Of the record layer: a fatal alert, "protocol version". What a peer without TLS is told, whose reader knows it (frame_reader.h).
constexpr std::array<std::byte, 7> kNoTlsAlert = {std::byte{21}, std::byte{3}, std::byte{3}, std::byte{0},
                                                  std::byte{2},  std::byte{2}, std::byte{70}};

// Who refuses the other's key may be right: it is the two that do not fit.
Status keys_differ(const Status& reason) {
  return reason.because({reason.kind() == ErrorKind::kBadRequest ? "other-key" : "", ""});
}

}  // namespace

struct TlsChannel::Below {
  static TlsChannel& of(BIO* bio) { return *static_cast<TlsChannel*>(BIO_get_data(bio)); }

  static int read(BIO* bio, char* to, int size) {
    TlsChannel& channel = of(bio);
    BIO_clear_retry_flags(bio);
    if (channel.ended_) return 0;
    std::size_t room = static_cast<std::size_t>(std::max(size, 0));
    if (!channel.established_) room = std::min(room, kMostHandshake - channel.taken_);
    if (room == 0) {
      channel.ended_ = error(ErrorKind::kBadRequest, "it sent more than {} bytes before it showed a key", kMostHandshake);
      return 0;
    }
    Moved moved = channel.below_.read_raw(std::as_writable_bytes(std::span(to, room)));
    if (moved.outcome == Outcome::kLater) BIO_set_retry_read(bio);
    if (moved.outcome == Outcome::kEnd) channel.ended_ = std::move(moved.reason);
    if (moved.outcome != Outcome::kSome) return moved.outcome == Outcome::kLater ? -1 : 0;
    if (!channel.established_) channel.note(to, moved.bytes);
    return static_cast<int>(moved.bytes);
  }

  static int write(BIO* bio, const char* from, int size) {
    TlsChannel& channel = of(bio);
    BIO_clear_retry_flags(bio);
    const auto bytes = std::as_bytes(std::span(from, static_cast<std::size_t>(std::max(size, 0))));
    Moved moved = channel.below_.write_raw(bytes);
    if (moved.outcome == Outcome::kLater) BIO_set_retry_write(bio);
    if (moved.outcome == Outcome::kEnd) channel.write_failed_ = std::move(moved.reason);
    if (moved.outcome != Outcome::kSome) return -1;
    channel.given_ += moved.bytes;
    return static_cast<int>(moved.bytes);
  }

  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return of(bio).ended_ ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }

  static int create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }

  static BIO_METHOD* make() {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "paceline stream");
    PACELINE_CHECK(method != nullptr, "OpenSSL has no memory");
    BIO_meth_set_read(method, read);
    BIO_meth_set_write(method, write);
    BIO_meth_set_ctrl(method, control);
    BIO_meth_set_create(method, create);
    return method;
  }

  static const BIO_METHOD* method() {
    static const std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)> only(make(), BIO_meth_free);
    return only.get();
  }
};

TlsChannel::TlsChannel(std::shared_ptr<const TlsContext> context, Side side, RawStream& below)
    : context_(std::move(context)), side_(side), below_(below), native_(SSL_new(context_->native())) {
  BIO* const bio = native_ == nullptr ? nullptr : BIO_new(Below::method());
  if (bio == nullptr) {
    // A process may end while its loop still runs; then OpenSSL is gone before the loop is.
    SSL_free(std::exchange(native_, nullptr));
    failure_ = error(ErrorKind::kIo, "OpenSSL makes no more connections: this process is ending, or has no memory left");
    return;
  }
  BIO_set_data(bio, this);
  SSL_set_bio(native_, bio, bio);
  SSL_set_app_data(native_, &offered_);
  if (side_ == Side::kConnects)
    SSL_set_connect_state(native_);
  else
    SSL_set_accept_state(native_);
}

TlsChannel::~TlsChannel() { SSL_free(native_); }

void TlsChannel::note(const char* bytes, std::size_t count) {
  if (taken_ < first_.size()) std::memcpy(first_.data() + taken_, bytes, std::min(count, first_.size() - taken_));
  taken_ += count;
}

TlsChannel::Next TlsChannel::shake_hands() {
  if (native_ == nullptr) return Next::kFailed;
  ERR_clear_error();
  const int result = established_ ? 1 : SSL_do_handshake(native_);
  if (result == 1) {
    if (!established_) settle();
    if (!failure_.ok()) return Next::kFailed;
    return context_->options().only_opens ? confirm() : Next::kDone;
  }
  if (const auto later = waits_for(result)) return *later;
  failure_ = keys_differ(handshake_reason());
  answer_in_the_clear();
  return Next::kFailed;
}

// Nothing: a call that gave this has failed.
std::optional<TlsChannel::Next> TlsChannel::waits_for(int result) const {
  const int why = SSL_get_error(native_, result);
  if (why == SSL_ERROR_WANT_READ) return Next::kRead;
  if (why == SSL_ERROR_WANT_WRITE) return Next::kWrite;
  return std::nullopt;
}

void TlsChannel::settle() {
  // OpenSSL says so when the key was used, and there is nothing else that it could have used. To be sure of that costs nothing.
  const bool certified = context_->key().certificate() != nullptr;
  const bool shown = certified ? SSL_get0_peer_certificate(native_) != nullptr && SSL_get_verify_result(native_) == X509_V_OK
                               : SSL_session_reused(native_) == 1;
  if (!shown || SSL_version(native_) != TLS1_3_VERSION) {
    failure_ = error(ErrorKind::kBadRequest, "it did not show {}", certified ? "a certificate" : "the job's key")
                   .because({"other-key", ""});
    return;
  }
  // Who names no protocol (openssl s_client) is taken for one that encrypts.
  const unsigned char* protocol = nullptr;
  unsigned int named = 0;
  SSL_get0_alpn_selected(native_, &protocol, &named);
  if (context_->options().only_opens && named == 0) {
    failure_ = keys_differ(other_plane());
    return;
  }
  established_ = true;
  drained_ = false;  // what came with the last bytes of the handshake is here already
  // The keys of the connection are made; the shared one need not stand in memory as long as it lives.
  constexpr Secret kNothing{};
  if (!certified)
    SSL_SESSION_set1_master_key(SSL_get_session(native_), reinterpret_cast<const unsigned char*>(kNothing.data()), kNothing.size());
  record_ = std::make_unique_for_overwrite<std::byte[]>(kRecord);
}

// The side that accepts says, encrypted, that it has accepted: one byte, behind which all is in the clear. Without it the other
// side could not tell a refusal from data.
TlsChannel::Next TlsChannel::confirm() {
  std::byte word{1};
  std::size_t moved = 0;
  const int result = side_ == Side::kAccepts ? SSL_write_ex(native_, &word, 1, &moved) : SSL_read_ex(native_, &word, 1, &moved);
  if (result == 1) {
    confirmed_ = SSL_has_pending(native_) == 0;
    if (!confirmed_) failure_ = error(ErrorKind::kCorrupt, "it sent more than the end of the handshake");
    return confirmed_ ? Next::kDone : Next::kFailed;
  }
  if (const auto later = waits_for(result)) return *later;
  failure_ = keys_differ(established_reason());
  return Next::kFailed;
}

// Somebody without TLS waits for an answer; the start of the next sentence of both sides is the same.
void TlsChannel::answer_in_the_clear() {
  if (side_ == Side::kAccepts && given_ == 0) below_.write_raw(kNoTlsAlert);
}

Moved TlsChannel::read(std::span<const iovec> spaces) {
  if (read_end_) return *read_end_;
  std::size_t total = 0;
  reading_waits_for_write_ = false;
  drained_ = false;
  for (const iovec& space : spaces) {
    for (std::size_t filled = 0; filled < space.iov_len;) {
      std::size_t got = 0;
      ERR_clear_error();
      const int result = SSL_read_ex(native_, static_cast<std::byte*>(space.iov_base) + filled, space.iov_len - filled, &got);
      if (result == 1) {
        filled += got;
        total += got;
        continue;
      }
      const int kind = SSL_get_error(native_, result);
      drained_ = kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE;
      reading_waits_for_write_ = kind == SSL_ERROR_WANT_WRITE;
      if (!drained_)
        read_end_ = {.outcome = Outcome::kEnd,
                     .reason = kind == SSL_ERROR_ZERO_RETURN ? Status() : keys_differ(established_reason())};
      if (total > 0) return {.outcome = Outcome::kSome, .bytes = total, .reason = {}};
      return drained_ ? Moved{.outcome = Outcome::kLater, .reason = {}} : *read_end_;
    }
  }
  return {.outcome = Outcome::kSome, .bytes = total, .reason = {}};
}

// A whole record from one piece stays where it is; smaller pieces are put together, for a record costs the same whatever is in it.
std::span<const std::byte> TlsChannel::next_record(std::span<const iovec> pieces, std::size_t from) {
  std::size_t put = 0;
  for (const iovec& piece : pieces) {
    if (from >= piece.iov_len) {
      from -= piece.iov_len;
      continue;
    }
    const auto* const begin = static_cast<const std::byte*>(piece.iov_base) + from;
    const std::size_t count = std::min(piece.iov_len - from, kRecord - put);
    from = 0;
    if (count == kRecord) return {begin, count};
    std::memcpy(record_.get() + put, begin, count);
    put += count;
    if (put == kRecord) break;
  }
  return {record_.get(), put};
}

Moved TlsChannel::write(std::span<const iovec> pieces) {
  std::size_t total = 0;
  while (true) {
    const auto record = next_record(pieces, total);
    if (record.empty()) return {.outcome = Outcome::kSome, .bytes = total, .reason = {}};
    change_key_if_due();
    std::size_t written = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(native_, record.data(), record.size(), &written);
    write_pending_ = result != 1;
    if (result == 1) {
      total += written;
      bytes_ += written;
      ++records_;
      continue;
    }
    const int kind = SSL_get_error(native_, result);
    if (kind != SSL_ERROR_WANT_WRITE && kind != SSL_ERROR_WANT_READ)
      return {.outcome = Outcome::kEnd, .reason = keys_differ(established_reason())};
    if (total > 0) return {.outcome = Outcome::kSome, .bytes = total, .reason = {}};
    return {.outcome = Outcome::kLater, .reason = {}};
  }
}

void TlsChannel::change_key_if_due() {
  const TlsOptions& limits = context_->options();
  if (write_pending_ || (bytes_ < limits.bytes_per_key && records_ < limits.records_per_key)) return;
  if (SSL_key_update(native_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return;  // one is under way
  bytes_ = records_ = 0;
  ++keys_used_;
}

void TlsChannel::say_goodbye() {
  if (!established_ || confirmed_ || write_pending_ || (read_end_ && !read_end_->reason.ok())) return;
  ERR_clear_error();
  SSL_shutdown(native_);
}

}  // namespace paceline::transport
