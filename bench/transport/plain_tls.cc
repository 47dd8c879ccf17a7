#include "bench/transport/plain_tls.h"

#include <algorithm>
#include <memory>
#include <thread>

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include "base/clock.h"

namespace paceline::bench {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* held) const {
    kFree(held);
  }
};
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Free<SSL_free>>;

// That vouches for nobody: who is at the other end is not what is measured.
Status show_some_certificate(SSL_CTX* context) {
  const std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, Free<X509_free>> certificate(X509_new());
  constexpr long kDay = 24L * 3600;
  const bool made =
      key != nullptr && certificate != nullptr && X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kDay) != nullptr &&
      X509_set_pubkey(certificate.get(), key.get()) == 1 && X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0 &&
      SSL_CTX_use_certificate(context, certificate.get()) == 1 && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
  return made ? Status() : error(ErrorKind::kIo, "plain TLS: OpenSSL makes no certificate");
}

Result<Context> make_context(const std::string& cipher) {
  Context context(SSL_CTX_new(TLS_method()));
  const bool set = context != nullptr && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_ciphersuites(context.get(), cipher.c_str()) == 1;
  if (!set) return error(ErrorKind::kBadRequest, "plain TLS: OpenSSL has no {}", cipher);
  PACELINE_RETURN_IF_ERROR(show_some_certificate(context.get()));
  return context;
}

bool send_all(SSL* to, std::span<const std::byte> bytes) {
  std::size_t written = 0;
  return SSL_write_ex(to, bytes.data(), bytes.size(), &written) == 1 && written == bytes.size();
}

bool receive_all(SSL* from, std::span<std::byte> place) {
  for (std::size_t filled = 0; filled < place.size();) {
    std::size_t got = 0;
    if (SSL_read_ex(from, place.data() + filled, place.size() - filled, &got) != 1) return false;
    filled += got;
  }
  return true;
}

bool receive_stream(SSL* from, const Chunks& chunks, std::size_t count) {
  std::vector<std::byte> place(std::ranges::max(chunks, {}, [](const auto& chunk) { return chunk.size(); }).size());
  if (SSL_accept(from) != 1) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (!receive_all(from, std::span(place).first(chunks[i % chunks.size()].size()))) return false;
  const auto& last = chunks[(count - 1) % chunks.size()];
  const std::byte right{std::ranges::equal(std::span(place).first(last.size()), last)};
  return send_all(from, {&right, 1});
}

}  // namespace

std::vector<std::string> tls_ciphers() {
  return {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"};
}

Result<Duration> stream_plain_tls(const Chunks& chunks, std::size_t count, const std::string& cipher) {
  PACELINE_ASSIGN_OR_RETURN(const Context context, make_context(cipher));
  PACELINE_ASSIGN_OR_RETURN(const SocketPair sockets, connected_sockets());
  const Session here(SSL_new(context.get())), there(SSL_new(context.get()));
  if (here == nullptr || there == nullptr || SSL_set_fd(here.get(), sockets.here()) != 1 ||
      SSL_set_fd(there.get(), sockets.there()) != 1)
    return error(ErrorKind::kIo, "plain TLS: OpenSSL has no memory");
  bool received = false;
  std::thread receiver([&] {
    received = receive_stream(there.get(), chunks, count);
    if (!received) ::shutdown(sockets.there(), SHUT_RDWR);  // so that the sender does not wait for ever
  });
  bool sent = SSL_connect(here.get()) == 1;
  const SystemClock clock;
  const TimePoint start = clock.now();
  for (std::size_t i = 0; i < count && sent; ++i) sent = send_all(here.get(), chunks[i % chunks.size()]);
  std::byte right{0};
  sent = sent && receive_all(here.get(), {&right, 1});
  const Duration taken = clock.now() - start;
  if (!sent) ::shutdown(sockets.here(), SHUT_RDWR);
  receiver.join();
  if (!sent || !received) return error(ErrorKind::kIo, "plain TLS: the stream with {} broke off", cipher);
  if (right != std::byte{1}) return error(ErrorKind::kCorrupt, "plain TLS: the last chunk arrived different");
  return taken;
}

}  // namespace paceline::bench
