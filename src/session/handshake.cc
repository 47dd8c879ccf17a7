#include "session/handshake.h"

namespace paceline::session {
namespace {

std::optional<std::string> version_objection(const wire::PeerName& peer, std::uint16_t lowest, std::uint16_t highest) {
  if (lowest <= wire::kHighestSession && highest >= wire::kLowestSession) return std::nullopt;
  return fmt::format("{} speaks session protocol versions {} to {}, the other side {} to {}; run the same release everywhere",
                     peer.text(), lowest, highest, wire::kLowestSession, wire::kHighestSession);
}

std::optional<std::string> job_objection(const wire::PeerName& peer, std::uint64_t job, const Identity& here) {
  if (job == 0 || here.job == 0 || job == here.job) return std::nullopt;
  return fmt::format("{} belongs to job {:016x}, {} to job {:016x}; use the address of the right job", peer.text(), job,
                     here.self.text(), here.job);
}

std::optional<std::string> epoch_objection(const wire::PeerName& peer, std::uint32_t epoch, const Identity& here) {
  if (epoch == 0 || here.epoch == 0 || epoch == here.epoch) return std::nullopt;
  return fmt::format("stale epoch: {} is at membership epoch {}, {} at {}", peer.text(), epoch, here.self.text(), here.epoch);
}

std::optional<std::string> name_objection(const wire::PeerName& expected, const wire::PeerName& actual) {
  if (matches(expected, actual)) return std::nullopt;
  if (matches({expected.roles, expected.rank}, actual))
    return fmt::format("the process at this address is another {} than the job's: that one was replaced", actual.text());
  return fmt::format("the process at this address is {}, not {}", actual.text(), expected.text());
}

}  // namespace

std::optional<std::string> objection(const wire::Hello& hello, const Identity& here) {
  if (auto text = version_objection(hello.from, hello.lowest, hello.highest)) return text;
  if (auto text = name_objection(hello.to, here.self)) return text;
  if (auto text = job_objection(hello.from, hello.job, here)) return text;
  return epoch_objection(hello.from, hello.epoch, here);
}

std::optional<std::string> objection(const wire::HelloReply& reply, const wire::PeerName& expected, const Identity& here) {
  if (auto text = version_objection(reply.from, reply.lowest, reply.highest)) return text;
  if (auto text = name_objection(expected, reply.from)) return text;
  return job_objection(reply.from, reply.job, here);
}

}  // namespace paceline::session
