#include "base/secret.h"

#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// RFC 4231, case 2 ("Jefe"): a key is filled up with zeros, so ours of 32 bytes is the same key.
TEST(Secret, AProofIsTheHmacOfTheStandardWhateverThePartsAreCutInto) {
  Secret secret{};
  for (std::size_t i = 0; i < 4; ++i) secret[i] = static_cast<std::byte>("Jefe"[i]);
  const char* const kExpected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  EXPECT_EQ(hex(prove(secret, {bytes_of("what do ya want for nothing?")})), kExpected);
  EXPECT_EQ(hex(prove(secret, {bytes_of("what do ya "), {}, bytes_of("want for nothing?")})), kExpected);
}

TEST(Secret, TwoProofsAreTheSameOnlyIfEachBitIs) {
  const Proof proof = prove(draw_secret(), {bytes_of("something")});
  EXPECT_TRUE(same(proof, proof));
  for (std::size_t bit = 0; bit < 8 * proof.size(); ++bit) {
    Proof other = proof;
    other[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(same(proof, other)) << bit;
  }
}

TEST(Secret, WhatIsDrawnIsNeverDrawnAgain) {
  std::set<Secret> secrets;
  std::set<Nonce> nonces;
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(secrets.insert(draw_secret()).second);
    EXPECT_TRUE(nonces.insert(draw_nonce()).second);
    EXPECT_TRUE(ids.insert(draw_id()).second);
    EXPECT_NE(draw_number(), 0U);
  }
}

}  // namespace
}  // namespace paceline
