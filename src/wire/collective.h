// What every message of a collective operation says about it, so that ranks which disagree find out before a byte is trusted. It
// travels in the fields of MessageHead that parameter servers use otherwise:
//
//   unit        number of the operation in its group, counted from 1, modulo 2^32
//   iteration   bits 0-39 count, 40-63 index
//   detail      bits 0-3 kind, 4-7 dtype, 8-9 reduction, 10-12 algorithm, 13-25 root, 26-31 upper bits of the group. Elements that
//               are only moved, of which there are more than 16 kinds, have bits 8-9 too
//   flags       lower bits of the group, as the sender counts its groups
//   layer       priority of the operation
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "wire/message.h"

namespace paceline::wire {

enum class CollectiveKind : std::uint8_t {
  kBroadcast,
  kReduce,
  kAllreduce,
  kReduceScatter,
  kAllgather,
  kBarrier,
  kAlltoall,
  kGather,
  kScatter
};
inline constexpr CollectiveKind kLastCollectiveKind = CollectiveKind::kScatter;

inline constexpr std::int64_t kMostCollectiveCount = (std::int64_t{1} << 40) - 1;
inline constexpr std::int32_t kMostCollectiveRanks = 1 << 13;
inline constexpr std::uint32_t kMostCollectiveIndex = (1U << 24) - 1;
inline constexpr std::uint32_t kMostCollectiveGroup = (1U << 14) - 1;
// The index of a kCollectiveReady whose receiver is to answer with one when it has begun the operation too.
inline constexpr std::uint32_t kAsksBack = 1;
inline constexpr std::uint8_t kCollectiveDTypes = 21, kCollectiveReductions = 4, kCollectiveAlgorithms = 5;
// Of the dtypes the first are added too; the others have no reduction.
inline constexpr std::uint8_t kAddedCollectiveDTypes = 5;

struct CollectiveHead {
  CollectiveKind kind = CollectiveKind::kAllreduce;
  std::uint8_t dtype = 0;      // tensor::DType, or another number of collectives::kMovedTypes
  std::uint8_t reduction = 0;  // collectives::ReductionKind
  std::uint8_t algorithm = 0;  // collectives::Algorithm
  std::int32_t root = 0;       // below kMostCollectiveRanks
  std::int64_t count = 0;      // elements of the whole message, at most kMostCollectiveCount
  std::uint32_t group = 0;     // at most kMostCollectiveGroup
  std::uint32_t number = 0;
  // Of the message: its place among those of this operation from this sender to this receiver. One without a payload is the first;
  // there it says how the sender cuts the operation (collectives/exec/program.h). Of a kCollectiveReady: 0 or kAsksBack.
  std::uint32_t index = 0;

  bool operator==(const CollectiveHead&) const = default;
};

// Whether both mean the same operation; the index belongs to the message.
bool same_operation(CollectiveHead a, const CollectiveHead& b);

// The payload of a kCollectiveGroup.
struct CollectiveGroup {
  std::uint64_t name = 0;   // the same at all its ranks
  std::vector<Rank> ranks;  // of the job, ascending

  bool operator==(const CollectiveGroup&) const = default;
};
inline constexpr std::uint64_t kMostCollectiveGroupBytes = 12 + 4 * std::uint64_t{kMostCollectiveRanks};

std::vector<std::byte> encode(const CollectiveGroup& group);
// Errors: kCorrupt.
Result<CollectiveGroup> decode_collective_group(std::span<const std::byte> payload);

// Fills unit, detail, flags and iteration of `to`. Requires that all values are legal.
void pack(const CollectiveHead& head, MessageHead& to);
// Errors: kCorrupt for bits that mean nothing.
Result<CollectiveHead> unpack(const MessageHead& from);

// The largest payload of a collective's message that its sender copies, so that nobody has to hear soon that it has arrived.
inline constexpr std::uint64_t kCopiedCollectiveBytes = 8192;
bool is_copied_collective(const MessageHead& head);

}  // namespace paceline::wire
