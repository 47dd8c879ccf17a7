// Why there is no channel, or no more of it, in words that say what to do.
#include <cstring>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "transport/tls/tls_channel.h"
#include "wire/frame.h"

namespace paceline::transport {
namespace {

const char* text_of(unsigned long code) {
  const char* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return text == nullptr ? "no reason given" : text;
}

// The alert that the peer sent, or 0.
int alert_of(unsigned long code) {
  const int reason = ERR_GET_REASON(code);
  return reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256 ? reason - SSL_AD_REASON_OFFSET : 0;
}

}  // namespace

// What was wrong with a certificate: the peer's, or, as the peer says, this process's.
std::optional<Status> TlsChannel::certificate_reason(unsigned long code) const {
  const bool certified = context_->key().certificate() != nullptr;
  const char* const kind = certified ? "" : "; this process has a job key, and all of a job need the same kind of --job-key-file";
  switch (alert_of(code)) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_CERTIFICATE_REQUIRED:
      return error(ErrorKind::kBadRequest, "it refused {} ({}){}", context_->identity(), text_of(code), kind);
    case SSL_AD_HANDSHAKE_FAILURE:
      if (!certified) break;
      return error(ErrorKind::kBadRequest,
                   "it takes no certificate; all of a job need the same kind of --job-key-file, and this process has {}",
                   context_->identity());
    default:
      break;
  }
  if (ERR_GET_REASON(code) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return error(ErrorKind::kBadRequest, "it shows no certificate, and all of this job have one; give it one with --job-key-file");
  const long verified = SSL_get_verify_result(native_);
  if (ERR_GET_REASON(code) != SSL_R_CERTIFICATE_VERIFY_FAILED || verified == X509_V_OK) return std::nullopt;
  if (!certified) return error(ErrorKind::kBadRequest, "it shows a certificate{}", kind);
  const std::string who = offered_.name().empty() ? "" : " of " + offered_.name();
  if (verified == X509_V_ERR_HOSTNAME_MISMATCH) {
    return error(ErrorKind::kBadRequest, "its certificate{} is of none of the peers that this process's file admits", who);
  }
  return error(ErrorKind::kBadRequest, "its certificate{} does not hold: {}", who, X509_verify_cert_error_string(verified))
      .because({kNoCertificate, ""});
}

Status TlsChannel::other_plane() const {
  return error(ErrorKind::kBadRequest,
               "it {}, and this process does not; give --allow-clear-data to all processes of the job or to none",
               context_->options().only_opens || context_->key().leaves_data_clear() ? "encrypts data" : "sends data in the clear");
}

Status TlsChannel::handshake_reason() const {
  const unsigned long code = ERR_peek_error();
  const std::string& own = context_->identity();
  const bool certified = context_->key().certificate() != nullptr;
  const char* const mend = certified ? "give each process of the job its certificate with --job-key-file"
                                     : "give all processes of the job the same file with --job-key-file";
  if (std::memcmp(first_.data(), wire::kMagic.data(), first_.size()) == 0) {
    return error(ErrorKind::kBadRequest,
                 "it talks in the clear, and this process only encrypted: it was started without the job's key; {}", mend);
  }
  if (ended_ && !ended_->ok()) return *ended_;
  if (const auto why = certificate_reason(code)) return *why;
  if (alert_of(code) == SSL_AD_NO_APPLICATION_PROTOCOL || ERR_GET_REASON(code) == SSL_R_NO_APPLICATION_PROTOCOL)
    return other_plane();
  switch (alert_of(code)) {
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_ILLEGAL_PARAMETER:
    case SSL_AD_DECRYPT_ERROR:
    case SSL_AD_UNKNOWN_PSK_IDENTITY:
      if (certified) break;
      return error(ErrorKind::kBadRequest, "it refused this process's job key ({}) and has another one; {}", own, mend);
    default:
      break;
  }
  if (ended_) return error(ErrorKind::kPeerLost, "it closed the connection during the TLS handshake");
  if (write_failed_) return *write_failed_;
  if (!certified && !offered_.name().empty())
    return error(ErrorKind::kBadRequest, "it offers another job key ({}) than this process has ({}); {}", offered_.name(), own,
                 mend);
  if (ERR_GET_REASON(code) == SSL_R_BINDER_DOES_NOT_VERIFY)
    return error(ErrorKind::kBadRequest, "it names this job's key ({}) and does not hold it", own);
  return error(ErrorKind::kBadRequest, "it does not speak TLS 1.3 with {} ({}); {}", certified ? "a certificate" : "the job's key",
               text_of(code), mend);
}

Status TlsChannel::established_reason() const {
  const unsigned long code = ERR_peek_error();
  if (ended_ && !ended_->ok()) return *ended_;
  // The side that connects has sent its certificate last, and hears only now that it is refused.
  if (const auto why = certificate_reason(code)) return *why;
  if (alert_of(code) != 0) return error(ErrorKind::kPeerLost, "it broke off ({})", text_of(code));
  if (ended_) return error(ErrorKind::kPeerLost, "the connection was cut off: it ended without TLS's goodbye");
  if (write_failed_) return *write_failed_;
  return error(ErrorKind::kCorrupt, "what came is not what the peer sent, or not in its place ({})", text_of(code));
}

}  // namespace paceline::transport
