// What options mean together: refusals of pairs, and what follows from several of them.
#include <algorithm>
#include <cmath>

#include "job/option.h"
#include "job/purposes.h"
#include "job/refusal.h"
#include "job/spec.h"
#include "model/description.h"
#include "tensor/learning_rate.h"
#include "tensor/optimizer.h"

namespace paceline::job {
namespace {

constexpr const char* kNoDataset = "none";
constexpr std::int64_t kReplayIterations = 10;

using sync::SyncKind;

// Every value by itself. Only a program can have made one that its option refuses.
Status check_values(const JobSpec& spec) {
  JobSpec copy = spec;
  for (const Option& option : options()) PACELINE_RETURN_IF_ERROR(option.set(copy, option.text(spec)));
  return {};
}

Status check_convolutions(const JobSpec& s) {
  if (s.task.convolutions.empty()) return {};
  const auto description = model::describe(s.task.model);
  if (!description.ok()) {
    return contradiction(
        "--convolutions",
        "--convolutions is for the networks that 'paceline models' lists, not for '{}': another module runs what its "
        "own forward calls",
        s.task.model);
  }
  const Status status = model::check_convolutions(s.task.convolutions, *description);
  return status.ok() ? status : contradiction("--convolutions", "--convolutions: {}", status.message());
}

// The values of a replay are checked against what they must be, so only what can be foretold is legal; and there are no samples.
Status check_replay(const JobSpec& s) {
  const auto refused = [](const char* option, const std::string& value, const char* why) {
    return contradiction(option, "{}{} is illegal with --model replay: {}", option, value.empty() ? "" : " " + value, why);
  };
  const auto text = [](auto number) { return fmt::format("{}", number); };
  if (s.task.epochs > 0) return refused("--epochs", text(s.task.epochs), "there are no data to pass over; give --iterations");
  if (s.task.evaluate_every > 0) return refused("--evaluate-every", text(s.task.evaluate_every), "there is nothing to evaluate");
  if (!s.saving.export_file.empty()) return refused("--export", "", "its parameters are no model");
  if (!s.groups.empty())
    return refused("--parameter-groups", to_text(s.groups), "its values are checked as if all of them were updated alike");
  if (s.update.clip_norm > 0) return refused("--clip-norm", text(s.update.clip_norm), "its gradients are made up");
  if (s.task.dataset != kNoDataset && s.task.dataset != Task().dataset)
    return refused("--dataset", s.task.dataset, "it reads no data; leave --dataset out");
  if (s.wire.drops())
    return refused("--wire", s.wire.text(), "its gradients are made up, and what is kept back cannot be foretold");
  if (s.sync.kind == SyncKind::kBsp) return {};
  const std::string kind(to_text(s.sync.kind));
  if (s.wire.kind != WireKind::kFloat32) {
    return contradiction("--wire",
                         "--wire {} with --sync {} is illegal with --model replay: what comes back rounded is checked for "
                         "--sync bsp",
                         s.wire.text(), kind);
  }
  const tensor::Schedule rate = learning_rate_of(s);
  const bool foreseeable = s.update.optimizer.kind == tensor::OptimizerKind::kSgd && s.update.optimizer.weight_decay == 0 &&
                           rate.kind == tensor::Schedule::Kind::kConstant && rate.warmup == 0;
  if (foreseeable) return {};
  return contradiction("--sync",
                       "--sync {} with --model replay is checked for --optimizer sgd without --weight-decay and with a constant "
                       "--learning-rate; the order of the updates decides about all others",
                       kind);
}

// Whoever gets means back has parameters and checkpoints of its own, so nothing of the job's may pretend to be them.
Status check_mean(const JobSpec& s) {
  if (s.update.optimizer.kind != tensor::OptimizerKind::kMean) return {};
  constexpr std::pair<const char*, const char*> kNotMeant[] = {
      {"sync", "a mean is that of one iteration of all workers; legal: bsp"},
      {"checkpoint", "the job holds means, not parameters; save those where they are"},
      {"export", "the job holds means, not parameters; save those where they are"}};
  for (const auto& [name, why] : kNotMeant) {
    const Option& option = *find_option(name);
    if (is_usual(s, option)) continue;
    const std::string subject = "--" + option.name;
    return contradiction(subject, "{} {} contradicts --optimizer mean: {}", subject, option.text(s), why);
  }
  if (s.wire.drops())
    return contradiction("--wire",
                         "--wire {} contradicts --optimizer mean: nobody makes up for what is dropped; legal: float32, "
                         "float16, bfloat16",
                         s.wire.text());
  if (s.update.non_finite == NonFinitePolicy::kSkip) {
    return contradiction("--non-finite",
                         "--non-finite skip contradicts --optimizer mean: means are never held; legal: stop, apply");
  }
  if (s.update.verdict && !s.has_servers() && !updates_everywhere(*s.loop.loop))
    return contradiction("--verdict", "--verdict needs the sums on all ranks; legal with --collective: loop3, loop3-overlap");
  return {};
}

// What workers say with every iteration must not be said by the job too.
Status check_told_rates(const JobSpec& s) {
  if (!s.update.told_rates) return {};
  constexpr std::pair<const char*, const char*> kNotMeant[] = {{"learning-rate", "workers say it with every iteration"},
                                                               {"weight-decay", "workers say it with every iteration"},
                                                               {"parameter-groups", "each tensor says in which group it is"},
                                                               {"collective", "servers are told; leave it out"},
                                                               {"model", "nobody tells them there; a program's own model does"}};
  for (const auto& [name, why] : kNotMeant) {
    const Option& option = *find_option(name);
    if (is_usual(s, option) || (option.name == "model" && !replay_file(s))) continue;
    const std::string subject = "--" + option.name;
    return contradiction(subject, "{} {} contradicts --told-rates: {}", subject, option.text(s), why);
  }
  if (s.wire.kind == WireKind::kDgc)
    return contradiction("--wire", "--wire {} contradicts --told-rates: workers make a part of the step", s.wire.text());
  return {};
}

bool is_dgc(const JobSpec& spec) { return spec.wire.kind == WireKind::kDgc; }

// What is legal with gradients of which workers keep a part back.
Status check_dropping(const JobSpec& s) {
  if (!s.wire.drops()) return {};
  const std::string wire = s.wire.text();
  if (s.update.non_finite == NonFinitePolicy::kSkip) {
    return contradiction(
        "--non-finite",
        "--non-finite skip contradicts --wire {}: what workers had kept back until then would be lost; legal: stop, "
        "apply",
        wire);
  }
  if (!s.saving.directory.empty()) {
    return contradiction("--checkpoint",
                         "--checkpoint contradicts --wire {}: what workers keep back would be in no checkpoint; legal: float32, "
                         "bfloat16, float16",
                         wire);
  }
  if (!is_dgc(s)) return {};
  const tensor::OptimizerOptions& optimizer = s.update.optimizer;
  if (optimizer.kind != tensor::OptimizerKind::kSgd && !tensor::traits_of(optimizer.kind).momentum) {
    return contradiction("--optimizer",
                         "--optimizer {} contradicts --wire {}, which corrects momentum; legal: sgd, momentum, nesterov",
                         tensor::name_of(optimizer.kind), wire);
  }
  for (const GroupRule& rule : s.groups) {
    if (rule.weight_decay.value_or(0) == 0) continue;
    return contradiction(
        "--parameter-groups",
        "--parameter-groups {} contradicts --wire {}: servers, who know the parameters, would add the decay behind "
        "the momentum; legal: decay=0",
        to_text(s.groups), wire);
  }
  if (optimizer.weight_decay > 0) {
    return contradiction("--weight-decay",
                         "--weight-decay {} contradicts --wire {}: servers, who know the parameters, would add it behind the "
                         "momentum; legal: 0",
                         optimizer.weight_decay, wire);
  }
  return {};
}

Status check_sync(const JobSpec& s) {
  const bool skips = s.update.non_finite == NonFinitePolicy::kSkip;
  const std::string shared = s.update.clip_norm > 0 ? fmt::format("--clip-norm {}", s.update.clip_norm)
                             : skips                ? "--non-finite skip"
                                                    : "";
  if (s.sync.kind != SyncKind::kBsp && !shared.empty()) {
    return contradiction("--sync", "--sync {} has no iteration that all workers share, so {} is illegal; use --sync bsp",
                         to_text(s.sync.kind), shared);
  }
  if (s.sync.kind == SyncKind::kBsp && s.sync.scale == sync::GradientScale::kFull) {
    return contradiction("--gradient-scale",
                         "--gradient-scale full is for asp, ssp and elastic-bsp; --sync bsp applies the mean of the workers' "
                         "gradients: give a larger --learning-rate instead");
  }
  return {};
}

// With collective operations there are no servers, whose part the schedule and the synchronisation model are.
Status check_loop(const JobSpec& s) {
  if (s.has_servers()) return {};
  PACELINE_RETURN_IF_ERROR(training_of(s).status());
  // What only servers do must be as it is when nobody gave it.
  constexpr std::pair<const char*, const char*> kServers[] = {
      {"schedule", "schedules are for servers; leave it out (--merge is legal)"},
      {"slice", "operations cut their messages by themselves; leave it out"},
      {"batching", "it pulls nothing; leave it out"},
      {"return", "no server returns values; leave it out"},
      {"push", "it pushes nothing; leave it out"},
      {"wire", "operations send float32; leave it out"},
      {"sync", "all workers take part in every operation; legal: bsp"}};
  for (const auto& [name, why] : kServers) {
    const Option& option = *find_option(name);
    if (is_usual(s, option)) continue;
    const std::string subject = "--" + option.name;
    return contradiction(subject, "{} {} contradicts --collective {}: {}", subject, option.text(s), to_string(*s.loop.loop), why);
  }
  return {};
}

Status check_saving(const JobSpec& s) {
  if (s.saving.directory.empty() && (s.saving.every > 0 || s.saving.resume)) {
    const char* option = s.saving.resume ? "--resume" : "--checkpoint-every";
    return contradiction(option, "{} needs a directory: give --checkpoint DIR", option);
  }
  if (s.saving.directory.empty() && !s.saving.key_file.empty())
    return contradiction("--checkpoint-key", "--checkpoint-key seals checkpoints, and there are none: give --checkpoint DIR");
  if (!s.saving.directory.empty() && s.sync.kind != SyncKind::kBsp) {
    return contradiction("--checkpoint",
                         "--checkpoint needs --sync bsp: with {} there is no moment when all values belong to the same iteration; "
                         "--export saves the final model",
                         to_text(s.sync.kind));
  }
  return {};
}

}  // namespace

Result<JobSpec> validated(JobSpec s) {
  PACELINE_RETURN_IF_ERROR(check_values(s));
  PACELINE_RETURN_IF_ERROR(tensor::validated(s.update.optimizer).status());
  PACELINE_RETURN_IF_ERROR(check_purposes(s));
  PACELINE_RETURN_IF_ERROR(check_mean(s));
  PACELINE_RETURN_IF_ERROR(check_told_rates(s));
  PACELINE_RETURN_IF_ERROR(schedule_of(s).status());
  PACELINE_RETURN_IF_ERROR(wire_of(s).status());
  PACELINE_RETURN_IF_ERROR(check_dropping(s));
  PACELINE_RETURN_IF_ERROR(check_sync(s));
  PACELINE_RETURN_IF_ERROR(check_loop(s));
  if (s.task.iterations > 0 && s.task.epochs > 0) {
    return contradiction("--iterations", "--iterations {} and --epochs {} exclude each other; give one", s.task.iterations,
                         s.task.epochs);
  }
  PACELINE_RETURN_IF_ERROR(check_saving(s));
  PACELINE_RETURN_IF_ERROR(check_convolutions(s));
  if (replay_file(s)) {
    PACELINE_RETURN_IF_ERROR(check_replay(s));
    s.task.dataset = kNoDataset;
    if (s.task.iterations == 0) s.task.iterations = kReplayIterations;
    return s;
  }
  if (s.task.iterations == 0 && s.task.epochs == 0) s.task.epochs = 1;
  return s;
}

std::optional<std::string> replay_file(const JobSpec& spec) {
  constexpr std::string_view kPrefix = "replay:";
  if (!spec.task.model.starts_with(kPrefix)) return std::nullopt;
  return spec.task.model.substr(kPrefix.size());
}

Result<scheduling::ScheduleOptions> schedule_of(const JobSpec& spec) {
  return spec.has_servers() ? schedule_of(spec.schedule) : schedule_of(spec.schedule, *spec.loop.loop);
}

Result<TrainingOptions> training_of(const JobSpec& spec) {
  PACELINE_CHECK(spec.loop.loop, "a job with servers has no loop");
  TrainingOptions options{.loop = *spec.loop.loop, .algorithm = spec.loop.algorithm, .broadcast_every = spec.loop.broadcast_every};
  if (spec.loop.block) {  // divided as a replay's messages are; a parameter at least
    const double parameters = static_cast<double>(spec.loop.block->count) / sizeof(float) / spec.task.scale;
    options.block = Bytes{std::max<std::int64_t>(std::llround(parameters), 1)} * std::int64_t{sizeof(float)};
  }
  if (spec.loop.link) options.link = *spec.loop.link;
  PACELINE_RETURN_IF_ERROR(validate(options));
  return options;
}

Result<WireOptions> wire_of(const JobSpec& spec) {
  WireOptions wire = spec.wire;
  if (is_dgc(spec)) {
    const tensor::OptimizerOptions& optimizer = spec.update.optimizer;
    wire.momentum = optimizer.kind == tensor::OptimizerKind::kSgd ? 0 : optimizer.momentum;
    wire.nesterov = optimizer.kind == tensor::OptimizerKind::kNesterov;
    wire.clip_norm = spec.update.clip_norm;
  }
  return validated(wire);
}

Result<ComputeSpeed> compute_speed(const JobSpec& spec, std::int32_t workers) {
  PACELINE_RETURN_IF_ERROR(check_speeds(spec.speed, workers));
  return ComputeSpeed{.by_rank = spec.speed, .jitter = spec.jitter, .seed = static_cast<std::uint64_t>(spec.task.seed)};
}

}  // namespace paceline::job
