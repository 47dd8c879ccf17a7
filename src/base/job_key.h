// The key of a job: 32 random bytes. Whoever holds them is a member, whoever does not is nobody (docs/security.md). They stand in a
// page of memory of their own that no core dump holds, and are wiped when the last copy of the key goes. Nothing here prints them.
//
// Threads: any. Copies are cheap, and share the page.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "base/status.h"

namespace paceline {

class JobKey {
 public:
  static constexpr std::size_t kBytes = std::tuple_size_v<Secret>;

  static JobKey draw();
  // kBadRequest: another number of bytes, or nothing but zeros.
  static Result<JobKey> from(std::span<const std::byte> bytes);

  std::span<const std::byte, kBytes> bytes() const { return *held_; }
  // What else the key gives, for one purpose each: HKDF-SHA256 (RFC 5869) without salt, 32 bytes. The caller wipes it.
  Secret derive(std::string_view purpose) const;
  // Sixteen hexadecimal digits that tell keys apart and say nothing of the key.
  std::string name() const;

  bool operator==(const JobKey& other) const { return same(*held_, *other.held_); }

 private:
  explicit JobKey(std::shared_ptr<const Secret> held) : held_(std::move(held)) {}

  std::shared_ptr<const Secret> held_;
};

}  // namespace paceline
