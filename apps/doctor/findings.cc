#include "doctor/findings.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace paceline::cli {
namespace {

constexpr double kNoWay = 1e9;
constexpr double kFull = 0.6;         // of its label: what overhead and a busy machine leave of a healthy link
constexpr double kOneSided = 0.6;     // one direction against the other
constexpr double kStreamsGain = 1.5;  // of several connections over one
constexpr double kClock = 1;          // seconds apart that certificates, logs and timelines suffer from
constexpr int kHeaders = 66;          // bytes of Ethernet, IP and TCP around a segment
constexpr int kUsualSegment = 1448, kSmallSegment = 1200;

std::string rate(double bytes_per_second) { return to_text(BytesPerSecond{bytes_per_second}); }

std::string by_interface(const Way& way) {
  if (way.own_address.empty()) return "this machine knows no way there";
  return fmt::format("packets leave by {}{}",
                     way.interface.empty() ? way.own_address : way.interface + " (" + way.own_address + ")",
                     way.gateway.empty() ? "" : " through " + way.gateway);
}

Finding no_way(const HostFacts& facts) {
  const std::string port = facts.host.substr(facts.host.rfind(':') + 1);
  const std::string& reason = facts.reached.message();
  std::string remedy =
      fmt::format("see that it is up and that 'ip route get' there is what you expect; a firewall may drop port {}", port);
  if (facts.way.neighbour && !facts.way.gateway.empty())
    remedy = fmt::format("it is in a network of this machine and its packets take {} all the same: mend the route ('ip route')",
                         facts.way.gateway);
  else if (reason.find("refused") != std::string::npos)
    remedy = fmt::format("start 'paceline doctor --serve {} --bind ADDRESS' there", port);
  else if (reason.find("no doctor") != std::string::npos)
    remedy = fmt::format("another program has port {} there; take another for 'paceline doctor --serve'", port);
  return {kNoWay, "unreachable", fmt::format("no answer: {}; {}", reason, by_interface(facts.way)), remedy};
}

void look_at_rates(const HostFacts& facts, std::vector<Finding>& found) {
  const double best = std::max(facts.there, facts.back), least = std::min(facts.there, facts.back);
  const double label = facts.label.value_or(facts.way.bytes_per_second);
  if (label > 0 && best < kFull * label && facts.several < kFull * label) {
    found.push_back(
        {label / best, "slow",
         fmt::format("carries {}, {:.0f} % of the {} of {}", rate(best), 100 * best / label, rate(label),
                     facts.label ? "--label" : facts.way.interface),
         "look for a slower link, switch or shaper between the two, another network that the route takes, or other traffic"});
  }
  if (least < kOneSided * best) {
    const bool there_is_slow = facts.there < facts.back;
    found.push_back(
        {best / least, "one-way-slow",
         fmt::format("is slow in one direction: {} {}, {} {}", rate(least), there_is_slow ? "there" : "back", rate(best),
                     there_is_slow ? "back" : "there"),
         fmt::format("a shaper, a bad cable or a busy sender on the side of {}", there_is_slow ? "this machine" : facts.host)});
  }
  if (facts.several > kStreamsGain * facts.there) {
    found.push_back({facts.several / facts.there, "one-stream-slow",
                     fmt::format("carries {} by one connection and {} by several", rate(facts.there), rate(facts.several)),
                     "larger TCP buffers (sysctl net.ipv4.tcp_wmem, tcp_rmem), or congestion control that the way suits"});
  }
}

}  // namespace

std::vector<Finding> findings(const HostFacts& facts) {
  if (!facts.reached.ok()) return {no_way(facts)};
  std::vector<Finding> found;
  look_at_rates(facts, found);
  const int segment = facts.way.segment_bytes;
  if (segment > 0 && segment < kSmallSegment) {
    const auto overhead = [](int bytes) { return static_cast<double>(bytes + kHeaders) / bytes; };
    found.push_back(
        {overhead(segment) / overhead(kUsualSegment), "mtu",
         fmt::format("takes TCP segments of {} bytes, where {} are usual: an MTU of about {} at one end or between; here {} has {}",
                     segment, kUsualSegment, segment + 52, facts.way.interface, facts.way.mtu),
         "ip link set INTERFACE mtu 1500, on the side that has less"});
  }
  if (facts.way.neighbour && !facts.way.gateway.empty()) {
    found.push_back({1.02, "route",
                     fmt::format("is in a network of this machine, and its packets take {} all the same", facts.way.gateway),
                     "mend the route ('ip route')"});
  }
  if (facts.release != facts.own_release) {
    found.push_back({1.01, "release", fmt::format("runs paceline {}, and this machine {}", facts.release, facts.own_release),
                     "members of one job need one release"});
  }
  if (std::abs(facts.clock_offset) > kClock + facts.round_trip) {
    found.push_back({1.005, "clock",
                     fmt::format("has a clock that is {} {}", to_text(from_seconds(std::abs(facts.clock_offset))),
                                 facts.clock_offset > 0 ? "ahead" : "behind"),
                     "chrony or systemd-timesyncd on both: certificates and the times in logs depend on it"});
  }
  std::ranges::stable_sort(found, std::greater(), &Finding::cost);
  return found;
}

}  // namespace paceline::cli
