// Somebody who wants to know when messages leave. Loop thread; calls nothing back.
#pragma once

#include "session/endpoint.h"

namespace paceline::session {

class MessageObserver {
 public:
  virtual ~MessageObserver() = default;
  // The first chunk of a message to `to` is handed to the connection. Once per message, however often it is resent.
  virtual void on_leaving(const wire::PeerName& to, const wire::MessageHead& head) = 0;
};

}  // namespace paceline::session
