// The key of a job: 32 random bytes. Whoever holds them is a member, whoever does not is nobody (docs/security.md). They stand in a
// page of memory of their own that no core dump holds, and are wiped when the last copy of the key goes. Nothing here prints them.
// In its place a process may have a certificate of its own (certificate.h); then the bytes are drawn, and mean nothing to others.
//
// Threads: any. Copies are cheap, and share the page.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/certificate.h"
#include "base/secret.h"
#include "base/status.h"

namespace paceline {

class JobKey {
 public:
  static constexpr std::size_t kBytes = std::tuple_size_v<Secret>;

  static JobKey draw();
  // Or a certificate, of text. kBadRequest: another number of bytes, or nothing but zeros; what Certificate::from refuses.
  static Result<JobKey> from(std::span<const std::byte> bytes);
  // What from() made it of.
  std::span<const std::byte> source() const;

  std::span<const std::byte, kBytes> bytes() const { return *held_; }
  // What else the key gives, for one purpose each: HKDF-SHA256 (RFC 5869) without salt, 32 bytes. The caller wipes it.
  Secret derive(std::string_view purpose) const;
  // How a process uses it: connections of data are opened with it, and what follows is in the clear (docs/security.md).
  JobKey leaving_data_clear() const;
  bool leaves_data_clear() const { return leaves_data_clear_; }
  // Sixteen hexadecimal digits that tell keys apart and say nothing of the key.
  std::string name() const;

  const std::shared_ptr<const Certificate>& certificate() const { return certificate_; }  // null: a key

  bool operator==(const JobKey& other) const { return same(*held_, *other.held_); }

 private:
  explicit JobKey(std::shared_ptr<const Secret> held) : held_(std::move(held)) {}

  std::shared_ptr<const Secret> held_;
  std::shared_ptr<const Certificate> certificate_;
  bool leaves_data_clear_ = false;
};

}  // namespace paceline
