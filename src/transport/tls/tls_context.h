// What the TLS connections of one transport have in common. TLS 1.3 (RFC 8446) with the job's key as external pre-shared key,
// always together with a fresh Diffie-Hellman secret (psk_dhe_ke, X25519): both sides prove at once that they hold the key, and
// whoever learns the key later reads nothing that was recorded before. One cipher, TLS_AES_128_GCM_SHA256. What the standard
// leaves open is closed: no other version, no ticket, no early data (it could be replayed), no certificate, no renegotiation.
//
// The pre-shared key is JobKey::derive(kTlsPurpose); the identity that is told in the clear names the key, not the job, because a
// member that joins does not know the job's number yet. Hence: one key for one job. Both are made anew for each handshake.
//
// With a certificate in the key's place (base/certificate.h) both sides show theirs, and each refuses what its authority has not
// signed, what has expired and whom its file does not admit; all else is the same.
#pragma once

#include <memory>
#include <string>

#include "base/job_key.h"
#include "base/status.h"

struct ssl_ctx_st;

namespace paceline::transport {

inline constexpr std::string_view kTlsPurpose = "paceline tls 1";
// "paceline/1 key=0123456789abcdef"
std::string tls_identity(const JobKey& key);

struct TlsOptions {
  // Bytes sent under one key, after which the next is taken. AES-GCM allows 2^24.5 records, 380 GB of full ones; a record may be
  // small. At least 1.
  std::uint64_t bytes_per_key = std::uint64_t{64} << 30;
  std::uint64_t records_per_key = std::uint64_t{1} << 22;
  // Both sides show who they are, and all that follows the handshake is in the clear. A side that means it otherwise is refused:
  // each names what it means as its application protocol (ALPN, RFC 7301), which the handshake protects.
  bool only_opens = false;
};

class TlsContext {
 public:
  explicit TlsContext(JobKey key, const TlsOptions& options = {});
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  const JobKey& key() const { return key_; }
  const std::string& identity() const { return identity_; }  // for messages too
  const TlsOptions& options() const { return options_; }
  ssl_ctx_st* native() const { return native_; }

 private:
  JobKey key_;
  TlsOptions options_;
  std::string identity_;
  ssl_ctx_st* native_;
};

}  // namespace paceline::transport
