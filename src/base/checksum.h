// Checks of bytes: CRC32C against damage on wire and disk (ISA-L), XXH3-128 to say whether two models are bit-equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace paceline {

// CRC32C (Castagnoli, as in RFC 3720) of `bytes`; `crc32c(b, crc32c(a)) == crc32c(a followed by b)`. About 10 GB/s.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t continued = 0);

// XXH3 with 128 bits over a sequence of pieces; where the pieces are cut makes no difference.
class Hash128 {
 public:
  Hash128();
  ~Hash128();
  Hash128(const Hash128&) = delete;
  Hash128& operator=(const Hash128&) = delete;

  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // 32 lower-case hexadecimal digits, most significant first (xxh128sum's form)

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline
