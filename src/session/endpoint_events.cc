// Of Endpoint: who hears of its messages.
#include "session/endpoint_state.h"

namespace paceline::session {
namespace {

bool is_of_units(wire::MessageKind kind) {
  switch (kind) {
    case wire::MessageKind::kPush:
    case wire::MessageKind::kPushes:
    case wire::MessageKind::kPull:
    case wire::MessageKind::kValue:
    case wire::MessageKind::kValues:
    case wire::MessageKind::kNotify:
      return true;
    default:
      return false;
  }
}

}  // namespace

void EndpointState::tell(wire::Happening what, Rank peer, const wire::MessageHead& head) const {
  if (events_ == nullptr || !is_of_units(head.kind)) return;
  events_->on_event(wire::at(common_.now(), {.what = what,
                                             .message = head.kind,
                                             .peer = peer.value,
                                             .unit = head.unit,
                                             .detail = head.detail,
                                             .iteration = head.iteration}));
}

}  // namespace paceline::session
