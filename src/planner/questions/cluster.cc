// `paceline plan barrier | gpus | servers`: questions about workers and servers.
#include "base/text.h"
#include "base/wrong.h"
#include "planner/questions/question.h"
#include "planner/sizing/gpus.h"
#include "planner/sizing/servers.h"
#include "sync/barrier.h"

namespace paceline::planner {
namespace {

// ---- plan barrier

Result<std::vector<std::vector<double>>> rows_of(const Json& ends) {
  if (!ends.is_array())
    return wrong_key("ends", " is {} (a {}); it must be an array with the ends of each worker", brief(ends), ends.type_name());
  std::vector<std::vector<double>> rows;
  for (std::size_t p = 0; p < ends.size(); ++p) {
    if (!ends[p].is_array())
      return wrong_key("ends", ": worker {} has {} (a {}); it must be an array of times", p, brief(ends[p]), ends[p].type_name());
    rows.emplace_back();
    for (const Json& end : ends[p]) {
      if (!end.is_number())
        return wrong_key("ends", ": worker {} has {} (a {}) among its times; they must be numbers", p, brief(end), end.type_name());
      rows.back().push_back(end.get<double>());
    }
  }
  return rows;
}

Result<sync::EndTimes> end_times(const Json& input) {
  const std::vector<std::string> predicted = keys_given(input, {"last_end", "interval", "lookahead"});
  if (input.contains("ends")) {
    if (!predicted.empty())
      return wrong("keys 'ends' and '{}' contradict each other; give the ends, or what predicts them", predicted.front());
    PACELINE_ASSIGN_OR_RETURN(auto rows, rows_of(input["ends"]));
    auto ends = sync::EndTimes::from_rows(std::move(rows));
    if (!ends.ok()) return wrong_key("ends", ": {}", ends.status().message());
    return ends;
  }
  for (const char* key : {"last_end", "interval", "lookahead"}) {
    if (!input.contains(key))
      return wrong_key(key, " is missing; give 'ends', or all of 'last_end', 'interval' and 'lookahead'").because({"missing", ""});
  }
  if (input["last_end"].empty()) return wrong_key("last_end", " is empty; give the last end of at least one worker");
  if (input["lookahead"].get<std::int64_t>() < 1) return wrong_key("lookahead", " is 0; legal is 1 or more");
  auto ends = sync::EndTimes::predicted(input["last_end"].get<std::vector<double>>(), input["interval"].get<std::vector<double>>(),
                                        input["lookahead"].get<std::int64_t>());
  if (!ends.ok()) return wrong("keys 'last_end', 'interval', 'lookahead': {}", ends.status().message());
  return ends;
}

Result<sync::Barrier> barrier_by(const std::string& algorithm, const sync::EndTimes& ends, sync::Objective objective, double now) {
  if (algorithm == "grid-scan") return sync::grid_scan(ends, objective, now);
  if (algorithm == "full-grid-scan") return sync::full_grid_scan(ends, objective, now);
  if (algorithm == "naive") return sync::every_set(ends, objective, now);
  return sync::zip_line(ends, objective, now);
}

Result<Json> answer_barrier(const Json& input, const Json& choices) {
  PACELINE_ASSIGN_OR_RETURN(const sync::Objective objective, sync::parse_objective(choices["objective"].get<std::string>()));
  PACELINE_ASSIGN_OR_RETURN(const sync::EndTimes ends, end_times(input));
  const double now = input.contains("now") ? input["now"].get<double>() : ends.default_now();
  if (now > ends.first_barrier()) {
    return wrong_key("now", " is {}, after the first possible barrier at {}; it must not be later", now, ends.first_barrier());
  }
  PACELINE_ASSIGN_OR_RETURN(const sync::Barrier barrier, barrier_by(choices["algorithm"], ends, objective, now));
  return Json{{"iterations", barrier.iterations},
              {"span", barrier.span},
              {"barrier", barrier.time},
              {"waiting", barrier.waiting},
              {"waiting_share", barrier.waiting_share}};
}

Question barrier_question() {
  return {.name = "barrier",
          .purpose = "Where the next barrier should be, so that workers of different speed wait least (ElasticBSP)",
          .keys = {{"ends", KeyType::kJson,
                    "the ends of each worker's next iterations, ascending, in seconds: [[worker 0...], ...]", false},
                   {"last_end", KeyType::kNumbers, "in place of ends: each worker's last end, in seconds", false},
                   {"interval", KeyType::kNumbers, "each worker's iteration time, in seconds", false},
                   {"lookahead", KeyType::kCount, "iterations ahead, 1 or more", false},
                   {"now", KeyType::kSeconds, "the time from which waiting is counted (default: the latest last end; 0 with ends)",
                    false}},
          .choices = {{"algorithm", {"zipline", "grid-scan", "full-grid-scan", "naive"}, "how the barrier is searched"},
                      {"objective",
                       {"span", "waiting-share"},
                       "what is minimised: latest - earliest end, or the share of all workers' time that is waited"}},
          .answer = answer_barrier,
          .units = {{"span", KeyType::kSeconds}, {"barrier", KeyType::kSeconds}, {"waiting", KeyType::kSeconds}}};
}

// ---- plan gpus

Result<Json> answer_speedup(double overhead, double wanted) {
  PACELINE_ASSIGN_OR_RETURN(const GpuCount count, fewest_gpus(overhead, wanted));
  if (!count.gpus) {
    const std::string reason =
        count.limit
            ? fmt::format("with an overhead of {} the speed-up stays below {}, however many GPUs there are", overhead, *count.limit)
            : fmt::format("a speed-up of {} needs more than 2^53 GPUs", wanted);
    return infeasible({"gpus", "efficiency", "speedup", "limit"}, reason);
  }
  return Json{{"feasible", true},
              {"gpus", *count.gpus},
              {"efficiency", efficiency(overhead, *count.gpus)},
              {"speedup", speedup(overhead, *count.gpus)},
              {"limit", count.limit ? Json(*count.limit) : Json(nullptr)}};
}

Result<Json> answer_gpus(const Json& input, const Json& /*choices*/) {
  const std::vector<std::string> keys = keys_given(input, {"overhead", "gpus", "efficiency", "speedup"});
  const char* legal = "give (overhead, gpus), (gpus, efficiency) or (overhead, speedup)";
  if (keys.size() != 2)
    return wrong("has {} of the keys 'overhead', 'gpus', 'efficiency', 'speedup', not two; {}", keys.size(), legal);
  PACELINE_RETURN_IF_ERROR(require_positive(input, {"gpus", "efficiency", "speedup"}));
  if (input.contains("efficiency") && input["efficiency"].get<double>() > 1) {
    return wrong_key("efficiency", " is {}; legal are numbers above 0 and up to 1", input["efficiency"].get<double>());
  }
  if (input.contains("overhead") && input.contains("gpus")) {
    const double overhead = input["overhead"];
    const std::int64_t gpus = input["gpus"];
    return Json{{"efficiency", efficiency(overhead, gpus)}, {"speedup", speedup(overhead, gpus)}};
  }
  if (input.contains("gpus") && input.contains("efficiency")) {
    PACELINE_ASSIGN_OR_RETURN(const auto overhead, largest_overhead(input["gpus"], input["efficiency"]));
    return Json{{"max_overhead", overhead ? Json(*overhead) : Json(nullptr)}};
  }
  if (input.contains("overhead") && input.contains("speedup")) return answer_speedup(input["overhead"], input["speedup"]);
  return wrong("keys '{}' and '{}' do not answer each other; {}", keys[0], keys[1], legal);
}

Question gpus_question() {
  return {.name = "gpus",
          .purpose = "Efficiency and speed-up of several GPUs, the overhead they allow, or how many a speed-up needs (Lemma 3.1)",
          .keys = {{"overhead", KeyType::kNumber, "time that more GPUs do not hide / computation time", false},
                   {"gpus", KeyType::kCount, "GPUs, 1 or more", false},
                   {"efficiency", KeyType::kNumber, "speed-up / GPUs, above 0 and up to 1", false},
                   {"speedup", KeyType::kNumber, "over one GPU, above 0", false}},
          .choices = {},
          .answer = answer_gpus};
}

// ---- plan servers

Result<Json> answer_servers(const Json& input, const Json& /*choices*/) {
  PACELINE_RETURN_IF_ERROR(require_positive(input, {"workers", "bandwidth", "worker_bandwidth", "compute_time"}));
  const std::string duplex = input["duplex"];
  if (duplex != "full" && duplex != "half") return wrong_key("duplex", " is '{}'; legal are full and half", duplex);
  ServerQuestion question;
  question.parameters.count = input["parameter_bytes"];
  question.workers = input["workers"];
  question.server_bandwidth.value = input["bandwidth"];
  question.worker_bandwidth.value = input.contains("worker_bandwidth") ? input["worker_bandwidth"] : input["bandwidth"];
  question.compute_seconds = input["compute_time"];
  question.duplex = duplex == "full" ? Duplex::kFull : Duplex::kHalf;
  auto answered = servers_needed(question);
  if (!answered.ok()) return wrong("keys 'bandwidth', 'compute_time': {}", answered.status().message());
  const double shortfall = answered->worker_link_shortfall.value;
  Json answer = {{"servers", answered->servers}, {"worker_link_ok", shortfall == 0}, {"worker_link_shortfall", shortfall}};
  if (shortfall > 0) {
    const double needed = question.worker_bandwidth.value + shortfall;
    answer["servers"] = nullptr;
    answer["reason"] = fmt::format(
        "no number of servers hides the traffic, for each worker's own link lacks {}: links of {} would, or {:.3g} s of computing",
        to_text(BytesPerSecond{shortfall}), to_text(BytesPerSecond{needed}),
        question.compute_seconds * needed / question.worker_bandwidth.value);
  }
  return answer;
}

Question servers_question() {
  return {
      .name = "servers",
      .purpose =
          "How many parameter servers hide the traffic behind the computation (Lemma 3.2), and whether the workers' own links can",
      .keys = {{"parameter_bytes", KeyType::kBytes, "size of the model", true, Beside::kNothing, kBareFrom},
               {"workers", KeyType::kCount, "workers, 1 or more"},
               {"bandwidth", KeyType::kRate, "of a server's link, and of a worker's unless worker_bandwidth says otherwise"},
               {"worker_bandwidth", KeyType::kRate, "of a worker's link (default: bandwidth)", false},
               {"compute_time", KeyType::kSeconds, "of one iteration, above 0"},
               {"duplex", KeyType::kText, "full (pushes and pulls at once) or half"}},
      .choices = {},
      .answer = answer_servers,
      .units = {{"worker_link_shortfall", KeyType::kRate}}};
}

}  // namespace

std::vector<Question> cluster_questions() { return {barrier_question(), gpus_question(), servers_question()}; }

}  // namespace paceline::planner
