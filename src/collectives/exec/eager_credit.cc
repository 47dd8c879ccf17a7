#include "collectives/exec/eager_credit.h"

#include <algorithm>
#include <utility>

namespace paceline::collectives {

std::int64_t early_bytes_of_each(std::int32_t ranks) { return std::max(kEagerBytes, kMostEarlyBytes / std::max(1, ranks - 1)); }

EagerCredit::EagerCredit(std::int32_t ranks) : limit_(early_bytes_of_each(ranks)), peers_(static_cast<std::size_t>(ranks)) {}

bool EagerCredit::take(Rank to, const wire::CollectiveHead& operation, std::int64_t bytes) {
  Peer& peer = at(to);
  Sent& sent = peer.sent[operation.group];
  if (!is_after(operation.number, sent.begun)) return true;
  if (peer.bytes + bytes > limit_) return false;
  peer.bytes += bytes;
  sent.bytes += bytes;
  sent.newest = operation;
  sent.asked = false;
  return true;
}

void EagerCredit::on_begun(Rank from, const wire::CollectiveHead& operation) {
  Peer& peer = at(from);
  Sent& sent = peer.sent[operation.group];
  if (is_after(operation.number, sent.begun)) sent.begun = operation.number;
  if (sent.bytes == 0 || is_after(sent.newest.number, sent.begun)) return;
  peer.bytes -= sent.bytes;
  sent.bytes = 0;
}

void EagerCredit::on_closed(std::uint32_t group) {
  for (Peer& peer : peers_) {
    if (const auto sent = peer.sent.find(group); sent != peer.sent.end()) sent->second.asked = true;
  }
}

void EagerCredit::forget(std::uint32_t group) {
  for (Peer& peer : peers_) {
    if (const auto sent = peer.sent.extract(group); !sent.empty()) peer.bytes -= sent.mapped().bytes;
  }
}

std::vector<wire::CollectiveHead> EagerCredit::to_ask_about(Rank peer, std::uint32_t group) {
  std::vector<wire::CollectiveHead> operations;
  for (auto& [of, sent] : at(peer).sent) {
    if (of != group && sent.bytes > 0 && !std::exchange(sent.asked, true)) operations.push_back(sent.newest);
  }
  return operations;
}

}  // namespace paceline::collectives
