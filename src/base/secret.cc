#include "base/secret.h"

#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace paceline {
namespace {

template <typename T>
T draw() {
  T drawn{};
  do {
    PACELINE_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&drawn), sizeof drawn) == 1, "the system has no random numbers");
  } while (drawn == T{});
  return drawn;
}

}  // namespace

Secret draw_secret() { return draw<Secret>(); }
Nonce draw_nonce() { return draw<Nonce>(); }
std::uint32_t draw_number() { return draw<std::uint32_t>(); }

Proof prove(const Secret& secret, std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  Proof proof{};
  unsigned int bytes = proof.size();
  const auto* made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), reinterpret_cast<const unsigned char*>(all.data()),
           all.size(), reinterpret_cast<unsigned char*>(proof.data()), &bytes);
  PACELINE_CHECK(made != nullptr && bytes == proof.size(), "this system's libcrypto has no SHA-256");
  return proof;
}

bool same(const Proof& a, const Proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace paceline
