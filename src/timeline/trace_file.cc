#include "timeline/trace_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <ranges>

#include "base/new_file.h"

namespace paceline::timeline {
namespace {

using timeline::RoundTrip;
using wire::Event;
using wire::Happening;
using wire::MessageKind;
using wire::TimelineThread;

constexpr std::size_t kBlock = 256U << 10;  // written at once
constexpr int kGatesTold = 5;
constexpr std::int64_t kTrainingThread = 1, kLoopThread = 2;

constexpr std::int64_t thread_of(TimelineThread thread) {
  return thread == TimelineThread::kTraining ? kTrainingThread : kLoopThread;
}

// A text as JSON, whatever bytes somebody has called a layer.
std::string quoted(const std::string& text) {
  return report::Json(text).dump(-1, ' ', true, report::Json::error_handler_t::replace);
}

// Nanoseconds as the microseconds that the format wants.
std::string micros(std::int64_t nanoseconds) {
  return fmt::format("{}{}.{:03}", nanoseconds < 0 ? "-" : "", std::abs(nanoseconds) / 1000, std::abs(nanoseconds) % 1000);
}

class Writer {
 public:
  Writer(FileWriter& file, const JobTimeline& job) : file_(file), job_(job), origin_(earliest(job)) {
    for (const std::string& name : job.layers) layers_.push_back(quoted(name));
  }

  Status write(const report::Json& summary) {
    text_ = fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[", summary.dump());
    for (std::size_t i = 0; i < job_.processes.size(); ++i) PACELINE_RETURN_IF_ERROR(write_process(i));
    PACELINE_RETURN_IF_ERROR(write_round_trips());
    text_ += "\n]}\n";
    return file_.append(std::as_bytes(std::span(text_)));
  }

 private:
  static std::int64_t earliest(const JobTimeline& job) {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const JobTimeline::Process& process : job.processes) {
      for (const wire::TimelinePart& part : process.record.parts) {
        for (const Event& happened : part.events) first = std::min(first, process.record.clock.to_local(happened.begin));
      }
    }
    return first;
  }

  // `fields`: without the braces.
  Status event(const std::string& fields) {
    text_ += fmt::format("{}\n{{{}}}", first_ ? "" : ",", fields);
    first_ = false;
    if (text_.size() < kBlock) return {};
    const Status status = file_.append(std::as_bytes(std::span(text_)));
    text_.clear();
    return status;
  }

  Status write_process(std::size_t index) {
    const JobTimeline::Process& process = job_.processes[index];
    const std::size_t pid = index + 1;
    const auto named = [&](const char* what, std::int64_t thread, const std::string& name) {
      return event(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}})", pid, thread, what, quoted(name)));
    };
    PACELINE_RETURN_IF_ERROR(named("process_name", 0, process.name.text()));
    PACELINE_RETURN_IF_ERROR(
        event(fmt::format(R"("ph":"M","pid":{},"tid":0,"name":"process_sort_index","args":{{"sort_index":{}}})", pid, index)));
    if (process.record.worker) PACELINE_RETURN_IF_ERROR(named("thread_name", kTrainingThread, "training"));
    PACELINE_RETURN_IF_ERROR(named("thread_name", kLoopThread, process.record.server ? "loop, updates" : "loop"));
    for (const wire::TimelinePart& part : process.record.parts) {
      for (const Event& happened : part.events)
        PACELINE_RETURN_IF_ERROR(write_event(pid, thread_of(part.thread), process.record, happened));
    }
    return {};
  }

  std::string layer(std::uint32_t index) const { return index < layers_.size() ? layers_[index] : "\"?\""; }
  // "forward" and the layer `"conv1"` as JSON: `"forward conv1"`.
  static std::string name_of(const char* what, const std::string& layer) {
    return layer.empty() ? fmt::format("\"{}\"", what) : fmt::format("\"{} {}", what, layer.substr(1));
  }
  std::string layer_of_unit(std::uint32_t unit) const {
    return layer(unit < job_.units.size() ? static_cast<std::uint32_t>(job_.units[unit].layer.index) : wire::kAllUnits);
  }

  Status write_event(std::size_t pid, std::int64_t thread, const timeline::ProcessRecord& record, const Event& happened) {
    switch (happened.what) {
      case Happening::kForward:
        return span(pid, thread, record, happened, "forward", layer(happened.unit));
      case Happening::kBackward:
        return span(pid, thread, record, happened, "backward", layer(happened.unit));
      case Happening::kGate:
        return span(pid, thread, record, happened, "gate", layer(happened.unit));
      case Happening::kWaitGradients:
        return span(pid, thread, record, happened, "wait for gradients to leave", {});
      case Happening::kWaitValues:
        return span(pid, thread, record, happened, "wait for all parameters", {});
      case Happening::kWaitMiniBatch:
        return span(pid, thread, record, happened, "wait for a mini-batch", {});
      case Happening::kAggregate:
        return span(pid, thread, record, happened, "aggregate", layer_of(happened), of_unit(happened));
      case Happening::kUpdate:
        return span(pid, thread, record, happened, "update", layer_of(happened), of_unit(happened));
      case Happening::kQueued:
      case Happening::kLeft:
      case Happening::kArrived:
        return moment(pid, thread, record, happened);
      default:  // is not recorded
        return {};
    }
  }

  // Of a server's work; "": of all units.
  std::string layer_of(const Event& happened) const {
    return happened.unit == wire::kAllUnits ? std::string() : layer_of_unit(happened.unit);
  }
  std::string of_unit(const Event& happened) const {
    if (happened.unit == wire::kAllUnits) return {};
    return fmt::format(R"(,"unit":{},"worker":{})", happened.unit, happened.peer);
  }

  Status span(std::size_t pid, std::int64_t thread, const timeline::ProcessRecord& record, const Event& happened, const char* what,
              const std::string& layer, const std::string& unit = {}) {
    const std::int64_t begin = record.clock.to_local(happened.begin), end = record.clock.to_local(happened.end);
    const std::string arguments = layer.empty() ? unit : fmt::format(R"(,"layer":{}{})", layer, unit);
    return event(fmt::format(R"("ph":"X","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"args":{{"iteration":{}{}}})",
                             what, pid, thread, micros(begin - origin_), micros(end - begin), name_of(what, layer),
                             happened.iteration, arguments));
  }

  // Gradients and values are in the round trips; of the others it is only said when they were sent and came.
  Status moment(std::size_t pid, std::int64_t thread, const timeline::ProcessRecord& record, const Event& happened) {
    const bool pull = happened.message == MessageKind::kPull;
    if ((!pull && happened.message != MessageKind::kNotify) || happened.what == Happening::kLeft) return {};
    const char* what = happened.what == Happening::kQueued ? "sent" : "arrived";
    return event(
        fmt::format(R"("ph":"i","s":"t","pid":{},"tid":{},"ts":{},"name":"{} {}","args":{{"iteration":{},"unit":{},"last":{}}})",
                    pid, thread, micros(record.clock.to_local(happened.begin) - origin_), pull ? "pull" : "notice", what,
                    happened.iteration, happened.unit, pull ? happened.detail : happened.unit));
  }

  Status write_round_trips() {
    std::vector<timeline::ProcessRecord> records;
    std::map<std::int32_t, std::size_t> pids;  // of workers
    for (std::size_t i = 0; i < job_.processes.size(); ++i) {
      records.push_back(job_.processes[i].record);
      if (records.back().worker) pids[records.back().worker->value] = i + 1;
    }
    for (const RoundTrip& trip : timeline::round_trips(records, job_.units)) {
      if (const auto pid = pids.find(trip.worker.value); pid != pids.end()) PACELINE_RETURN_IF_ERROR(write(trip, pid->second));
    }
    return {};
  }

  // Clocks that are off by their error may let a stage end before it began; its end is drawn at its beginning then, and the next
  // one's beginning stays where it was.
  Status write(const RoundTrip& trip, std::size_t pid) {
    ++trips_;
    const auto slice = [&](char phase, std::int64_t at, const std::string& name, const std::string& arguments) {
      return event(fmt::format(R"("ph":"{}","cat":"unit","id":{},"pid":{},"tid":{},"ts":{},"name":{}{})", phase, trips_, pid,
                               kLoopThread, micros(at - origin_), name, arguments));
    };
    std::int64_t first = *trip.at[0], last = first;
    for (const auto& at : trip.at) {
      first = std::min(first, at.value_or(first));
      last = std::max(last, at.value_or(last));
    }
    const auto& unit = trip.unit < job_.units.size() ? job_.units[trip.unit] : timeline::UnitHome{};
    const std::string name = name_of("unit", layer_of_unit(trip.unit));
    PACELINE_RETURN_IF_ERROR(
        slice('b', first, name,
              fmt::format(R"(,"args":{{"unit":{},"layer":{},"iteration":{},"worker":{},"server":{},"bytes":{}}})", trip.unit,
                          layer_of_unit(trip.unit), trip.iteration, trip.worker.value, unit.server.value, unit.size.count)));
    for (std::size_t stage = 0; stage < timeline::kStages; ++stage) {
      if (!trip.at[stage]) continue;
      std::size_t next = stage + 1;  // what was not recorded belongs to the stage before
      while (next < timeline::kStages && !trip.at[next]) ++next;
      if (!trip.at[next]) break;
      const std::string part = name_of(to_string(static_cast<timeline::Stage>(stage)), "");
      PACELINE_RETURN_IF_ERROR(slice('b', *trip.at[stage], part, {}));
      PACELINE_RETURN_IF_ERROR(slice('e', std::max(*trip.at[stage], *trip.at[next]), part, {}));
    }
    return slice('e', last, name, {});
  }

  FileWriter& file_;
  const JobTimeline& job_;
  const std::int64_t origin_;
  std::vector<std::string> layers_;  // as JSON
  std::string text_;
  bool first_ = true;
  std::int64_t trips_ = 0;
};

// How long each layer's gate was shut, the longest first.
report::Json gates_of(const JobTimeline& job) {
  struct Gate {
    std::string layer;
    std::int64_t passed = 0, shut = 0, longest = 0;  // times; nanoseconds
  };
  std::map<std::uint32_t, Gate> by_layer;
  for (const JobTimeline::Process& process : job.processes) {
    for (const wire::TimelinePart& part : process.record.parts) {
      for (const Event& happened : part.events) {
        if (happened.what != Happening::kGate || happened.unit >= job.layers.size()) continue;
        Gate& gate = by_layer[happened.unit];
        gate.layer = job.layers[happened.unit];
        gate.passed += 1;
        gate.shut += happened.end - happened.begin;
        gate.longest = std::max(gate.longest, happened.end - happened.begin);
      }
    }
  }
  std::vector<Gate> gates;
  for (auto& [layer, gate] : by_layer) gates.push_back(std::move(gate));
  std::ranges::stable_sort(gates, std::greater{}, &Gate::shut);
  report::Json longest = report::Json::array();
  for (const Gate& gate : gates | std::views::take(kGatesTold)) {
    longest.push_back({{"layer", report::Json::parse(quoted(gate.layer))},
                       {"mean_seconds", static_cast<double>(gate.shut) / static_cast<double>(gate.passed) / 1e9},
                       {"longest_seconds", static_cast<double>(gate.longest) / 1e9}});
  }
  return longest;
}

report::Json summary_of(const JobTimeline& job) {
  std::uint64_t events = 0, dropped = 0;
  double error = 0, second = 0, drift = 0;
  report::Json processes = report::Json::array();
  for (const JobTimeline::Process& process : job.processes) {
    const timeline::ClockMap& clock = process.record.clock;
    std::uint64_t own = 0, lost = 0;
    for (const wire::TimelinePart& part : process.record.parts) own += part.events.size(), lost += part.dropped;
    processes.push_back({{"name", process.name.text()},
                         {"events", own},
                         {"dropped", lost},
                         {"clock_error_seconds", clock.error / 1e9},
                         {"clock_drift", clock.drift}});
    events += own;
    dropped += lost;
    second = std::max(second, std::min(error, clock.error));
    error = std::max(error, clock.error);
    drift = std::max(drift, std::abs(clock.drift));
  }
  return {{"processes", std::move(processes)},
          {"events", events},
          {"dropped", dropped},
          {"clock_error_seconds", (error + second) / 1e9},
          {"clock_drift", drift},
          {"gates", gates_of(job)}};
}

}  // namespace

Result<report::Json> write_timeline(Files& files, const std::string& path, const JobTimeline& job) {
  report::Json summary = summary_of(job);
  PACELINE_ASSIGN_OR_RETURN(const auto file, NewFile::create(files, path));
  PACELINE_RETURN_IF_ERROR(Writer(file->writer(), job).write(summary));
  PACELINE_RETURN_IF_ERROR(file->finish());
  summary["file"] = path;
  return summary;
}

}  // namespace paceline::timeline
