#include "wire/collective.h"

#include "wire/codec.h"

namespace paceline::wire {
namespace {

constexpr int kCountBits = 40;

// Four bits for elements that are added, and two for the reduction. What is left of the four, times four, is for the others.
constexpr std::uint32_t kOthers = 16 - kAddedCollectiveDTypes;
static_assert(kCollectiveDTypes <= kAddedCollectiveDTypes + 4 * kOthers);

std::uint32_t elements_bits(const CollectiveHead& head) {
  if (head.dtype < kAddedCollectiveDTypes) return head.dtype | std::uint32_t{head.reduction} << 4;
  const std::uint32_t other = head.dtype - kAddedCollectiveDTypes;
  return (kAddedCollectiveDTypes + other % kOthers) | other / kOthers << 4;
}

void read_elements(std::uint32_t bits, CollectiveHead& head) {
  const std::uint32_t lower = bits & 0xf, upper = bits >> 4 & 0x3;
  const bool added = lower < kAddedCollectiveDTypes;
  head.dtype = static_cast<std::uint8_t>(added ? lower : lower + upper * kOthers);
  head.reduction = static_cast<std::uint8_t>(added ? upper : 0);
}

}  // namespace

void pack(const CollectiveHead& head, MessageHead& to) {
  PACELINE_CHECK(head.count >= 0 && head.count <= kMostCollectiveCount && head.index <= kMostCollectiveIndex && head.root >= 0 &&
                     head.root < kMostCollectiveRanks && head.group <= kMostCollectiveGroup &&
                     (head.dtype < kAddedCollectiveDTypes || head.reduction == 0),
                 "count {}, index {}, root {}, group {}, dtype {}, reduction {}", head.count, head.index, head.root, head.group,
                 head.dtype, head.reduction);
  to.unit = head.number;
  to.flags = static_cast<std::uint8_t>(head.group & 0xff);
  to.iteration = static_cast<std::int64_t>(static_cast<std::uint64_t>(head.count) | std::uint64_t{head.index} << kCountBits);
  to.detail = static_cast<std::uint32_t>(head.kind) | elements_bits(head) << 4 | std::uint32_t{head.algorithm} << 10 |
              static_cast<std::uint32_t>(head.root) << 13 | head.group >> 8 << 26;
}

Result<CollectiveHead> unpack(const MessageHead& from) {
  const std::uint32_t bits = from.detail;
  const auto words = static_cast<std::uint64_t>(from.iteration);
  CollectiveHead head;
  const std::uint32_t kind = bits & 0xf;
  head.kind = static_cast<CollectiveKind>(kind);
  read_elements(bits >> 4, head);
  head.algorithm = static_cast<std::uint8_t>(bits >> 10 & 0x7);
  head.root = static_cast<std::int32_t>(bits >> 13 & 0x1fff);
  head.count = static_cast<std::int64_t>(words & kMostCollectiveCount);
  head.group = from.flags | bits >> 26 << 8;
  head.number = from.unit;
  head.index = static_cast<std::uint32_t>(words >> kCountBits);
  const bool legal = kind <= static_cast<std::uint32_t>(kLastCollectiveKind) && head.dtype < kCollectiveDTypes &&
                     head.algorithm < kCollectiveAlgorithms;
  if (!legal) return error(ErrorKind::kCorrupt, "a message of a collective operation that does not exist ({:#010x})", bits);
  return head;
}

// In an all-to-all the count is the message's too: how much its sender takes of who receives it.
bool same_operation(CollectiveHead a, const CollectiveHead& b) {
  a.index = b.index;
  if (a.kind == CollectiveKind::kAlltoall) a.count = b.count;
  return a == b;
}

std::vector<std::byte> encode(const CollectiveGroup& group) {
  Writer to;
  to.put(group.name);
  to.put_list(group.ranks, [](Writer& writer, Rank rank) { writer.put(rank.value); });
  return to.take();
}

Result<CollectiveGroup> decode_collective_group(std::span<const std::byte> payload) {
  Reader from(payload);
  CollectiveGroup group;
  group.name = from.get<std::uint64_t>();
  group.ranks = from.get_list<Rank>(sizeof(std::int32_t), [](Reader& reader) { return Rank{reader.get<std::int32_t>()}; });
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    if (group.ranks[i].value < 0 || (i > 0 && group.ranks[i] <= group.ranks[i - 1])) from.fail();
  }
  if (!from.finished() || group.ranks.empty()) return error(ErrorKind::kCorrupt, "a collective group message is malformed");
  return group;
}

bool is_copied_collective(const MessageHead& head) {
  const bool is_data = head.kind == MessageKind::kCollective || head.kind == MessageKind::kCollectiveReady;
  return is_data && head.payload_bytes <= kCopiedCollectiveBytes;
}

}  // namespace paceline::wire
