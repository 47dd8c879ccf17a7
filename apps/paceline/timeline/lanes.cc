#include "paceline/timeline/lanes.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "report/report.h"

namespace paceline::cli {
namespace {

using report::Json;

constexpr double kTouching = 500;  // microseconds between what is drawn as one

std::string text_of(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double number_of(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : 0;
}

std::vector<Span> joined(std::vector<Span> spans) {
  std::ranges::sort(spans, {}, &Span::begin);
  std::vector<Span> whole;
  for (const Span& span : spans) {
    if (whole.empty() || span.begin - whole.back().end >= kTouching)
      whole.push_back(span);
    else
      whole.back().end = std::max(whole.back().end, span.end);
  }
  return whole;
}

// Takes the events in the order of the file, in which a process is named before anything happens in it.
class Reader {
 public:
  explicit Reader(std::int32_t worker) : name_(fmt::format("worker {}", worker)) {}

  void on_event(const Json& event) {
    const std::string phase = text_of(event, "ph"), name = text_of(event, "name");
    const double pid = number_of(event, "pid"), at = number_of(event, "ts");
    if (phase == "M" && name == "process_name" && event.contains("args") && event["args"].is_object())
      on_process(pid, text_of(event["args"], "name"));
    if (!own_.contains(pid)) return;
    if (phase == "X") on_computing(event, {at, at + number_of(event, "dur")});
    if (name == "wire" || name == "return wire") on_way(phase, name, number_of(event, "id"), at);
  }

  bool found() const { return !own_.empty(); }
  const std::set<std::string>& workers() const { return workers_; }

  Lanes take() {
    for (std::vector<Span>* lane : {&lanes_.forward, &lanes_.backward, &lanes_.on_its_way}) *lane = joined(std::move(*lane));
    return std::move(lanes_);
  }

 private:
  void on_process(double pid, const std::string& name) {
    if (name.starts_with("worker ")) workers_.insert(name);
    if (name == name_ || name.starts_with(name_ + " ")) own_.insert(pid);
  }

  void on_computing(const Json& event, Span span) {
    const std::string what = text_of(event, "cat");
    if (what == "backward") lanes_.backward.push_back(span);
    if (what != "forward") return;
    lanes_.forward.push_back(span);
    if (!event.contains("args") || !event["args"].is_object()) return;
    const auto iteration = static_cast<std::int64_t>(number_of(event["args"], "iteration"));
    const auto [first, is_new] = lanes_.begun.emplace(iteration, span.begin);
    if (!is_new) first->second = std::min(first->second, span.begin);
  }

  void on_way(const std::string& phase, const std::string& name, double unit, double at) {
    const auto key = std::pair(name, unit);
    if (phase == "b") left_[key] = at;
    if (phase != "e") return;
    if (const auto left = left_.find(key); left != left_.end()) {
      lanes_.on_its_way.push_back({left->second, at});
      left_.erase(left);
    }
  }

  const std::string name_;
  std::set<std::string> workers_;
  std::set<double> own_;  // process numbers
  std::map<std::pair<std::string, double>, double> left_;
  Lanes lanes_;
};

}  // namespace

Result<Lanes> read_lanes(const std::string& text, const std::string& source, std::int32_t worker) {
  Reader reader(worker);
  bool listed = false;
  // A trace may have millions of events; none is kept.
  const auto take = [&](int depth, Json::parse_event_t what, Json& part) {
    if (depth == 1 && what == Json::parse_event_t::key) listed = listed || part == "traceEvents";
    if (depth != 2 || what != Json::parse_event_t::object_end) return true;
    reader.on_event(part);
    return false;
  };
  const Json whole = Json::parse(text, take, false);
  if (whole.is_discarded() || !listed)
    return error(ErrorKind::kBadRequest, "{} is no trace; give a file that --trace wrote", source).because({"format", "TRACE"});
  if (!reader.found()) {
    return error(ErrorKind::kBadRequest, "{} has no worker {}; it has: {}", source, worker,
                 reader.workers().empty() ? "none" : fmt::format("{}", fmt::join(reader.workers(), ", ")))
        .because({"unknown", "--worker"});
  }
  Lanes lanes = reader.take();
  if (lanes.begun.empty())
    return error(ErrorKind::kBadRequest, "{}: worker {} made no forward pass in it", source, worker).because({"format", "TRACE"});
  return lanes;
}

}  // namespace paceline::cli
