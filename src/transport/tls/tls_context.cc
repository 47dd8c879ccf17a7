#include "transport/tls/tls_context.h"

#include <algorithm>

#include <openssl/ssl.h>

#include "base/check.h"
#include "transport/tls/offered_key.h"

namespace paceline::transport {
namespace {

constexpr unsigned char kContext[] = "paceline";
constexpr unsigned char kCipher[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

const TlsContext& context_of(SSL* ssl) { return *static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl))); }

// The pre-shared key in OpenSSL's clothes.
SSL_SESSION* make_session(SSL* ssl, const JobKey& key) {
  Secret shared = key.derive(kTlsPurpose);
  SSL_SESSION* session = SSL_SESSION_new();
  const bool made =
      session != nullptr &&
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(shared.data()), shared.size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipher)) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
      SSL_SESSION_set1_id_context(session, kContext, sizeof kContext - 1) == 1;
  wipe(shared);
  if (made) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

// As ALPN lists it: the length first.
constexpr std::string_view kEncrypted = "\x08paceline", kOpens = "\x13paceline-data-clear", kBesideClear = "\x10paceline-control";
static_assert(kEncrypted.size() == 1 + kEncrypted[0] && kOpens.size() == 1 + kOpens[0] &&
              kBesideClear.size() == 1 + kBesideClear[0]);

// Of control, too, by what becomes of data, so that processes which differ find out when they meet.
std::string_view protocol_of(const TlsContext& context) {
  if (context.options().only_opens) return kOpens;
  return context.key().leaves_data_clear() ? kBesideClear : kEncrypted;
}

// The side that accepts, where the other one names what it speaks.
int choose_protocol(SSL* ssl, const unsigned char** chosen, unsigned char* bytes, const unsigned char* offered, unsigned int count,
                    void*) {
  const std::string_view own = protocol_of(context_of(ssl));
  if (std::string_view(reinterpret_cast<const char*>(offered), count) != own) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = offered + 1;
  *bytes = static_cast<unsigned char>(count - 1);
  return SSL_TLSEXT_ERR_OK;
}

// The side that connects.
int use_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* bytes, SSL_SESSION** session) {
  const TlsContext& context = context_of(ssl);
  *session = make_session(ssl, context.key());
  *identity = reinterpret_cast<const unsigned char*>(context.identity().data());
  *bytes = context.identity().size();
  return *session != nullptr ? 1 : 0;
}

// The side that accepts. Another identity is no error yet: the handshake fails for want of anything that both sides know.
int find_key(SSL* ssl, const unsigned char* identity, std::size_t bytes, SSL_SESSION** session) {
  const TlsContext& context = context_of(ssl);
  const std::string_view told(reinterpret_cast<const char*>(identity), bytes);
  *session = nullptr;
  if (told == context.identity()) {
    *session = make_session(ssl, context.key());
    return *session != nullptr ? 1 : 0;
  }
  if (auto* const offered = static_cast<OfferedKey*>(SSL_get_app_data(ssl))) offered->note(told);
  return 1;
}

// Called for each certificate of a peer's chain, the peer's own last.
int judge(int good, X509_STORE_CTX* store) {
  auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  X509* const peer = X509_STORE_CTX_get0_cert(store);
  if (auto* const offered = static_cast<OfferedKey*>(SSL_get_app_data(ssl))) offered->note(display_name(peer));
  if (good != 1 || X509_STORE_CTX_get_error_depth(store) != 0) return good;
  if (context_of(ssl).key().certificate()->admits(peer)) return 1;
  X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
  return 0;
}

void show_certificate(SSL_CTX* native, const Certificate& certificate) {
  SSL_CTX_set1_cert_store(native, certificate.authority());
  bool shown =
      SSL_CTX_use_certificate(native, certificate.own()) == 1 && SSL_CTX_use_PrivateKey(native, certificate.private_key()) == 1;
  for (X509* const one : certificate.between()) shown = shown && SSL_CTX_add1_chain_cert(native, one) == 1;
  PACELINE_CHECK(shown, "this system's OpenSSL cannot use the certificate of {}", certificate.name());
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, judge);
}

SSL_CTX* make_native(const TlsContext* self) {
  SSL_CTX* native = SSL_CTX_new(TLS_method());
  PACELINE_CHECK(native != nullptr, "this system's OpenSSL cannot make a TLS context");
  const bool set = SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_max_proto_version(native, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_ciphersuites(native, "TLS_AES_128_GCM_SHA256") == 1 &&
                   SSL_CTX_set1_groups_list(native, "X25519") == 1 && SSL_CTX_set_num_tickets(native, 0) == 1 &&
                   SSL_CTX_set_max_early_data(native, 0) == 1 && SSL_CTX_set_recv_max_early_data(native, 0) == 1 &&
                   // Required of a side that verifies and has sessions, be it one that was made from a key.
                   SSL_CTX_set_session_id_context(native, kContext, sizeof kContext - 1) == 1;
  PACELINE_CHECK(set, "this system's OpenSSL has no TLS 1.3 with AES-128-GCM and X25519");
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_clear_options(native, SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(native, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // What is in the clear must not be read with the handshake.
  SSL_CTX_set_read_ahead(native, self->options().only_opens ? 0 : 1);
  const std::string_view protocol = protocol_of(*self);
  // It returns 0 for success.
  const int failed = SSL_CTX_set_alpn_protos(native, reinterpret_cast<const unsigned char*>(protocol.data()),
                                             static_cast<unsigned int>(protocol.size()));
  PACELINE_CHECK(failed == 0, "OpenSSL has no memory for a name");
  SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  SSL_CTX_set_app_data(native, const_cast<TlsContext*>(self));  // only read
  if (self->key().certificate() != nullptr) {
    show_certificate(native, *self->key().certificate());
    return native;
  }
  // Whoever answers with a certificate instead of the key is refused: there is no authority that could vouch for it.
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_psk_use_session_callback(native, use_key);
  SSL_CTX_set_psk_find_session_callback(native, find_key);
  return native;
}

}  // namespace

std::string tls_identity(const JobKey& key) {
  return key.certificate() == nullptr ? "paceline/1 key=" + key.name() : "the certificate of " + key.name();
}

TlsContext::TlsContext(JobKey key, const TlsOptions& options)
    : key_(std::move(key)), options_(options), identity_(tls_identity(key_)), native_(make_native(this)) {}

TlsContext::~TlsContext() { SSL_CTX_free(native_); }

}  // namespace paceline::transport
