#include "paramserver/service/dear_sender.h"

namespace paceline::paramserver {

DearSender::~DearSender() {
  for (auto& [worker, line] : lines_) loop_.cancel(line.timer);
}

void DearSender::send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  if (head.kind != wire::MessageKind::kValue && head.kind != wire::MessageKind::kValues)
    return sender_.send(to, head, payload, ticket);
  Line& line = lines_[to];
  line.waiting.push_back({head, payload, ticket});
  if (line.waiting.size() == 1) begin(to, line);
}

void DearSender::begin(Rank worker, Line& line) {
  line.left = false;
  line.timer = loop_.run_after(start_up_, [this, worker, &line] {
    line.left = true;
    const Held message = line.waiting.front();
    sender_.send(worker, message.head, message.payload, message.ticket);
  });
}

void DearSender::on_delivered(Rank worker, std::uint64_t ticket) {
  const auto found = lines_.find(worker);
  if (found == lines_.end()) return;
  Line& line = found->second;
  if (line.waiting.empty() || !line.left || line.waiting.front().ticket != ticket) return;
  line.waiting.pop_front();
  if (!line.waiting.empty()) begin(worker, line);
}

void DearSender::on_peer_lost(Rank worker) {
  const auto found = lines_.find(worker);
  if (found == lines_.end()) return;
  loop_.cancel(found->second.timer);
  lines_.erase(found);
}

}  // namespace paceline::paramserver
