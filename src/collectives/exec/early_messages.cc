#include "collectives/exec/early_messages.h"

namespace paceline::collectives {

Result<std::span<std::byte>> EarlyMessages::on_begin(Rank from, const wire::CollectiveHead& head, std::uint64_t bytes) {
  auto& waiting = waiting_[key_of(head)];
  auto of_operation = static_cast<std::int64_t>(bytes);
  for (const EarlyMessage& message : waiting) {
    if (message.from == from && message.block) of_operation += static_cast<std::int64_t>(message.block.bytes().size());
  }
  const std::int64_t in_all = bytes_of(from) + static_cast<std::int64_t>(bytes);
  if (of_operation > kEagerBytes || in_all > limit_) {
    return error(
        ErrorKind::kOverloaded,
        "{} bytes for operation {}, which rank {} has not begun, and {} for all such; at most {} for one and {} for all are "
        "kept of a rank",
        of_operation, head.number, self_.value, in_all, kEagerBytes, limit_);
  }
  waiting.push_back({from, head, pool_.take(bytes), false, false});
  bytes_of(from) = in_all;
  return waiting.back().block.bytes();
}

void EarlyMessages::on_arrived(Rank from, const wire::CollectiveHead& head, std::span<const std::byte> payload) {
  const auto waiting = waiting_.find(key_of(head));
  if (waiting == waiting_.end()) return;
  for (EarlyMessage& message : waiting->second) {
    if (message.block && message.from == from && message.block.bytes().data() == payload.data()) message.complete = true;
  }
}

void EarlyMessages::add(Rank from, const wire::CollectiveHead& head, bool ready) {
  waiting_[key_of(head)].push_back({from, head, {}, true, ready});
}

void EarlyMessages::on_lost(Rank peer) {
  for (auto& [operation, waiting] : waiting_) {
    std::erase_if(waiting, [&](const EarlyMessage& message) {
      const bool gone = message.from == peer && !message.complete;
      if (gone) bytes_of(peer) -= static_cast<std::int64_t>(message.block.bytes().size());
      return gone;
    });
  }
}

void EarlyMessages::forget(std::uint32_t group) {
  const auto first = waiting_.lower_bound({group, 0}), last = waiting_.lower_bound({group + 1, 0});
  for (auto at = first; at != last; ++at) {
    for (const EarlyMessage& message : at->second) {
      if (message.block) bytes_of(message.from) -= static_cast<std::int64_t>(message.block.bytes().size());
    }
  }
  waiting_.erase(first, last);
}

bool EarlyMessages::has(const Key& operation) const {
  const auto waiting = waiting_.find(operation);
  return waiting != waiting_.end() && !waiting->second.empty();
}

std::vector<EarlyMessage> EarlyMessages::take(const Key& operation) {
  auto taken = waiting_.extract(operation);
  if (taken.empty()) return {};
  for (const EarlyMessage& message : taken.mapped()) {
    if (message.block) bytes_of(message.from) -= static_cast<std::int64_t>(message.block.bytes().size());
  }
  return std::move(taken.mapped());
}

}  // namespace paceline::collectives
