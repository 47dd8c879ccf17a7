#include "base/checksum.h"

#include <fmt/core.h>
#include <isa-l/crc.h>
#include <xxhash.h>

#include "base/check.h"

namespace paceline {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t continued) {
  // ISA-L's register starts as all ones and is not inverted at the end; the standard's value is.
  std::uint32_t crc = ~continued;
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // its length is an int
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data())), static_cast<int>(piece.size()), crc);
    bytes = bytes.subspan(piece.size());
  }
  return ~crc;
}

struct Hash128::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    PACELINE_CHECK(xxh != nullptr, "no memory for a hash state");
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
};

Hash128::Hash128() : state_(std::make_unique<State>()) {}
Hash128::~Hash128() = default;

void Hash128::update(std::span<const std::byte> bytes) { XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()); }

std::string Hash128::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace paceline
