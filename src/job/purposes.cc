#include "job/purposes.h"

#include "job/option.h"
#include "job/refusal.h"

namespace paceline::job {
namespace {

using sync::SyncKind;
using tensor::OptimizerKind;
using tensor::OptimizerTraits;

bool is_mean(const JobSpec& spec) { return spec.update.optimizer.kind == OptimizerKind::kMean; }
bool is_elastic(const JobSpec& spec) { return spec.sync.kind == SyncKind::kElasticBsp; }

// Options of the optimizers that have the trait.
struct OptimizerOption {
  const char* option;
  bool OptimizerTraits::*trait;
};
constexpr OptimizerOption kOfOptimizers[] = {
    {"learning-rate", &OptimizerTraits::steps},    {"weight-decay", &OptimizerTraits::steps},
    {"parameter-groups", &OptimizerTraits::steps}, {"clip-norm", &OptimizerTraits::steps},
    {"momentum", &OptimizerTraits::momentum},      {"adam-beta1", &OptimizerTraits::betas},
    {"adam-beta2", &OptimizerTraits::betas},       {"adam-epsilon", &OptimizerTraits::epsilon},
};

constexpr const char* kBlocks = "the blocks of --algorithm lp, and of best where it takes lp";

struct Purpose {
  const char* option;
  const char* sentence;  // "--momentum 0.5 is for ..."
  bool (*counts)(const JobSpec& spec);
};
constexpr Purpose kPurposes[] = {
    {"verdict", "--optimizer mean", is_mean},
    {"verdict-first", "--verdict", [](const JobSpec& spec) { return spec.update.verdict; }},
    {"verdict-first", "servers, which send values back", [](const JobSpec& spec) { return spec.has_servers(); }},
    {"told-rates", "optimizers that make steps", [](const JobSpec& spec) { return !is_mean(spec); }},
    {"evaluate-late", "--evaluate-every ITERATIONS", [](const JobSpec& spec) { return spec.task.evaluate_every > 0; }},
    {"scale", "--model replay:FILE; a network has the size it has",
     [](const JobSpec& spec) { return replay_file(spec).has_value(); }},
    {"message-start-up", "--model replay:FILE with servers, and a --schedule other than tuned, which predicts networks without",
     [](const JobSpec& spec) { return replay_file(spec).has_value() && spec.has_servers() && spec.schedule.name != "tuned"; }},
    {"staleness", "--sync ssp", [](const JobSpec& spec) { return spec.sync.kind == SyncKind::kSsp; }},
    {"lookahead", "--sync elastic-bsp", is_elastic},
    {"objective", "--sync elastic-bsp", is_elastic},
    {"history", "--sync elastic-bsp", is_elastic},
    {"algorithm", "--collective loop1, loop2, loop3 or loop3-overlap", [](const JobSpec& spec) { return !spec.has_servers(); }},
    {"block", "--collective loop1, loop2, loop3 or loop3-overlap", [](const JobSpec& spec) { return !spec.has_servers(); }},
    {"block", kBlocks, [](const JobSpec& spec) { return !spec.loop.algorithm || collectives::has_blocks(*spec.loop.algorithm); }},
    {"broadcast-every", "--collective loop3 or loop3-overlap", [](const JobSpec& spec) { return !spec.has_servers(); }},
};

// What of the job the option's purpose contradicts, where that is one word.
std::string instead(const JobSpec& spec, std::string_view sentence) {
  if (sentence.starts_with("--optimizer")) return fmt::format(", not {}", tensor::name_of(spec.update.optimizer.kind));
  if (sentence == kBlocks) return fmt::format(", not {}", to_string(*spec.loop.algorithm));
  if (sentence.starts_with("--sync")) return fmt::format(", not {}", to_text(spec.sync.kind));
  return "";
}

// What the option, which is given and of no effect, is for.
Status refuse(const JobSpec& spec, const Option& option, std::string_view purpose) {
  const std::string subject = "--" + option.name;
  return contradiction(subject, "{}{} is for {}{}", subject, option.type == OptionType::kFlag ? "" : " " + option.text(spec),
                       purpose, instead(spec, purpose));
}

}  // namespace

Status check_purposes(const JobSpec& spec) {
  const auto is_given = [&](const Option& option) { return !is_usual(spec, option); };
  for (const OptimizerOption& one : kOfOptimizers) {
    const Option& option = *find_option(one.option);
    if (!(tensor::traits_of(spec.update.optimizer.kind).*one.trait) && is_given(option))
      return refuse(spec, option, "--optimizer " + tensor::optimizers_with(one.trait));
  }
  for (const Purpose& purpose : kPurposes) {
    const Option& option = *find_option(purpose.option);
    if (!purpose.counts(spec) && is_given(option)) return refuse(spec, option, purpose.sentence);
  }
  return {};
}

}  // namespace paceline::job
