// What shows that a checkpoint was written by somebody who has its key (--checkpoint-key): HMAC-SHA256 with a key that follows from
// that one for this purpose alone. Every array has a tag in its part's header, every header one in the manifest, and the manifest
// one over itself; so nothing can be changed, mixed or moved to another iteration by whoever has not the key.
//
// Threads: a value; any.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/job_key.h"
#include "base/status.h"

namespace paceline::checkpoint {

class CheckpointSeal {
 public:
  CheckpointSeal() = default;  // no key: gives empty tags, and looks at none
  explicit CheckpointSeal(JobKey key) : key_(std::move(key)) {}
  // "": none. Errors: those of read_job_key.
  static Result<CheckpointSeal> from_file(const std::string& key_file);

  explicit operator bool() const { return key_.has_value(); }
  // 64 hexadecimal digits. `what` parts tags of manifests, headers and arrays.
  std::string tag(std::string_view what, std::span<const std::byte> bytes) const;
  // kCorrupt naming `where`, a file or a tensor of it: there is no tag, or another one.
  Status check(std::string_view what, std::span<const std::byte> bytes, std::string_view tag, const std::string& where) const;

 private:
  std::optional<JobKey> key_;
};

inline constexpr std::string_view kSealedManifest = "manifest", kSealedHead = "part", kSealedArray = "array";

}  // namespace paceline::checkpoint
