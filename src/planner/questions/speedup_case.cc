#include "planner/questions/speedup_case.h"

#include <algorithm>

#include "base/amounts.h"
#include "base/wrong.h"

namespace paceline::planner {
namespace {

constexpr std::int64_t kMostNodes = 256;
constexpr double kUsualStartUp = 100e-6;         // of a message, as bench prediction has it (docs/cli.md)
constexpr double kUsualPayload = 1448.0 / 1514;  // of a link's bytes: TCP with time stamps in Ethernet frames of 1500 bytes
constexpr double kLongestStartUp = 1'000;        // seconds, so that some iterations fit into virtual time

}  // namespace

Result<std::vector<std::int64_t>> machines_of(const Json& input, const SpeedupCase& asked) {
  if (!input.contains("machines")) {
    std::vector<std::int64_t> usual{1, 2, 4, 8, 16};
    std::erase_if(usual, [&](std::int64_t count) { return count * asked.per_machine > kMostNodes; });
    return usual;
  }
  const auto nodes = input["machines"].get<std::vector<std::int64_t>>();
  if (nodes.empty()) return wrong_key("machines", " is empty; at least one number of machines is needed");
  for (const std::int64_t count : nodes) {
    if (count < 1 || count > kMostNodes)
      return wrong_key("machines", " has {}; from 1 to {} machines can be asked for", count, kMostNodes);
    if (count * asked.per_machine > kMostNodes)
      return wrong_key("machines", " has {} with {} workers each; at most {} workers can be asked for", count, asked.per_machine,
                       kMostNodes);
  }
  return nodes;
}

Result<SpeedupCase> speedup_case_of(const Json& input, const Json& choices) {
  const double label = input["bandwidth"], payload = input.value("payload", kUsualPayload), most = input.value("host_rate", label);
  const cost::RivalLink sent{{std::min(label * payload, most)}, input.value("start_up", kUsualStartUp)};
  SpeedupCase asked{.link = {std::min(label, most)}, .sent = sent, .schedule = choices["schedule"].get<std::string>()};
  if (sent.start_up > kLongestStartUp)
    return wrong_key("start_up", " is {}; at most {} is legal", in_time(sent.start_up), in_time(kLongestStartUp));
  if (!(payload > 0 && payload <= 1)) return wrong_key("payload", " is {}; legal is above 0 up to 1", payload);
  for (const auto& [key, count] : {std::pair{"cards", &asked.cards}, std::pair{"servers", &asked.servers},
                                   std::pair{"workers_per_machine", &asked.per_machine}}) {
    if (!input.contains(key)) continue;
    const std::int64_t given = input[key];
    if (given < 1 || given > kMostNodes) return wrong_key(key, " is {}; legal are 1 to {}", given, kMostNodes);
    *count = static_cast<std::int32_t>(given);
  }
  if (asked.cards > 0 && asked.servers > 0)
    return wrong(
        "keys 'cards' and 'servers' contradict each other; machines behind shared cards have a server beside every worker");
  if (asked.per_machine > 1 && asked.cards > 0)
    return wrong("keys 'workers_per_machine' and 'cards' contradict each other; the workers of a machine share its one card");
  if (asked.per_machine > 1 && asked.servers > 0)
    return wrong(
        "keys 'workers_per_machine' and 'servers' contradict each other; several workers of a machine have a server beside each");
  if (choices["push"] == "at-end") asked.given.push = scheduling::PushWhen::kAtEnd;
  if (choices["push"] == "as-ready") asked.given.push = scheduling::PushWhen::kReady;
  if (choices["batching"] != "exact" && asked.schedule != "ibatch" && asked.schedule != "tuned")
    return wrong("--batching {} is for schedules that pull in batches, ibatch and tuned; {} does not",
                 choices["batching"].get<std::string>(), asked.schedule);
  PACELINE_ASSIGN_OR_RETURN(asked.given.batching, scheduling::parse_batching_algorithm(choices["batching"].get<std::string>()));
  return asked;
}

Result<std::vector<cost::LayerLoad>> speedup_loads(const Json& input) {
  PACELINE_ASSIGN_OR_RETURN(auto layers, layer_loads(input));
  PACELINE_RETURN_IF_ERROR(require_positive(input, {"speed"}));
  for (cost::LayerLoad& layer : layers) {
    layer.forward /= input.value("speed", 1.0);
    layer.backward /= input.value("speed", 1.0);
  }
  return layers;
}

std::string assumed_rate(const Json& input, const SpeedupCase& asked) {
  constexpr double kLarge = 10e9 / 8;  // bytes/s
  const double label = input["bandwidth"];
  if (label <= kLarge || input.contains("host_rate") || input.contains("payload")) return "";
  return fmt::format(
      "every machine sends {:.3g} Gb/s, all that TCP leaves of {:.3g} Gb/s; ordinary programs were seen to reach 8 to 69 % of "
      "links of 25 to 100 Gb/s: give host_rate",
      asked.sent.rate.value * 8e-9, label * 8e-9);
}

}  // namespace paceline::planner
