// What the files of a checkpoint share: parts as JSON members, checksums as text. For the files checkpoint*.cc only.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_part.h"

namespace paceline::checkpoint {

inline constexpr int kCheckpointFormat = 1;
inline constexpr std::string_view kPartMagic = "PACEPART", kManifestBeginning = "{\n \"format\": ";
inline constexpr std::string_view kPartSuffix = ".bin";

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// The whole number `key` from `least` to `most`. Throws what the accessors of JSON throw, also for another one.
std::int64_t whole_at(const nlohmann::ordered_json& json, const char* key, std::int64_t least, std::int64_t most);
inline constexpr std::int64_t kMostInt32 = std::numeric_limits<std::int32_t>::max();

std::string hex(std::uint32_t crc);  // 8 digits
nlohmann::ordered_json to_json(const PartSummary& part);
// Throws what the accessors of JSON throw. The name is one of a part, so that it can become a path.
PartSummary part_summary_from(const nlohmann::ordered_json& json);

}  // namespace paceline::checkpoint
