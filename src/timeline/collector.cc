#include "timeline/collector.h"

#include <algorithm>
#include <limits>

#include "job/make_plan.h"
#include "timeline/trace_file.h"

namespace paceline::timeline {

using session::PeerId;

void TimelineCollector::begin(job::JobSpec spec, wire::TensorTable table, std::int32_t workers, std::int32_t servers) {
  spec_ = std::move(spec);
  table_ = std::move(table);
  workers_ = workers;
  servers_ = servers;
}

std::optional<std::uint32_t> TimelineCollector::ask(PeerId peer, TimePoint now) {
  Clock& clock = clocks_[peer];
  if (clock.left > 0) return std::nullopt;
  clock.left = std::exchange(clock.known, true) ? kQuestions : kFirstQuestions;
  clock.best.reset();
  clock.sent = now;
  return ++clock.question;
}

std::optional<std::uint32_t> TimelineCollector::on_reading(PeerId peer, std::uint32_t question, const wire::ClockReading& reading,
                                                           TimePoint now) {
  const auto found = clocks_.find(peer);
  if (found == clocks_.end() || found->second.left == 0 || question != found->second.question) return std::nullopt;
  Clock& clock = found->second;
  const timeline::ClockSample sample{clock.sent.time_since_epoch().count(), reading.nanoseconds, now.time_since_epoch().count()};
  if (!clock.best || sample.received - sample.sent < clock.best->received - clock.best->sent) clock.best = sample;
  if (--clock.left == 0) {
    clock.alignment.add(*clock.best);
    return std::nullopt;
  }
  clock.sent = now;
  return ++clock.question;
}

void TimelineCollector::on_part(PeerId peer, const wire::PeerName& name, wire::TimelinePart part) {
  Parts& of = parts_[peer];
  of.name = name;
  of.parts.push_back(std::move(part));
}

Result<report::Json> TimelineCollector::write(Files& files, const std::string& path) const {
  PACELINE_ASSIGN_OR_RETURN(const auto plan, make_plan(spec_, table_, workers_, servers_, 1));
  JobTimeline job;
  job.layers = table_.layers;
  for (const scheduling::Unit& unit : plan->units().units)
    job.units.push_back({unit.server, unit.layer, Bytes{static_cast<std::int64_t>(plan->payload_bytes(unit.id))}});
  for (const auto& [peer, parts] : parts_) {
    const auto clock = clocks_.find(peer);
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = std::numeric_limits<std::int64_t>::min();
    for (const wire::TimelinePart& part : parts.parts) {
      for (const wire::Event& event : part.events) {
        begin = std::min(begin, event.begin);
        end = std::max(end, event.end);
      }
    }
    const auto map = clock == clocks_.end() || begin > end ? std::nullopt : clock->second.alignment.map(begin, end);
    if (!map) continue;
    JobTimeline::Process& process = job.processes.emplace_back();
    process.name = parts.name;
    for (const wire::Seat& seat : parts.name.seats())
      (seat.role == wire::Role::kServer ? process.record.server : process.record.worker) = seat.rank;
    process.record.parts = parts.parts;
    process.record.clock = *map;
  }
  std::ranges::sort(job.processes, {}, &JobTimeline::Process::name);
  return write_timeline(files, path, job);
}

}  // namespace paceline::timeline
