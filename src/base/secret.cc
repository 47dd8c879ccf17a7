#include "base/secret.h"

#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace paceline {
namespace {

// A program may return from main while a thread of a session still proves or encrypts: libcrypto then has to be there to the last.
// Where the program used it before this was loaded, the program decides.
[[maybe_unused]] const bool stays_to_the_end = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;

template <typename T>
void draw_into(T& drawn) {
  do {
    PACELINE_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&drawn), sizeof drawn) == 1, "the system has no random numbers");
  } while (drawn == T{});
}

template <typename T>
T draw() {
  T drawn{};
  draw_into(drawn);
  return drawn;
}

}  // namespace

Secret draw_secret() { return draw<Secret>(); }
void draw_secret(Secret& to) { draw_into(to); }
Nonce draw_nonce() { return draw<Nonce>(); }
std::uint32_t draw_number() { return draw<std::uint32_t>(); }
std::uint64_t draw_id() { return draw<std::uint64_t>(); }

void wipe(std::span<std::byte> bytes) { OPENSSL_cleanse(bytes.data(), bytes.size()); }

Proof prove(const Secret& secret, std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> all;
  std::size_t total = 0;
  for (const auto& part : parts) total += part.size();
  all.reserve(total);  // so that it does not move, and leave what it held behind
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  Proof proof{};
  unsigned int bytes = proof.size();
  const auto* made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), reinterpret_cast<const unsigned char*>(all.data()),
           all.size(), reinterpret_cast<unsigned char*>(proof.data()), &bytes);
  wipe(all);
  PACELINE_CHECK(made != nullptr && bytes == proof.size(),
                 "libcrypto makes no HMAC with SHA-256: this system has none, or OpenSSL was ended");
  return proof;
}

bool same(const Proof& a, const Proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace paceline
