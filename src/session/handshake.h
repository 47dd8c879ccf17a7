// Who may begin a session with whom: what two processes tell each other first (wire/hello.h) and what they make of it. Pure.
#pragma once

#include <optional>
#include <string>

#include "session/endpoint.h"
#include "wire/hello.h"

namespace paceline::session {

// What a process says of itself.
struct Identity {
  PeerName self;
  std::uint64_t job = 0;
  std::uint32_t epoch = 0;
};

wire::Party to_party(const PeerName& name);
// Errors: kCorrupt for a role that does not exist.
Result<PeerName> to_name(const wire::Party& party);

// Whether `actual` is whom `expected` means: it plays that role, and has the same rank and incarnation unless none is expected.
// There is one coordinator, whatever its rank.
bool matches(const PeerName& expected, const PeerName& actual);
// Whether both would be one and the same member of a job, because a role and the rank are the same; joining processes (rank -1)
// are different ones.
bool same_process(const PeerName& a, const PeerName& b);

// Why a new session with the sender of `hello` must not begin, as text for both sides; nothing when it may. Versions, destination,
// job, epoch.
std::optional<std::string> objection(const wire::Hello& hello, const PeerName& from, const Identity& here);
// The same for the side that has connected and got an answer that accepts.
std::optional<std::string> objection(const wire::HelloReply& reply, const PeerName& from, const PeerName& expected,
                                     const Identity& here);

}  // namespace paceline::session
