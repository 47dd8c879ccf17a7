// Which of the two flows of a node's egress queue a channel's messages are.
#pragma once

#include "scheduling/schedule.h"
#include "wire/message.h"

namespace paceline::session {

constexpr scheduling::Flow flow_of(wire::Channel channel) {
  return channel == wire::Channel::kValues ? scheduling::Flow::kReply : scheduling::Flow::kPush;
}

}  // namespace paceline::session
