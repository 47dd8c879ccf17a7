#include "doctor/measured_way.h"

#include <algorithm>
#include <array>
#include <thread>

namespace paceline::cli {
namespace {

constexpr double kPulling = 0.4;  // seconds that what is pulled would take, were both directions equal
constexpr std::size_t kConnections = 4;

Result<double> rate_back(const transport::Address& host, const EchoAnswer& there) {
  const auto wanted = static_cast<std::int64_t>(kPulling * there.bytes_per_second);
  EchoOptions options;
  options.exchanges = 1;
  options.streaming = std::chrono::milliseconds(1);
  options.pulls = {Bytes{std::clamp<std::int64_t>(wanted, 1 << 16, kLargestPull.count)}};
  PACELINE_ASSIGN_OR_RETURN(const EchoAnswer answer, ask(host, options));
  const double taken = seconds(answer.pulls[0].time);
  return static_cast<double>(answer.pulls[0].bytes.count) / std::max(taken - there.round_trip_least, taken / 2);
}

Result<double> rate_of_several(const transport::Address& host) {
  EchoOptions options;
  options.exchanges = 1;
  std::array<Result<EchoAnswer>, kConnections> answers{EchoAnswer(), EchoAnswer(), EchoAnswer(), EchoAnswer()};
  std::vector<std::thread> asking;
  for (auto& answer : answers) asking.emplace_back([&] { answer = ask(host, options); });
  for (std::thread& thread : asking) thread.join();
  double sum = 0;
  for (const auto& answer : answers) {
    PACELINE_RETURN_IF_ERROR(answer.status());
    sum += answer->bytes_per_second;
  }
  return sum;
}

}  // namespace

MeasuredWay measure_way(const transport::Address& host, const std::vector<Interface>& interfaces, std::optional<double> label,
                        const Status& ready) {
  MeasuredWay measured{ready.ok() ? ask(host, {}) : Result<EchoAnswer>(ready), {}};
  HostFacts& facts = measured.facts;
  facts = {.host = host.text(), .way = way_to(host, interfaces), .own_release = PACELINE_VERSION, .label = label};
  facts.reached = measured.answer.status();
  if (!facts.reached.ok()) return measured;
  facts.there = measured.answer->bytes_per_second;
  facts.clock_offset = measured.answer->clock_offset;
  facts.round_trip = measured.answer->round_trip_least;
  facts.release = measured.answer->release;
  const auto back = rate_back(host, *measured.answer);
  const auto several = back.ok() ? rate_of_several(host) : Result<double>(back.status());
  facts.reached = several.status();
  if (several.ok()) {
    facts.back = *back;
    facts.several = *several;
  }
  return measured;
}

}  // namespace paceline::cli
