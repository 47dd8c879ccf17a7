#include "runtime/job_settings.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/text.h"
#include "model/convolution_algorithm.h"
#include "runtime/json_text.h"
#include "scheduling/schedule.h"
#include "sync/sync_options.h"
#include "tensor/learning_rate.h"
#include "tensor/optimizer.h"

namespace paceline::runtime {
namespace {

constexpr const char* kNoDataset = "none";
constexpr std::int64_t kReplayIterations = 10;
constexpr std::int64_t kEverything = std::int64_t{1} << 40;  // more parameters than any model has

// The one list of settings: calls visit(name, member) for each, in the fixed order.
template <typename Settings, typename Visit>
void for_each_setting(Settings& s, Visit visit) {
  visit("model", s.model);
  visit("dataset", s.dataset);
  visit("optimizer", s.optimizer);
  visit("learning-rate", s.learning_rate);
  visit("momentum", s.momentum);
  visit("weight-decay", s.weight_decay);
  visit("clip-norm", s.clip_norm);
  visit("mini-batch", s.mini_batch);
  visit("iterations", s.iterations);
  visit("epochs", s.epochs);
  visit("evaluate-every", s.evaluate_every);
  visit("evaluate-late", s.evaluate_late);
  visit("seed", s.seed);
  visit("schedule", s.schedule);
  visit("slice", s.slice);
  visit("merge", s.merge);
  visit("batching", s.batching);
  visit("window", s.window);
  visit("return", s.back);
  visit("push", s.push);
  visit("ordered-places", s.ordered_places);
  visit("wire", s.wire);
  visit("loss-scale", s.loss_scale);
  visit("dgc-warm-up", s.dgc_warm_up);
  visit("sync", s.sync);
  visit("collective", s.collective);
  visit("algorithm", s.algorithm);
  visit("broadcast-every", s.broadcast_every);
  visit("link-cost", s.link_cost);
  visit("convolutions", s.convolutions);
  visit("staleness", s.staleness);
  visit("lookahead", s.lookahead);
  visit("objective", s.objective);
  visit("history", s.history);
  visit("gradient-scale", s.gradient_scale);
  visit("non-finite", s.non_finite);
  visit("checkpoint", s.checkpoint);
  visit("checkpoint-every", s.checkpoint_every);
  visit("resume", s.resume);
  visit("resume-from", s.resume_from);
  visit("resume-iteration", s.resume_iteration);
  visit("export", s.export_file);
  visit("deadline", s.deadline);
  visit("stall-deadline", s.stall_deadline);
  visit("metrics", s.metrics);
  visit("pace", s.pace);
  visit("trace", s.trace);
  visit("scale", s.scale);
  visit("speed", s.speed);
  visit("jitter", s.jitter);
}

bool read(const std::string& text, std::string& to) {
  to = text;
  return true;
}

template <typename Number>
bool read(const std::string& text, Number& to) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), to);
  return problem == std::errc() && end == text.data() + text.size();
}

Status in_range(const char* name, double value, double least, double most, const char* legal) {
  if (std::isfinite(value) && value >= least && value <= most) return {};
  return error(ErrorKind::kBadRequest, "--{} is {}; legal: {}", name, value, legal);
}

// The refusal of somebody who does not know which option the value came from.
Status of_option(const char* name, const Status& status) {
  if (status.ok() || status.message().find(fmt::format("--{} ", name)) != std::string::npos) return status;
  return error(status.kind(), "--{}: {}", name, status.message());
}

// Settings, reports and checkpoints are JSON.
Status check_text(const JobSettings& settings) {
  Status status;
  for_each_setting(settings, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
      if (!is_utf8(value))
        status = error(ErrorKind::kBadRequest, "--{} holds bytes that are no UTF-8 text; rename what it names", name);
    }
  });
  return status;
}

// The choice in its canonical form, so that workers with equal choices have equal settings.
Result<std::string> validated_convolutions(const JobSettings& settings) {
  if (settings.convolutions.empty()) return std::string();
  const auto description = model::describe(settings.model);
  if (!description.ok()) {
    return error(ErrorKind::kBadRequest,
                 "--convolutions is for the networks that 'paceline models' lists, not for '{}': another module runs what its own "
                 "forward calls",
                 settings.model);
  }
  const auto choice = model::parse_convolutions(settings.convolutions);
  PACELINE_RETURN_IF_ERROR(of_option("convolutions", choice.status()));
  PACELINE_RETURN_IF_ERROR(of_option("convolutions", check_convolutions(*choice, *description)));
  return model::to_text(*choice);
}

// The values of a replay are checked against what they must be, so only what can be foretold is legal; and there are no samples.
Status check_replay(const JobSettings& s) {
  const auto refused = [](const std::string& option, const char* why) {
    return error(ErrorKind::kBadRequest, "{} is illegal with --model replay: {}", option, why);
  };
  if (s.epochs > 0) return refused(fmt::format("--epochs {}", s.epochs), "there are no data to pass over; give --iterations");
  if (s.evaluate_every > 0) return refused(fmt::format("--evaluate-every {}", s.evaluate_every), "there is nothing to evaluate");
  if (!s.export_file.empty()) return refused("--export", "its parameters are no model");
  if (s.clip_norm > 0) return refused(fmt::format("--clip-norm {}", s.clip_norm), "its gradients are made up");
  if (s.dataset != kNoDataset && s.dataset != JobSettings().dataset)
    return refused(fmt::format("--dataset {}", s.dataset), "it reads no data; leave --dataset out");
  PACELINE_ASSIGN_OR_RETURN(const paramserver::WireOptions wire, wire_options(s));
  if (wire.drops())
    return refused(fmt::format("--wire {}", s.wire), "its gradients are made up, and what is kept back cannot be foretold");
  if (s.sync == "bsp") return {};
  if (s.wire != JobSettings().wire)
    return refused(fmt::format("--wire {} with --sync {}", s.wire, s.sync), "what comes back rounded is checked for --sync bsp");
  PACELINE_ASSIGN_OR_RETURN(const tensor::Schedule rate, tensor::parse_schedule(s.learning_rate));
  const bool foreseeable =
      s.optimizer == "sgd" && s.weight_decay == 0 && rate.kind == tensor::Schedule::Kind::kConstant && rate.warmup == 0;
  if (foreseeable) return {};
  return error(
      ErrorKind::kBadRequest,
      "--sync {} with --model replay is checked for --optimizer sgd without --weight-decay and with a constant --learning-rate; "
      "the order of the updates decides about all others",
      s.sync);
}

bool is_dgc(const JobSettings& settings) { return settings.wire.starts_with("dgc:"); }

// What is legal with gradients of which workers keep a part back.
Status check_dropping(const JobSettings& s) {
  PACELINE_ASSIGN_OR_RETURN(const paramserver::WireOptions wire, wire_options(s));
  if (!wire.drops()) return {};
  if (s.non_finite == "skip") {
    return error(ErrorKind::kBadRequest,
                 "--non-finite skip contradicts --wire {}: what workers had kept back until then would be lost; legal: stop, apply",
                 s.wire);
  }
  if (!s.checkpoint.empty()) {
    return error(
        ErrorKind::kBadRequest,
        "--checkpoint contradicts --wire {}: what workers keep back would be in no checkpoint; legal: float32, bfloat16, float16",
        s.wire);
  }
  if (!is_dgc(s)) return {};
  if (s.optimizer != "sgd" && s.optimizer != "momentum" && s.optimizer != "nesterov") {
    return error(ErrorKind::kBadRequest,
                 "--optimizer {} contradicts --wire {}, which corrects momentum; legal: sgd, momentum, nesterov", s.optimizer,
                 s.wire);
  }
  if (s.weight_decay > 0) {
    return error(
        ErrorKind::kBadRequest,
        "--weight-decay {} contradicts --wire {}: servers, who know the parameters, would add it behind the momentum; legal: 0",
        s.weight_decay, s.wire);
  }
  return {};
}

// What the settings say of synchronisation. Errors name the option.
Status check_sync(const JobSettings& s) {
  PACELINE_RETURN_IF_ERROR(of_option("sync", sync::parse_sync_kind(s.sync).status()));
  PACELINE_RETURN_IF_ERROR(of_option("staleness", sync::validated({.staleness = s.staleness}).status()));
  PACELINE_RETURN_IF_ERROR(of_option("lookahead", sync::validated({.lookahead = s.lookahead}).status()));
  PACELINE_RETURN_IF_ERROR(of_option("history", sync::validated({.history = s.history}).status()));
  PACELINE_RETURN_IF_ERROR(of_option("objective", sync::parse_objective(s.objective).status()));
  PACELINE_RETURN_IF_ERROR(of_option("gradient-scale", sync::parse_gradient_scale(s.gradient_scale).status()));
  const std::string shared = s.clip_norm > 0          ? fmt::format("--clip-norm {}", s.clip_norm)
                             : s.non_finite == "skip" ? "--non-finite skip"
                                                      : "";
  if (s.sync != "bsp" && !shared.empty()) {
    return error(ErrorKind::kBadRequest, "--sync {} has no iteration that all workers share, so {} is illegal; use --sync bsp",
                 s.sync, shared);
  }
  if (s.sync == "bsp" && s.gradient_scale == "full") {
    return error(
        ErrorKind::kBadRequest,
        "--gradient-scale full is for asp, ssp and elastic-bsp; --sync bsp applies the mean of the workers' gradients: give "
        "a larger --learning-rate instead");
  }
  return {};
}

Result<cost::LinkCost> parse_link_cost(const std::string& text) {
  cost::LinkCost link;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (double* value : {&link.alpha, &link.beta, &link.gamma}) {
    const auto [next, problem] = std::from_chars(at, end, *value);
    const bool last = value == &link.gamma;
    if (problem != std::errc() || !(*value >= 0) || std::isinf(*value) || (last ? next != end : next == end || *next != ','))
      return error(ErrorKind::kBadRequest, "--link-cost '{}' is illegal; legal: three numbers, 0 and more, with commas", text);
    at = last ? next : next + 1;
  }
  return link;
}

// With collective operations there are no servers, whose part the schedule and the synchronisation model are.
Status check_collective(const JobSettings& s) {
  const JobSettings usual;
  if (s.collective == kNoCollective) {
    if (s.algorithm != usual.algorithm)
      return error(ErrorKind::kBadRequest, "--algorithm {} is for --collective loop1, loop2, loop3 or loop3-overlap", s.algorithm);
    if (s.broadcast_every != 0)
      return error(ErrorKind::kBadRequest, "--broadcast-every {} is for --collective loop3 or loop3-overlap", s.broadcast_every);
    return {};
  }
  PACELINE_RETURN_IF_ERROR(training_options(s).status());
  const auto contradiction = [&](const char* option, const std::string& value, const char* why) {
    return error(ErrorKind::kBadRequest, "--{} {} contradicts --collective {}: {}", option, value, s.collective, why);
  };
  if (s.schedule != usual.schedule)
    return contradiction("schedule", s.schedule, "schedules are for servers; leave it out (--merge is legal)");
  if (!s.slice.empty()) return contradiction("slice", s.slice, "operations cut their messages by themselves; leave it out");
  if (!s.batching.empty()) return contradiction("batching", s.batching, "it pulls nothing; leave it out");
  if (s.back != usual.back) return contradiction("return", s.back, "no server returns values; leave it out");
  if (!s.push.empty()) return contradiction("push", s.push, "it pushes nothing; leave it out");
  if (s.wire != usual.wire) return contradiction("wire", s.wire, "operations send float32; leave it out");
  if (s.sync != usual.sync) return contradiction("sync", s.sync, "all workers take part in every operation; legal: bsp");
  return {};
}

}  // namespace

Result<paramserver::WireOptions> wire_options(const JobSettings& settings) {
  PACELINE_ASSIGN_OR_RETURN(paramserver::WireOptions options, paramserver::parse_wire(settings.wire));
  options.loss_scale = settings.loss_scale;
  options.warm_up = settings.dgc_warm_up;
  if (is_dgc(settings)) {
    options.momentum = settings.optimizer == "sgd" ? 0 : settings.momentum;
    options.nesterov = settings.optimizer == "nesterov";
    options.clip_norm = settings.clip_norm;
  }
  return paramserver::validated(options);
}

Result<sync::SyncOptions> sync_options(const JobSettings& settings) {
  sync::SyncOptions options;
  PACELINE_ASSIGN_OR_RETURN(options.kind, sync::parse_sync_kind(settings.sync));
  PACELINE_ASSIGN_OR_RETURN(options.objective, sync::parse_objective(settings.objective));
  PACELINE_ASSIGN_OR_RETURN(options.scale, sync::parse_gradient_scale(settings.gradient_scale));
  options.staleness = settings.staleness;
  options.lookahead = settings.lookahead;
  options.history = settings.history;
  return sync::validated(options);
}

Result<collectives::TrainingOptions> training_options(const JobSettings& settings) {
  collectives::TrainingOptions options;
  const auto loop = collectives::parse_loop(settings.collective);
  PACELINE_RETURN_IF_ERROR(of_option("collective", loop.status()));
  const auto algorithm = collectives::parse_algorithm(settings.algorithm);
  PACELINE_RETURN_IF_ERROR(of_option("algorithm", algorithm.status()));
  options.loop = *loop;
  options.algorithm = *algorithm;
  options.broadcast_every = settings.broadcast_every;
  if (!settings.link_cost.empty()) {
    PACELINE_ASSIGN_OR_RETURN(options.link, parse_link_cost(settings.link_cost));
  }
  PACELINE_RETURN_IF_ERROR(collectives::validate(options));
  return options;
}

std::string link_cost_text(const cost::LinkCost& link) { return fmt::format("{},{},{}", link.alpha, link.beta, link.gamma); }

Result<scheduling::ScheduleOptions> schedule_options(const JobSettings& settings) {
  if (settings.collective != kNoCollective) {
    scheduling::ScheduleOptions buckets = scheduling::layer_wise();
    buckets.cut = scheduling::whole_tensors();
    // What leaves together after backward had best be one message.
    const auto loop = collectives::parse_loop(settings.collective);
    if (loop.ok() && !collectives::overlaps(*loop)) buckets.cut.merge = kEverything;
    return scheduling::with_parts(settings.collective, buckets,
                                  {.merge = settings.merge, .window = settings.window, .places = settings.ordered_places});
  }
  PACELINE_ASSIGN_OR_RETURN(const scheduling::ScheduleOptions named, scheduling::parse_schedule_name(settings.schedule));
  return scheduling::with_parts(settings.schedule, named,
                                {.slice = settings.slice,
                                 .merge = settings.merge,
                                 .batching = settings.batching,
                                 .window = settings.window,
                                 .places = settings.ordered_places,
                                 .back = settings.back,
                                 .push = settings.push});
}

std::optional<std::string> replay_file(const JobSettings& settings) {
  constexpr std::string_view kPrefix = "replay:";
  if (settings.model.rfind(kPrefix, 0) != 0) return std::nullopt;
  return settings.model.substr(kPrefix.size());
}

Result<ComputeSpeed> compute_speed(const JobSettings& settings, std::int32_t workers) {
  ComputeSpeed speed;
  PACELINE_ASSIGN_OR_RETURN(speed.by_rank, parse_speeds(settings.speed));
  PACELINE_RETURN_IF_ERROR(check_speeds(speed.by_rank, workers));
  speed.jitter = settings.jitter;
  speed.seed = static_cast<std::uint64_t>(settings.seed);
  return speed;
}

Result<tensor::OptimizerOptions> optimizer_options(const JobSettings& settings) {
  tensor::OptimizerOptions options;
  PACELINE_ASSIGN_OR_RETURN(options.kind, tensor::parse_optimizer(settings.optimizer));
  options.momentum = settings.momentum;
  options.weight_decay = settings.weight_decay;
  return tensor::validated(options);
}

Result<tensor::OptimizerOptions> server_optimizer(const JobSettings& settings) {
  PACELINE_ASSIGN_OR_RETURN(tensor::OptimizerOptions options, optimizer_options(settings));
  if (is_dgc(settings)) options.kind = tensor::OptimizerKind::kSgd;
  return options;
}

double server_clip_norm(const JobSettings& settings) { return is_dgc(settings) ? 0 : settings.clip_norm; }

Result<JobSettings> validated(JobSettings s) {
  constexpr double kMost = 1e15;
  PACELINE_RETURN_IF_ERROR(check_text(s));
  PACELINE_RETURN_IF_ERROR(of_option("learning-rate", tensor::parse_schedule(s.learning_rate).status()));
  PACELINE_RETURN_IF_ERROR(of_option("optimizer", tensor::parse_optimizer(s.optimizer).status()));
  PACELINE_RETURN_IF_ERROR(in_range("momentum", s.momentum, 0, std::nextafter(1.0, 0.0), "0 up to below 1"));
  PACELINE_RETURN_IF_ERROR(in_range("weight-decay", s.weight_decay, 0, kMost, "0 and more"));
  PACELINE_RETURN_IF_ERROR(optimizer_options(s).status());
  PACELINE_RETURN_IF_ERROR(in_range("clip-norm", s.clip_norm, 0, kMost, "0 (no clipping) and more"));
  PACELINE_RETURN_IF_ERROR(in_range("mini-batch", static_cast<double>(s.mini_batch), 1, 1e9, "1 to 1000000000"));
  PACELINE_RETURN_IF_ERROR(in_range("iterations", static_cast<double>(s.iterations), 0, kMost, "1 and more"));
  PACELINE_RETURN_IF_ERROR(in_range("epochs", static_cast<double>(s.epochs), 0, 1e9, "1 to 1000000000"));
  PACELINE_RETURN_IF_ERROR(
      in_range("evaluate-every", static_cast<double>(s.evaluate_every), 0, kMost, "0 (only at the end) and more"));
  PACELINE_RETURN_IF_ERROR(in_range("seed", static_cast<double>(s.seed), 0, 9e15, "0 to 9000000000000000"));
  PACELINE_RETURN_IF_ERROR(of_option("schedule", scheduling::parse_schedule_name(s.schedule).status()));
  PACELINE_RETURN_IF_ERROR(schedule_options(s).status());
  PACELINE_RETURN_IF_ERROR(check_dropping(s));
  PACELINE_RETURN_IF_ERROR(check_sync(s));
  PACELINE_RETURN_IF_ERROR(in_range("broadcast-every", static_cast<double>(s.broadcast_every), 0, kMost, "0 (never) and more"));
  PACELINE_RETURN_IF_ERROR(check_collective(s));
  PACELINE_RETURN_IF_ERROR(of_option("non-finite", paramserver::parse_non_finite_policy(s.non_finite).status()));
  PACELINE_RETURN_IF_ERROR(
      in_range("checkpoint-every", static_cast<double>(s.checkpoint_every), 0, kMost, "0 (only at the end) and more"));
  PACELINE_RETURN_IF_ERROR(in_range("resume", static_cast<double>(s.resume), 0, 1, "0 or 1"));
  PACELINE_RETURN_IF_ERROR(in_range("resume-iteration", static_cast<double>(s.resume_iteration), 0, kMost, "0 and more"));
  PACELINE_RETURN_IF_ERROR(in_range("metrics", static_cast<double>(s.metrics), 0, 1, "0 or 1"));
  PACELINE_RETURN_IF_ERROR(in_range("pace", static_cast<double>(s.pace), 0, 1, "0 or 1"));
  PACELINE_RETURN_IF_ERROR(in_range("trace", static_cast<double>(s.trace), 0, 1, "0 or 1"));
  PACELINE_RETURN_IF_ERROR(in_range("evaluate-late", static_cast<double>(s.evaluate_late), 0, 1, "0 or 1"));
  PACELINE_RETURN_IF_ERROR(in_range("deadline", s.deadline, 0.2, 86'400, "200ms to 86400s, a day"));
  PACELINE_RETURN_IF_ERROR(in_range("stall-deadline", s.stall_deadline, 1, 1e9, "1s and more"));
  PACELINE_RETURN_IF_ERROR(parse_speeds(s.speed).status());
  PACELINE_RETURN_IF_ERROR(in_range("jitter", s.jitter, 0, 1, "0 to 1"));
  PACELINE_RETURN_IF_ERROR(in_range("scale", s.scale, 1, 1e9, "1 to 1000000000"));
  if (s.iterations > 0 && s.epochs > 0)
    return error(ErrorKind::kBadRequest, "--iterations {} and --epochs {} exclude each other; give one", s.iterations, s.epochs);
  if (s.checkpoint.empty() && (s.checkpoint_every > 0 || s.resume != 0)) {
    return error(ErrorKind::kBadRequest, "--{} needs a directory: give --checkpoint DIR",
                 s.resume != 0 ? "resume" : "checkpoint-every");
  }
  if (!s.checkpoint.empty() && s.sync != "bsp") {
    return error(ErrorKind::kBadRequest,
                 "--checkpoint needs --sync bsp: with {} there is no moment when all values belong to the same iteration; --export "
                 "saves the final model",
                 s.sync);
  }
  PACELINE_ASSIGN_OR_RETURN(s.convolutions, validated_convolutions(s));
  if (replay_file(s)) {
    PACELINE_RETURN_IF_ERROR(check_replay(s));
    s.dataset = kNoDataset;
    if (s.iterations == 0) s.iterations = kReplayIterations;
    return s;
  }
  if (s.scale != 1)
    return error(ErrorKind::kBadRequest, "--scale {} is for --model replay:FILE; a network has the size it has", s.scale);
  if (s.iterations == 0 && s.epochs == 0) s.epochs = 1;
  return s;
}

wire::Settings to_settings(const JobSettings& settings) {
  wire::Settings pairs;
  for_each_setting(settings, [&](const char* name, const auto& value) { pairs.emplace_back(name, fmt::format("{}", value)); });
  return pairs;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  const JobSettings settings;
  for_each_setting(settings, [&](const char* name, const auto&) { names.emplace_back(name); });
  return names;
}

Result<JobSettings> from_settings(const wire::Settings& pairs) {
  JobSettings settings;
  for (const auto& [name, text] : pairs) {
    bool known = false, read_well = false;
    for_each_setting(settings, [&, &wanted = name, &value = text](const char* candidate, auto& member) {
      if (wanted != candidate) return;
      known = true;
      read_well = read(value, member);
    });
    if (!known) return error(ErrorKind::kBadRequest, "there is no option --{}{}", name, suggestion(name, setting_names()));
    if (!read_well) return error(ErrorKind::kBadRequest, "--{} cannot be '{}'", name, text);
  }
  return settings;
}

Result<std::shared_ptr<const paramserver::JobPlan>> make_job_plan(const JobSettings& settings, const wire::TensorTable& table,
                                                                  std::int32_t workers, std::int32_t servers, Iteration first) {
  paramserver::JobOptions options;
  options.workers = workers;
  options.servers = settings.collective == kNoCollective ? servers : 1;
  options.first = first;
  PACELINE_ASSIGN_OR_RETURN(options.schedule, schedule_options(settings));
  options.schedule.cut = scheduling::scaled(options.schedule.cut, settings.scale);
  PACELINE_ASSIGN_OR_RETURN(options.sync, sync_options(settings));
  PACELINE_ASSIGN_OR_RETURN(options.update.optimizer, server_optimizer(settings));
  PACELINE_ASSIGN_OR_RETURN(options.update.learning_rate, tensor::parse_schedule(settings.learning_rate));
  PACELINE_ASSIGN_OR_RETURN(options.wire, wire_options(settings));
  options.update.clip_norm = server_clip_norm(settings);
  PACELINE_ASSIGN_OR_RETURN(options.update.non_finite, paramserver::parse_non_finite_policy(settings.non_finite));
  return paramserver::JobPlan::make(table, options);
}

}  // namespace paceline::runtime
