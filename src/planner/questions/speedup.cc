// `paceline plan speedup`: what several machines would gain.
#include <algorithm>
#include <cmath>

#include "base/amounts.h"
#include "base/wrong.h"
#include "cost/rivals.h"
#include "planner/questions/speedup_case.h"
#include "planner/tuning/tune.h"
#include "simulation/predict.h"

namespace paceline::planner {
namespace {

// Of all nodes in an iteration, so that an answer takes seconds at most: where candidates are compared, where one is stepped, and
// where somebody asks for one by name.
constexpr double kFewMessages = 4'000, kMostMessages = 60'000, kMostByName = 3'000'000;
constexpr double kWorth = 0.5;    // the share of its own work that a machine has to add in the mean
constexpr double kLongest = 1e7;  // seconds, so that some iterations fit into virtual time

// Layers without parameters are computed and not sent: with the layer before them, whose gate they wait for and whose gradient
// waits for them. Those in front of all others wait for no gate, and are one layer.
simulation::Job job_of(const std::vector<cost::LayerLoad>& layers) {
  simulation::Job job;
  for (const cost::LayerLoad& layer : layers) {
    constexpr std::int64_t kElement = sizeof(float);
    const std::int64_t elements = (layer.size.count + kElement - 1) / kElement;
    if (elements > 0 || job.table.layers.empty()) {
      const Layer next{static_cast<std::int32_t>(job.table.layers.size())};
      job.table.layers.push_back(fmt::format("layer{}", next.index));
      if (elements > 0)
        job.table.tensors.push_back({.name = job.table.layers.back(), .dtype = "float32", .shape = {elements}, .layer = next});
      job.forward.push_back(0);
      job.backward.push_back(0);
    }
    job.forward.back() += layer.forward;
    job.backward.back() += layer.backward;
  }
  return job;
}

struct Stepped {
  scheduling::ScheduleOptions schedule;
  double iteration = 0;  // seconds
};

Result<Stepped> stepped(const simulation::Job& job, const scheduling::ScheduleOptions& schedule,
                        const simulation::Cluster& cluster) {
  PACELINE_ASSIGN_OR_RETURN(const auto predicted, simulation::predict(job, schedule, cluster));
  return Stepped{schedule, predicted.iteration};
}

// As a job would choose, where that takes a moment; else by formula, in slices that are not too many to step.
Result<Stepped> tuned(const simulation::Job& job, const simulation::Cluster& cluster, const tuning::Given& given) {
  const Bytes model{job.table.elements() * static_cast<std::int64_t>(sizeof(float))};
  scheduling::ScheduleOptions schedule = tuning::by_formula(model, cluster, {}, given);
  if (tuning::messages_of(job.table, schedule, cluster.workers) <= kFewMessages) {
    PACELINE_ASSIGN_OR_RETURN(const auto choice, tuning::tune(job, cluster, {}, given));
    return Stepped{choice.schedule, choice.predicted.iteration};
  }
  const double most = std::max(1.0, kMostMessages / 2 / cluster.workers - static_cast<double>(job.table.tensors.size()));
  schedule.cut.elements =
      std::max(schedule.cut.elements, static_cast<std::int64_t>(static_cast<double>(job.table.elements()) / most));
  return stepped(job, schedule, cluster);
}

// The bound counts a node's pushes and values on one link; `share`: what of it they have. A gradient that is sent smaller makes the
// link that much faster. A server of its own gets pushes one way and sends values the other, from and to all workers. Machines
// behind a card exchange over it only with those behind others; some may compute while others have it, so the first layers hold up
// nobody.
// Workers of one machine could add their gradients before anything is sent: for the bound `nodes` are machines.
cost::LowerBound bound_of(const std::vector<cost::LayerLoad>& layers, std::int64_t nodes, const SpeedupCase& setting,
                          double pushed) {
  const auto all = static_cast<double>(nodes);
  const std::int64_t behind = setting.cards == 0 ? 1 : (nodes + setting.cards - 1) / setting.cards;
  double share = 2 / (1 + pushed);
  if (setting.servers > 0 && nodes > 1) share = 2 * (all - 1) / all / std::max(1.0, all / setting.servers);
  if (behind > 1) share *= (all - 1) / static_cast<double>(behind * std::max<std::int64_t>(1, nodes - behind));
  // One machine with servers elsewhere sends and receives everything, as each of two that share it.
  const bool alone = setting.servers > 0 && nodes == 1;
  if (alone) share = 1;
  cost::LowerBound bound = cost::iteration_lower_bound(layers, alone ? 2 : nodes, {setting.link.value * share});
  if (behind == 1) return bound;
  if (behind >= nodes) bound.transfer = 0;
  bound.tail = 0;
  bound.lower_bound = std::max(bound.computation, bound.transfer);
  return bound;
}

Result<Stepped> by_name(const SpeedupCase& setting, const simulation::Job& job, const simulation::Cluster& cluster) {
  PACELINE_ASSIGN_OR_RETURN(auto schedule, scheduling::parse_schedule_name(setting.schedule));
  schedule.push = setting.given.push.value_or(schedule.push);
  schedule.batching = setting.given.batching.value_or(schedule.batching);
  if (tuning::messages_of(job.table, schedule, cluster.workers) > kMostByName)
    return error(ErrorKind::kBadRequest,
                 "{} of this model between {} machines has too many messages to step; ask for fewer machines or --schedule tuned",
                 setting.schedule, cluster.workers);
  return stepped(job, schedule, cluster);
}

// What stays inside a machine takes no time.
simulation::Cluster cluster_of(const SpeedupCase& setting, std::int64_t machines) {
  using Layout = simulation::Cluster::Layout;
  const bool apart = setting.servers > 0;
  const auto workers = static_cast<std::int32_t>(machines) * setting.per_machine;
  return {.workers = workers,
          .servers = apart ? setting.servers : workers,
          .layout = apart ? Layout::kSeparate : Layout::kShared,
          .link = setting.sent.rate,
          .cards = setting.per_machine > 1 ? static_cast<std::int32_t>(machines) : setting.cards,
          .start_up = setting.sent.start_up,
          .processing = simulation::kUsualProcessing};
}

// What holds an iteration up most: computing, the bytes that a link has to carry, or the first layers, whose gradients come last.
const char* limit_of(const cost::LowerBound& bound) {
  constexpr double kAsGood = 0.99;
  if (bound.computation >= kAsGood * bound.lower_bound) return "computing";
  return bound.transfer >= kAsGood * bound.lower_bound ? "link" : "first layers";
}

// Where an iteration is far from the bound, messages that cost nothing to start tell whether their start-ups hold it up.
Result<std::string> limit_of(const cost::LowerBound& bound, const Stepped& seen, const simulation::Job& job,
                             simulation::Cluster cluster) {
  constexpr double kFar = 1.1;
  const std::string limit = limit_of(bound);
  if (seen.iteration <= kFar * bound.lower_bound) return limit;
  cluster.start_up = 0;
  PACELINE_ASSIGN_OR_RETURN(const Stepped at_once, stepped(job, seen.schedule, cluster));
  if (seen.iteration - at_once.iteration > (seen.iteration - bound.lower_bound) / 2) return std::string("start-ups");
  return limit == "computing" ? "link" : limit;  // it has more to carry than the bound counts
}

struct Foreseen {
  double iteration = 0;  // seconds
  std::string limit;
};

Result<Foreseen> with_paceline(const SpeedupCase& setting, const simulation::Job& job, std::int64_t machines,
                               const cost::LowerBound& bound) {
  if ((machines == 1 && setting.servers == 0) || job.table.tensors.empty()) return Foreseen{bound.computation, limit_of(bound)};
  const double lower_bound = bound.lower_bound;
  const simulation::Cluster cluster = cluster_of(setting, machines);
  PACELINE_ASSIGN_OR_RETURN(Stepped seen,
                            setting.schedule == "tuned" ? tuned(job, cluster, setting.given) : by_name(setting, job, cluster));
  // Only iterations that have not settled can be shorter than the bound, but for nanoseconds that were rounded in each layer.
  const double rounding = 4e-9 * static_cast<double>(job.forward.size());
  if (seen.iteration < lower_bound - rounding) {
    PACELINE_ASSIGN_OR_RETURN(seen.iteration, simulation::predict_settled(job, seen.schedule, cluster));
  }
  seen.iteration = std::max(seen.iteration, lower_bound);  // of a few that are as long but for half a percent
  PACELINE_ASSIGN_OR_RETURN(std::string limit, limit_of(bound, seen, job, cluster));
  return Foreseen{seen.iteration, std::move(limit)};
}

// The column that is faster than Paceline's by more than such a prediction can tell; Paceline's where none is.
struct Fastest {
  const char *key = "paceline", *name = "Paceline";
  double iteration = 0;  // seconds
};

Fastest fastest_of(double own, double split, double ddp) {
  constexpr double kAsFast = 0.99;
  const Fastest rival = split < ddp ? Fastest{"split", "the split baseline", split} : Fastest{"ddp", "DDP", ddp};
  return rival.iteration < kAsFast * own ? rival : Fastest{.iteration = own};
}

// `servers` are on machines of their own.
bool pays(std::int64_t workers, std::int64_t servers, double speedup) {
  return speedup >= kWorth * static_cast<double>(workers + servers);
}

std::string why(std::int64_t workers, std::int64_t servers, double iteration, double speedup, const std::string& limit,
                const Fastest& fastest) {
  const std::int64_t machines = workers + servers;
  std::string gain = machines == 1 ? "" : fmt::format("{} machines", machines);
  if (servers > 0) gain += fmt::format(" ({} workers, {} servers)", workers, servers);
  if (machines > 1) gain += fmt::format(" make {:.2f} times as many samples a second as one, ", speedup);
  std::string text = fmt::format("{}an iteration takes {}, limited by {}{}", gain, in_time(iteration), limit,
                                 pays(workers, servers, speedup) ? "" : "; in the mean each adds less than half of its own work");
  if (fastest.iteration < iteration) text += fmt::format("; {} is faster: {}", fastest.name, in_time(fastest.iteration));
  return text;
}

Result<simulation::Job> job_of(const std::vector<cost::LayerLoad>& layers, const Json& input) {
  simulation::Job job = job_of(layers);
  job.pushed = input.value("pushed", 1.0);
  if (!(job.pushed > 0 && job.pushed <= 1)) return wrong_key("pushed", " is {}; legal is above 0 up to 1", job.pushed);
  return job;
}

Result<Json> answer_speedup(const Json& input, const Json& choices) {
  PACELINE_ASSIGN_OR_RETURN(const auto layers, speedup_loads(input));
  PACELINE_ASSIGN_OR_RETURN(const SpeedupCase setting, speedup_case_of(input, choices));
  PACELINE_ASSIGN_OR_RETURN(const auto machines, machines_of(input, setting));
  PACELINE_ASSIGN_OR_RETURN(const simulation::Job job, job_of(layers, input));
  const std::string assumed = assumed_rate(input, setting);
  double computing = 0;
  for (const cost::LayerLoad& layer : layers) computing += layer.forward + layer.backward;
  if (computing <= 0) return wrong_key("layers", " take no time; give how long they compute");
  Json rows = Json::array();
  for (const std::int64_t count : machines) {
    const auto bound = bound_of(layers, count, setting, job.pushed);
    if (bound.lower_bound > kLongest)
      return wrong_key("bandwidth", " lets an iteration of {} machines take {}; from {} on nothing is stepped", count,
                       in_time(bound.lower_bound), in_time(kLongest));
    PACELINE_ASSIGN_OR_RETURN(const Foreseen seen, with_paceline(setting, job, count, bound));
    // Their rings go from machine to machine once, however many workers are on the way; a machine alone has no link to pass.
    const std::int64_t ranks = count == 1 ? 1 : count * setting.per_machine;
    const double own = seen.iteration, ddp = cost::bucketed_allreduce(layers, ranks, setting.sent),
                 split = cost::split_allreduce(layers, ranks, setting.sent);
    const Fastest fastest = fastest_of(own, split, ddp);
    const auto speedup = [&](double iteration) { return static_cast<double>(count) * computing / iteration; };
    rows.push_back({{"machines", count},
                    {"paceline", own},
                    {"split", split},
                    {"ddp", ddp},
                    {"lower_bound", bound.lower_bound},
                    {"speedup", speedup(own)},
                    {"split_speedup", speedup(split)},
                    {"ddp_speedup", speedup(ddp)},
                    {"fastest", fastest.key},
                    {"limited_by", seen.limit},
                    {"rate", setting.sent.rate.value},
                    {"assumed", assumed.empty() ? Json(nullptr) : Json(assumed)},
                    {"worth", pays(count, setting.servers, speedup(own))},
                    {"why", why(count, setting.servers, own, speedup(own), seen.limit, fastest)}});
  }
  return rows;
}

}  // namespace

Question speedup_question() {
  Question question;
  question.name = "speedup";
  question.purpose =
      "Whether more machines help, and how many are worth it: seconds of an iteration, and samples a second over those of one "
      "machine that computes alone. Paceline: a server beside every worker, stepped in virtual time. Split: reduce-scatter under "
      "backward, all-gather "
      "under forward, whole layers. DDP: buckets of 25 MiB around a ring. The last two leave out what processors do. Worth it: "
      "machines that in the mean add half of their own work.";
  question.keys = {
      {"bandwidth", KeyType::kRate, "rate of a machine's link in each direction", true, Beside::kInput},
      {"machines", KeyType::kCounts, "numbers of machines that compute, each up to 256; without: 1, 2, 4, 8, 16", false,
       Beside::kInput},
      {"start_up", KeyType::kSeconds, "start-up time of a message; without: 100us", false, Beside::kInput},
      {"payload", KeyType::kNumber,
       "share of the bandwidth that what is sent can have; without: 0.956, TCP in Ethernet; the bound counts all of it", false,
       Beside::kInput},
      {"cards", KeyType::kCount, "network cards of that bandwidth that the machines (virtual ones) are behind; without: one each",
       false, Beside::kInput},
      {"workers_per_machine", KeyType::kCount,
       "workers that share a machine's link, each with a server beside it; what stays inside a machine takes no time; without: 1",
       false, Beside::kInput},
      {"host_rate", KeyType::kRate, "the most that a machine sends, whatever its link's bandwidth is; without: no such limit",
       false, Beside::kInput},
      {"servers", KeyType::kCount, "servers on machines of their own, up to 256; without: one beside every worker", false,
       Beside::kInput},
      {"speed", KeyType::kNumber, "how fast a machine computes, times the layers' times' machine; without: 1", false,
       Beside::kInput},
      {"pushed", KeyType::kNumber, "bytes of a gradient over those of its value, where elements are dropped; without: 1", false,
       Beside::kInput},
      layers_key(),
  };
  question.choices = {
      {"schedule",
       {"tuned", "p3", "slicing", "kvstore", "ibatch", "layer-wise", "default"},
       "The schedule of Paceline's (docs/cli.md)"},
      {"push", {"own", "at-end", "as-ready"}, "when gradients leave: the schedule's own, or as --push of train"},
      {"batching", {"exact", "ibatch", "forward-greedy", "backward-greedy"}, "how pulls in batches are planned (ibatch, tuned)"}};
  question.answer = answer_speedup;
  question.ignored = of_profile({"transfer", "forward", "backward", "nodes"});
  return question;
}

}  // namespace paceline::planner
