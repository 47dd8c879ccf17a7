#include "job/purposes.h"

#include "job/option.h"
#include "job/refusal.h"

namespace paceline::job {
namespace {

using sync::SyncKind;
using tensor::OptimizerKind;

bool has_optimizer(const JobSpec& spec, OptimizerKind one, OptimizerKind other) {
  const OptimizerKind kind = spec.update.optimizer.kind;
  return kind == one || kind == other;
}
bool has_momentum(const JobSpec& spec) { return has_optimizer(spec, OptimizerKind::kMomentum, OptimizerKind::kNesterov); }
bool is_adam(const JobSpec& spec) { return has_optimizer(spec, OptimizerKind::kAdam, OptimizerKind::kAdamW); }
bool is_mean(const JobSpec& spec) { return spec.update.optimizer.kind == OptimizerKind::kMean; }
bool makes_steps(const JobSpec& spec) { return !is_mean(spec); }
bool is_elastic(const JobSpec& spec) { return spec.sync.kind == SyncKind::kElasticBsp; }

struct Purpose {
  const char* option;
  const char* sentence;  // "--momentum 0.5 is for ..."
  bool (*counts)(const JobSpec& spec);
};
constexpr const char* kSteps = "--optimizer sgd, momentum, nesterov, adam or adamw";
constexpr Purpose kPurposes[] = {
    {"learning-rate", kSteps, makes_steps},
    {"weight-decay", kSteps, makes_steps},
    {"parameter-groups", kSteps, makes_steps},
    {"clip-norm", kSteps, makes_steps},
    {"verdict", "--optimizer mean", is_mean},
    {"momentum", "--optimizer momentum or nesterov", has_momentum},
    {"adam-beta1", "--optimizer adam or adamw", is_adam},
    {"adam-beta2", "--optimizer adam or adamw", is_adam},
    {"adam-epsilon", "--optimizer adam or adamw", is_adam},
    {"evaluate-late", "--evaluate-every ITERATIONS", [](const JobSpec& spec) { return spec.task.evaluate_every > 0; }},
    {"scale", "--model replay:FILE; a network has the size it has",
     [](const JobSpec& spec) { return replay_file(spec).has_value(); }},
    {"staleness", "--sync ssp", [](const JobSpec& spec) { return spec.sync.kind == SyncKind::kSsp; }},
    {"lookahead", "--sync elastic-bsp", is_elastic},
    {"objective", "--sync elastic-bsp", is_elastic},
    {"history", "--sync elastic-bsp", is_elastic},
    {"algorithm", "--collective loop1, loop2, loop3 or loop3-overlap", [](const JobSpec& spec) { return !spec.has_servers(); }},
    {"broadcast-every", "--collective loop3 or loop3-overlap", [](const JobSpec& spec) { return !spec.has_servers(); }},
};

// What of the job the option's purpose contradicts, where that is one word.
std::string instead(const JobSpec& spec, std::string_view sentence) {
  if (sentence.starts_with("--optimizer")) return fmt::format(", not {}", tensor::name_of(spec.update.optimizer.kind));
  if (sentence.starts_with("--sync")) return fmt::format(", not {}", to_text(spec.sync.kind));
  return "";
}

}  // namespace

Status check_purposes(const JobSpec& spec) {
  const JobSpec usual;
  for (const Purpose& purpose : kPurposes) {
    const Option& option = *find_option(purpose.option);
    const std::string text = option.text(spec);
    if (purpose.counts(spec) || text == option.text(usual)) continue;
    const std::string subject = "--" + option.name;
    return contradiction(subject, "{}{} is for {}{}", subject, option.type == OptionType::kFlag ? "" : " " + text, purpose.sentence,
                         instead(spec, purpose.sentence));
  }
  return {};
}

}  // namespace paceline::job
