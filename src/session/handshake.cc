#include "session/handshake.h"

namespace paceline::session {
namespace {

std::optional<std::string> version_objection(const PeerName& peer, std::uint16_t lowest, std::uint16_t highest) {
  if (lowest <= wire::kHighestSession && highest >= wire::kLowestSession) return std::nullopt;
  return fmt::format("{} speaks session protocol versions {} to {}, the other side {} to {}; run the same release everywhere",
                     peer.text(), lowest, highest, wire::kLowestSession, wire::kHighestSession);
}

std::optional<std::string> job_objection(const PeerName& peer, std::uint64_t job, const Identity& here) {
  if (job == 0 || here.job == 0 || job == here.job) return std::nullopt;
  return fmt::format("{} belongs to job {:016x}, {} to job {:016x}; use the address of the right job", peer.text(), job,
                     here.self.text(), here.job);
}

std::optional<std::string> epoch_objection(const PeerName& peer, std::uint32_t epoch, const Identity& here) {
  if (epoch == 0 || here.epoch == 0 || epoch == here.epoch) return std::nullopt;
  return fmt::format("stale epoch: {} is at membership epoch {}, {} at {}", peer.text(), epoch, here.self.text(), here.epoch);
}

std::optional<std::string> name_objection(const PeerName& expected, const PeerName& actual) {
  if (matches(expected, actual)) return std::nullopt;
  if (matches({expected.role, expected.rank}, actual))
    return fmt::format("the process at this address is another {} than the job's: that one was replaced", actual.text());
  return fmt::format("the process at this address is {}, not {}", actual.text(), expected.text());
}

}  // namespace

wire::Party to_party(const PeerName& name) { return {static_cast<std::uint8_t>(name.role), name.rank.value, name.incarnation}; }

Result<PeerName> to_name(const wire::Party& party) {
  if (party.role > static_cast<std::uint8_t>(Role::kBoth))
    return error(ErrorKind::kCorrupt, "unknown role {} in a hello", party.role);
  return PeerName{static_cast<Role>(party.role), {party.rank}, party.incarnation};
}

bool matches(const PeerName& expected, const PeerName& actual) {
  if (!plays(actual.role, expected.role)) return false;
  if (expected.incarnation != 0 && expected.incarnation != actual.incarnation) return false;
  return expected.role == Role::kCoordinator || expected.rank.value == -1 || expected.rank == actual.rank;
}

bool same_process(const PeerName& a, const PeerName& b) {
  if (!plays(a.role, b.role) && !plays(b.role, a.role)) return false;
  return a.role == Role::kCoordinator || (a.rank == b.rank && a.rank.value != -1);
}

std::optional<std::string> objection(const wire::Hello& hello, const PeerName& from, const Identity& here) {
  if (auto text = version_objection(from, hello.lowest, hello.highest)) return text;
  const auto to = to_name(hello.to);
  if (!to.ok()) return to.status().message();
  if (auto text = name_objection(*to, here.self)) return text;
  if (auto text = job_objection(from, hello.job, here)) return text;
  return epoch_objection(from, hello.epoch, here);
}

std::optional<std::string> objection(const wire::HelloReply& reply, const PeerName& from, const PeerName& expected,
                                     const Identity& here) {
  if (auto text = version_objection(from, reply.lowest, reply.highest)) return text;
  if (auto text = name_objection(expected, from)) return text;
  return job_objection(from, reply.job, here);
}

}  // namespace paceline::session
