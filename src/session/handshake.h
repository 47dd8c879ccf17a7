// Who may begin a session with whom: what two processes tell each other first (wire/hello.h) and what they make of it. Pure.
#pragma once

#include <optional>
#include <string>

#include "session/endpoint.h"
#include "wire/hello.h"

namespace paceline::session {

// What a process says of itself.
struct Identity {
  wire::PeerName self;
  std::uint64_t job = 0;
  std::uint32_t epoch = 0;
};

// Why a new session with the sender of `hello` must not begin, as text for both sides; nothing when it may. Versions, destination,
// job, epoch.
std::optional<std::string> objection(const wire::Hello& hello, const Identity& here);
// The same for the side that has connected and got an answer that accepts.
std::optional<std::string> objection(const wire::HelloReply& reply, const wire::PeerName& expected, const Identity& here);

}  // namespace paceline::session
