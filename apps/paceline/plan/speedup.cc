// `paceline plan speedup` beside its numbers: --model measures a network on this machine, --hosts the ways to others; a table for
// people, and --picture.
#include <algorithm>
#include <set>

#include <unistd.h>

#include "base/amounts.h"
#include "base/text.h"
#include "base/wrong.h"
#include "model/description.h"
#include "paceline/beside.h"
#include "paceline/option_files.h"
#include "paceline/picture.h"
#include "paceline/plan/question.h"
#include "paceline/ssh.h"
#include "paceline/train/trainer_program.h"
#include "paceline/within.h"
#include "planner/questions/job_candidates.h"

namespace paceline::cli {
namespace {

constexpr const char* kLimit = "40s";     // of measuring a network; with its start and two seconds for each host a minute
constexpr double kLongStep = 40;          // seconds; whoever waits for one is told
constexpr double kUsualStartUp = 100e-6;  // of a message, where half of the round trip is not more
constexpr std::int64_t kMiniBatch = 32;

constexpr const char* kSpeedups = R"py(
import json, sys
import matplotlib.pyplot as plt
plt.rcParams["svg.fonttype"] = "none"
rows = sorted(json.loads(sys.argv[2]), key=lambda row: row["machines"])
machines = [row["machines"] for row in rows]
figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
lines = [
    ("paceline", "speedup", "Paceline", "tab:blue"),
    ("split", "split_speedup", "split baseline", "tab:green"),
    ("ddp", "ddp_speedup", "DDP", "tab:orange"),
]
for seconds, speedup, label, colour in lines:
    panels[0].plot(machines, [row[speedup] for row in rows], "o-", color=colour, label=label)
    panels[1].plot(machines, [1e3 * row[seconds] for row in rows], "o-", color=colour, label=label)
panels[0].plot(machines, machines, ":", color="0.6", label="without communication")
panels[1].plot(machines, [1e3 * row["lower_bound"] for row in rows], ":", color="0.3", label="bound of any schedule")
worth = [row["machines"] for row in rows if row["worth"]]
if worth and max(worth) > 1:
    panels[0].axvline(max(worth), color="0.8", lw=6, zorder=0, label=f"worth it up to {max(worth)}")
for panel, title in zip(panels, ("samples a second, times one machine's", "ms an iteration")):
    panel.set_title(title)
    panel.set_xlabel("machines")
    panel.set_xticks(machines)
    panel.set_ylim(0, 1.1 * panel.get_ylim()[1])
    panel.legend(fontsize=8)
figure.savefig(sys.argv[1], dpi=120)
)py";

// 1, 2, 4 … and all of them.
std::string counts_to(std::size_t most) {
  std::string counts;
  for (std::size_t count = 1; count < most; count *= 2) counts += fmt::format("{},", count);
  return counts + std::to_string(most);
}

std::string table_of(const Json& rows) {
  std::string text = fmt::format("{:<9} {:>10} {:>10} {:>10} {:>10} {:>9}  {}\n", "machines", "Paceline", "split", "DDP", "bound",
                                 "speed-up", "limited by");
  const Json* best = &rows.at(0);
  for (const Json& row : rows) {
    const auto time = [&row](const char* key) { return in_time(row[key].get<double>()); };
    text += fmt::format("{:<9} {:>10} {:>10} {:>10} {:>10} {:>8.2f}x  {}\n", row["machines"].get<std::int64_t>(), time("paceline"),
                        time("split"), time("ddp"), time("lower_bound"), row["speedup"].get<double>(),
                        row["limited_by"].get<std::string>());
    const auto rank = [](const Json& one) { return std::pair(one["worth"].get<bool>(), one["machines"].get<std::int64_t>()); };
    if (rank(row) > rank(*best)) best = &row;
  }
  const bool several = (*best)["machines"] > 1;
  const char* verdict = !several ? "stay with one machine" : (*best)["worth"].get<bool>() ? "worth it" : "does not pay";
  std::string why = (*best)["why"].get<std::string>();
  if (!several && rows.size() > 1) {  // the best of the others, and what it lacks
    const auto other = [](const Json& one) { return std::pair(one["machines"] > 1, one["speedup"].get<double>()); };
    why += "; " + std::ranges::max_element(rows, {}, other)->at("why").get<std::string>();
  }
  if (const Json& assumed = rows.at(0)["assumed"]; !assumed.is_null())
    text += fmt::format("\nassumed: {}\n", assumed.get<std::string>());
  return text + fmt::format("\n{}: {}\n", verdict, why);
}

class SpeedupExtension final : public Extension {
 public:
  void add_options(CLI::App& app) override {
    app.add_option(
           "--model", model_,
           fmt::format("Measure this network's layers here first, {} at most or one step; 'paceline models' lists them", kLimit))
        ->check(not_empty);
    within(app.add_option("--mini-batch", mini_batch_,
                          fmt::format("With --model: samples of one machine's step (default {})", kMiniBatch)),
           1, 1'000'000)
        ->option_text("COUNT");
    add_named_hosts(app, hosts_,
                    "Measure the ways from here to these machines, by the names that ssh knows; the slowest direction counts as "
                    "every machine's bandwidth");
    app.add_option("--picture", picture_, "Draw speed-up and time against the machines (.png, .svg, .pdf; needs matplotlib)")
        ->check(not_empty)
        ->option_text("FILE");
    app.add_flag("--progress", progress_, "Show progress even when standard error is no terminal");
  }

  Result<std::string> completed(const std::string& text) override {
    auto parsed = report::parse_json(text, "", report::CaseIndex::kNone);
    if (!parsed.ok() || !parsed->is_structured()) return text;  // whoever reads it says what is wrong
    Json& cases = *parsed;
    bool changed = false;
    for (Json* one : cases_of(cases)) {
      if (!one->is_object()) continue;
      for (const auto& [name, value] : one->items()) in_cases_.insert(name);
      if (one->contains("layers") || !one->contains("model") || !(*one)["model"].is_string()) continue;
      PACELINE_ASSIGN_OR_RETURN((*one)["layers"], layers_that_come_along((*one)["model"].get<std::string>()));
      changed = true;
    }
    return changed ? cases.dump(-1, ' ', false, Json::error_handler_t::replace) : text;
  }

  Status check(const Values& given, bool with_input) const override {
    PACELINE_RETURN_IF_ERROR(check_named_hosts(hosts_));
    if (mini_batch_ && model_.empty()) return wrong("--mini-batch is for --model, which is measured; give it, or leave it out");
    if (!model_.empty()) {
      if (with_input) return wrong("--model and --input contradict each other; each gives the layers");
      if (given.contains("layers")) return wrong("--model and --layers contradict each other; each gives the layers");
      const auto known = model::describe(model_);
      if (!known.ok() && layer_table_of(model_))
        return wrong("--model {0} is no network that can be measured; its table comes along: --input {0}", model_);
      PACELINE_RETURN_IF_ERROR(known.status());
    }
    if (!hosts_.names.empty() && given.contains("bandwidth"))
      return wrong("--hosts measures the bandwidth, and --bandwidth gives it; leave one of them out");
    if (hosts_.names.empty() && !given.contains("bandwidth") && !with_input && !model_.empty())
      return wrong("--bandwidth is missing: give a link's rate, or --hosts to measure it");
    return check_picture("--picture", picture_);
  }

  Status check_count(std::size_t cases) const override {
    if (picture_.empty() || cases == 1) return {};
    return wrong("--picture {} is of one case, and --input has {}", picture_, cases);
  }

  Values stand_ins() const override {
    Values values;
    if (!hosts_.names.empty()) values["bandwidth"] = "1gbit";
    if (!model_.empty()) values["layers"] = R"([{"parameters": 1, "forward": 0.1, "backward": 0.1}])";
    return values;
  }

  Result<Values> measured(const Values& given) override {
    Values values;
    if (!hosts_.names.empty()) PACELINE_RETURN_IF_ERROR(measure_ways(given, values));
    if (!model_.empty()) PACELINE_RETURN_IF_ERROR(measure_layers(values));
    return values;
  }

  Result<std::string> text_of(Json& answer) override {
    if (!measured_.empty()) {
      for (Json& row : answer) row["measured"] = measured_;
    }
    if (!picture_.empty()) PACELINE_RETURN_IF_ERROR(draw(kSpeedups, answer.dump(), picture_));
    return table_of(answer) + (measured_.empty() ? "" : "measured: " + measured_ + "\n");
  }

 private:
  static std::vector<Json*> cases_of(Json& input) {
    if (!input.is_array()) return {&input};
    std::vector<Json*> cases;
    for (Json& one : input) cases.push_back(&one);
    return cases;
  }

  static Result<Json> layers_that_come_along(const std::string& model) {
    if (const auto path = layer_table_of(model)) {
      PACELINE_ASSIGN_OR_RETURN(const std::string text, read_option("bench/tables", *path));
      return Json::parse(text).at("layers");
    }
    return wrong_key("model", " is '{}', of which no table comes along; give 'layers', or measure it with --model", model);
  }

  Status measure_layers(Values& values) {
    std::vector<std::string> words = {
        "profile", "--model", model_,        "--mini-batch", std::to_string(mini_batch_.value_or(kMiniBatch)),
        "--limit", kLimit,    "--bandwidth", "1gbit",        "--start-up",
        "1us",     "--json"};
    if (progress_ || isatty(STDERR_FILENO) != 0) words.emplace_back("--progress");
    PACELINE_ASSIGN_OR_RETURN(const model::ModelDescription network, model::describe(model_));
    const double step = planner::expected_step(network, mini_batch_.value_or(kMiniBatch));
    if (step > kLongStep) say(fmt::format("measuring {} takes about {}, as one step does", model_, in_time(step)));
    PACELINE_ASSIGN_OR_RETURN(const std::string printed, run_paceline(words));
    const Json profile = Json::parse(printed);
    values["layers"] = profile.at("layers").dump();
    say(fmt::format("{} with {} samples a step computes for {} in one thread of this machine (steps measured: {})", model_,
                    profile.at("mini_batch").get<std::int64_t>(), in_time(profile.at("compute_s").get<double>()),
                    profile.at("rounds").get<std::int64_t>()));
    return {};
  }

  Status measure_ways(const Values& given, Values& values) {
    std::vector<std::string> words = {"doctor", "--start", "--json", "--ssh", hosts_.ssh};
    if (!hosts_.remote.empty()) words.insert(words.end(), {"--remote", hosts_.remote});
    const std::set<std::string> apart(hosts_.names.begin(), hosts_.names.end());  // a name that stands twice has two workers
    words.insert(words.end(), apart.begin(), apart.end());
    PACELINE_ASSIGN_OR_RETURN(const std::string printed, run_paceline(words));
    const Json links = Json::parse(printed).at("links");
    const auto slowest = std::ranges::min_element(links, {}, [](const Json& link) { return link.at("rate").get<double>(); });
    double start_up = kUsualStartUp;
    for (const Json& link : links) start_up = std::max(start_up, link.at("round_trip").get<double>() / 2);
    const auto open = [&](const char* key) { return !given.contains(key) && !in_cases_.contains(key); };
    if (open("payload")) values["payload"] = "1";  // it is what a program could send
    values["bandwidth"] = fmt::format("{}B/s", slowest->at("rate").get<double>());
    if (open("start_up")) values["start_up"] = fmt::format("{}", start_up);
    if (open("machines")) values["machines"] = counts_to(hosts_.names.size());
    say(fmt::format("{} from {} to {}, the slowest of {} directions", to_text(BytesPerSecond{slowest->at("rate").get<double>()}),
                    slowest->at("from").get<std::string>(), slowest->at("to").get<std::string>(), links.size()));
    return {};
  }

  void say(const std::string& what) { measured_ += (measured_.empty() ? "" : "; ") + what; }

  std::string model_, picture_;
  std::optional<std::int64_t> mini_batch_;
  NamedHosts hosts_;
  bool progress_ = false;
  std::string measured_;            // for people
  std::set<std::string> in_cases_;  // keys that some case of --input gives
};

}  // namespace

std::unique_ptr<Extension> speedup_extension() { return std::make_unique<SpeedupExtension>(); }

}  // namespace paceline::cli
