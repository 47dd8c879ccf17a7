// What a message is to the node's egress queue: which of the two flows, and which turn in a plan.
#pragma once

#include <cstdint>
#include <optional>

#include "scheduling/schedule.h"
#include "wire/collective.h"
#include "wire/message.h"

namespace paceline::session {

constexpr scheduling::Flow flow_of(wire::Channel channel) {
  return channel == wire::Channel::kValues ? scheduling::Flow::kReply : scheduling::Flow::kPush;
}

// A collective's data leaves in the order of its sender's tickets, but small messages do not wait for large ones.
inline std::optional<std::uint64_t> turn_of(const wire::MessageHead& head, std::uint64_t ticket) {
  if (head.kind != wire::MessageKind::kCollective) return std::nullopt;
  return wire::is_copied_collective(head) ? 0 : ticket;
}

}  // namespace paceline::session
