#include "checkpoint/checkpoint_seal.h"

#include <algorithm>

#include "base/job_key_file.h"

namespace paceline::checkpoint {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

}  // namespace

Result<CheckpointSeal> CheckpointSeal::from_file(const std::string& key_file) {
  if (key_file.empty()) return CheckpointSeal();
  auto key = read_job_key(key_file);
  if (!key.ok()) return Status(key.status().kind(), "--checkpoint-key: " + key.status().message());
  if (key->certificate() != nullptr) {
    return error(ErrorKind::kBadRequest,
                 "--checkpoint-key {}: a certificate seals nothing; make a key with 'paceline key new FILE'", key_file)
        .because({"key", ""});
  }
  return CheckpointSeal(std::move(*key));
}

std::string CheckpointSeal::tag(std::string_view what, std::span<const std::byte> bytes) const {
  if (!key_) return "";
  Secret secret = key_->derive("paceline checkpoint 1");
  // In pieces, each with the proof of those before it, because a proof copies what it is about. The length comes first, so that no
  // text is the beginning of another.
  const std::uint64_t length = bytes.size();
  Proof proof = prove(secret, {std::as_bytes(std::span(what)), std::as_bytes(std::span(&length, 1))});
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    proof = prove(secret, {proof, piece});
    bytes = bytes.subspan(piece.size());
  }
  wipe(secret);
  std::string digits;
  for (const std::byte byte : proof) digits += fmt::format("{:02x}", std::to_integer<int>(byte));
  return digits;
}

Status CheckpointSeal::check(std::string_view what, std::span<const std::byte> bytes, std::string_view tag,
                             const std::string& where) const {
  if (!key_) return {};
  if (tag.empty())
    return error(ErrorKind::kCorrupt, "{} is not sealed; it was written without --checkpoint-key, or the seal was taken off", where)
        .because({"bad-checkpoint", ""});
  // Whoever may write the file sees neither the right tag nor how long this takes; still nothing is compared by early ends.
  const std::string right = this->tag(what, bytes);
  unsigned difference = right.size() == tag.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(right.size(), tag.size()); ++i) difference |= static_cast<unsigned>(right[i] ^ tag[i]);
  if (difference == 0) return {};
  return error(ErrorKind::kCorrupt,
               "{} does not match its seal; it was changed, belongs to another checkpoint, or was sealed with another key", where)
      .because({"bad-checkpoint", ""});
}

}  // namespace paceline::checkpoint
