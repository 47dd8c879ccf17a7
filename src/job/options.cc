// The table itself: the only place that knows which options a job has.
#include "job/option.h"
#include "job/option_rows.h"

namespace paceline::job {
namespace {

using enum Section;
using enum Agree;

Result<cost::LinkCost> parse_link_cost(std::string_view text) {
  cost::LinkCost link;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (double* value : {&link.alpha, &link.beta, &link.gamma}) {
    const auto [next, problem] = std::from_chars(at, end, *value);
    const bool last = value == &link.gamma;
    if (problem != std::errc() || !(*value >= 0) || *value > 1e300 || (last ? next != end : next == end || *next != ','))
      return error(ErrorKind::kBadRequest, "--link-cost '{}' is illegal; legal: three numbers, 0 and more, with commas", text);
    at = last ? next : next + 1;
  }
  return link;
}

std::string link_cost_text(const cost::LinkCost& link) { return fmt::format("{},{},{}", link.alpha, link.beta, link.gamma); }

// One option for two members: the codec and its share.
Option wire_row(Option row) {
  row.text = [](const JobSpec& job) { return job.wire.text(); };
  row.set = [](JobSpec& job, std::string_view text) -> Status {
    const auto wire = parse_wire(text);
    if (!wire.ok()) return wire.status().because({"illegal", "--wire"});
    job.wire.kind = wire->kind;
    job.wire.share = wire->share;
    return {};
  };
  return row;
}

// Text of what a to_string or to_text overload knows.
constexpr auto kName = [](const auto& value) { return to_string(value); };
constexpr auto kText = [](const auto& value) { return to_text(value); };

std::vector<Option> make_training() {
  return {
      text(
          {.name = "model",
           .section = kWhat,
           .agree = kResume,
           .sentence = "Network; 'paceline models' lists them. replay:FILE replays a table of layers: sleeps instead of computing, "
                       "real bytes",
           .legal = {.words = "a network's name or replay:FILE"}},
          [](auto& job) -> auto& { return job.task.model; }),
      text({.name = "dataset",
            .section = kWhat,
            .agree = kResume,
            .sentence = "Data set; 'paceline datasets' lists them",
            .legal = {.words = "a data set's name"}},
           [](auto& job) -> auto& { return job.task.dataset; }),
      value(
          {.name = "optimizer",
           .section = kWhat,
           .agree = kResume,
           .sentence = "How a step is made of a gradient",
           .choices = {"sgd", "momentum", "nesterov", "adam", "adamw"}},
          [](auto& job) -> auto& { return job.update.optimizer.kind; }, [](auto kind) { return tensor::name_of(kind); },
          tensor::parse_optimizer),
      value(
          {.name = "learning-rate",
           .section = kWhat,
           .agree = kResume,
           .sentence = "A number, or a schedule: step:0.1,every=100,factor=0.5 | cosine:0.1,total=1000 | "
                       "polynomial:0.1,total=1000,power=2; each with ,warmup=50",
           .legal = {.words = "a number or a schedule of step, cosine, polynomial"}},
          [](auto& job) -> auto& { return job.update.learning_rate; }, kText, tensor::parse_schedule),
      number({.name = "momentum",
              .section = kWhat,
              .agree = kResume,
              .sentence = "For momentum and nesterov",
              .legal = {.from = 0, .below = 1}},
             [](auto& job) -> auto& { return job.update.optimizer.momentum; }),
      number({.name = "weight-decay",
              .section = kWhat,
              .agree = kResume,
              .sentence = "Share of a parameter added to its gradient (adamw: taken off the parameter)",
              .legal = {.from = 0, .to = 1e15}},
             [](auto& job) -> auto& { return job.update.optimizer.weight_decay; }),
      number({.name = "adam-beta1",
              .section = kWhat,
              .agree = kResume,
              .sentence = "For adam and adamw: how much of the mean gradient so far stays",
              .legal = {.from = 0, .below = 1}},
             [](auto& job) -> auto& { return job.update.optimizer.beta1; }),
      number({.name = "adam-beta2",
              .section = kWhat,
              .agree = kResume,
              .sentence = "For adam and adamw: how much of the mean squared gradient so far stays",
              .legal = {.from = 0, .below = 1}},
             [](auto& job) -> auto& { return job.update.optimizer.beta2; }),
      number({.name = "adam-epsilon",
              .section = kWhat,
              .agree = kResume,
              .sentence = "For adam and adamw: added to the root of the mean squared gradient before dividing by it",
              .legal = {.from = 1e-38, .to = 1e38, .words = "1e-38 to 1e38"}},
             [](auto& job) -> auto& { return job.update.optimizer.epsilon; }),
      value(
          {.name = "parameter-groups",
           .section = kWhat,
           .agree = kResume,
           .sentence = "Parameters that are updated otherwise, by patterns of their names, the first that fits: "
                       "\"*.bias:decay=0;fc*:rate=0.1\" (decay: weight decay, rate: times the learning rate)",
           .legal = {.words = "PATTERN:rate=FACTOR,decay=DECAY, several with ; between"},
           .absent = ""},
          [](auto& job) -> auto& { return job.groups; }, kText, parse_groups, Refusals::kNameIt),
      number({.name = "clip-norm",
              .section = kWhat,
              .agree = kResume,
              .sentence = "Largest global norm of the mean gradient; 0: no clipping. Holds an iteration's updates until all its "
                          "gradients are there",
              .legal = {.from = 0, .to = 1e15, .words = "0 (no clipping) and more"}},
             [](auto& job) -> auto& { return job.update.clip_norm; }),
      number({.name = "mini-batch",
              .section = kWhat,
              .agree = kResume,
              .sentence = "Samples per worker and iteration",
              .legal = {.from = 1, .to = 1e9}},
             [](auto& job) -> auto& { return job.task.mini_batch; }),
      number({.name = "iterations",
              .section = kWhat,
              .sentence = "Iterations; or give --epochs",
              .legal = {.from = 1, .to = 1e15},
              .absent = "0"},
             [](auto& job) -> auto& { return job.task.iterations; }),
      number({.name = "epochs",
              .section = kWhat,
              .sentence = "Passes over the data (default 1)",
              .legal = {.from = 1, .to = 1e9},
              .absent = "0"},
             [](auto& job) -> auto& { return job.task.epochs; }),
      number({.name = "evaluate-every",
              .section = kWhat,
              .sentence = "Iterations between two evaluations on the test set; 0: only at the end",
              .legal = {.from = 0, .to = 1e15, .words = "0 (only at the end) and more"}},
             [](auto& job) -> auto& { return job.task.evaluate_every; }),
      flag({.name = "evaluate-late",
            .section = kWhat,
            .sentence = "Keep copies of the parameters and evaluate them when the training is over, so that evaluating disturbs "
                        "nobody's pace"},
           [](auto& job) -> auto& { return job.task.evaluate_late; }),
      number({.name = "seed",
              .section = kWhat,
              .agree = kResume,
              .sentence = "Of initial values, order of the data, dropout",
              .legal = {.from = 0, .to = 9e15, .words = "0 to 9000000000000000"}},
             [](auto& job) -> auto& { return job.task.seed; }),
  };
}

std::vector<Option> make_messages() {
  return {
      value(
          {.name = "schedule",
           .section = kHow,
           .sentence = "Which parts of a model travel when",
           .choices = scheduling::schedule_names()},
          [](auto& job) -> auto& { return job.schedule.name; }, [](const std::string& name) { return name; },
          [](std::string_view name) -> Result<std::string> {
            PACELINE_RETURN_IF_ERROR(scheduling::parse_schedule_name(name).status());
            return std::string(name);
          }),
      value(
          {.name = "slice",
           .section = kHow,
           .sentence = "Largest slice: parameters (50000), or bytes with a unit (200KB); for tuned, slicing and p3 (default: "
                       "chosen, 50000, 50000)",
           .legal = {.words = "1 and more parameters (50000), or bytes with a unit (200KB) that are whole parameters of 4"},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.slice; }, [](auto size) { return std::to_string(size); },
          [](std::string_view size) {
            return parse_parameters("--slice", size, 1,
                                    "1 and more parameters (50000), or bytes with a unit (200KB) that are whole parameters of 4");
          },
          Refusals::kNameIt),
      value(
          {.name = "merge",
           .section = kHow,
           .sentence = "Tensors that together have no more parameters (or bytes, with a unit) than this travel with their "
                       "neighbour; 0: none does (default: tuned: chosen; others: 0)",
           .legal = {.words = "0 (nothing is merged) and more parameters, or bytes with a unit that are whole parameters of 4"},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.merge; }, [](auto size) { return std::to_string(size); },
          [](std::string_view size) {
            return parse_parameters(
                "--merge", size, 0,
                "0 (nothing is merged) and more parameters, or bytes with a unit that are whole parameters of 4");
          },
          Refusals::kNameIt),
      value(
          {.name = "batching",
           .section = kHow,
           .sentence = "With --return pull-in-batches (ibatch's own): how batches are planned (default exact)",
           .choices = {"exact", "forward-greedy", "backward-greedy", "ibatch"},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.batching; }, kName, parse_batching, Refusals::kNameIt),
      value(
          {.name = "window",
           .section = kHow,
           .sentence = "Most bytes of a process that are on their way unacknowledged, so what an urgent layer waits for: auto (2ms "
                       "of the link's measured rate, 256KiB at least; to several processes at once up to six slices or 10ms), "
                       "auto:TIME, or a size of at least 128KiB",
           .legal = {.words = "auto, auto:TIME, or a size of at least 128KiB"}},
          [](auto& job) -> auto& { return job.schedule.window; }, kText, scheduling::parse_window, Refusals::kNameIt),
      value(
          {.name = "return",
           .section = kHow,
           .sentence = "How values come back (default: the schedule's own; tuned: as predicted to be fastest)",
           .choices = {"broadcast", "pull-at-once", "pull-by-layer", "pull-in-batches", "notify-and-pull"},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.back; }, kName, parse_return, Refusals::kNameIt),
      value(
          {.name = "push",
           .section = kHow,
           .sentence =
               "When gradients leave: at the end of backward, each as soon as it is ready, or, with --return pull-in-batches, in "
                         "batches, planned as pulls are, each one message to each server (default: the schedule's own)",
           .choices = {"at-end", "as-ready", "in-batches"},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.push; }, kName, parse_push, Refusals::kNameIt),
      value(
          {.name = "ordered-places",
           .section = kHow,
           .sentence = "Where urgency decides, to see what each place is worth: all, none, or some of worker-egress, "
                       "server-ingress, server-egress, window with commas between",
           .legal = {.words = "all, none, or a list of worker-egress, server-ingress, server-egress, window"}},
          [](auto& job) -> auto& { return job.schedule.places; }, kText, scheduling::parse_places, Refusals::kNameIt),
      wire_row({.name = "wire",
                .section = kHow,
                .agree = kResume,
                .sentence =
                    "What gradients and values are sent as: float32, or half the bytes as bfloat16 or float16: rounded to "
                    "nearest, summed in float32, while the servers keep float32 values; or dropping:SHARE: of each gradient only "
                    "the share of its elements that is largest, the rest is added to later ones; or dgc:SHARE: the same of the "
                    "momentum (deep gradient compression)",
                .legal = {.words = "float32, bfloat16, float16, dropping:SHARE, dgc:SHARE"}}),
      number({.name = "loss-scale",
              .section = kHow,
              .agree = kResume,
              .sentence = "bfloat16, float16: what gradients are multiplied by before they are rounded, so that small ones are not "
                          "lost; their sum is divided by it. A power of two, 1 to 16777216",
              .legal = {.from = 1, .to = kLargestLossScale, .words = "a power of two from 1 to 16777216"}},
             [](auto& job) -> auto& { return job.wire.loss_scale; }),
      number({.name = "dgc-warm-up",
              .section = kHow,
              .agree = kResume,
              .sentence = "dgc: iterations in which the share that is sent falls from a quarter to SHARE; 0: none",
              .legal = {.from = 0, .to = 1e15}},
             [](auto& job) -> auto& { return job.wire.warm_up; }),
  };
}

std::vector<Option> make_cooperation() {
  return {
      value(
          {.name = "sync",
           .section = kHow,
           .agree = kResume,
           .sentence = "Whom a worker waits for",
           .choices = {"bsp", "asp", "ssp", "elastic-bsp"}},
          [](auto& job) -> auto& { return job.sync.kind; }, kText, sync::parse_sync_kind),
      value(
          {.name = "collective",
           .section = kHow,
           .sentence = "Train without servers: loop1 (the last rank updates; reduces under backward, broadcasts under forward), "
                       "loop2 (the same after backward), loop3 (allreduce, every rank updates) or loop3-overlap (under backward)",
           .choices = {"none", "loop1", "loop2", "loop3", "loop3-overlap"},
           .nothing = "none"},
          [](auto& job) -> auto& { return job.loop.loop; }, kName, parse_loop),
      value(
          {.name = "algorithm",
           .section = kHow,
           .sentence = "Of the collective operations; with more than 2 workers ring, mst and be sum in another order than the "
                       "reference",
           .choices = {"best", "lp", "ring", "direct", "mst", "be"},
           .nothing = "best"},
          [](auto& job) -> auto& { return job.loop.algorithm; }, kName, parse_algorithm),
      number(
          {.name = "broadcast-every",
           .section = kHow,
           .sentence = "loop3: iterations between two broadcasts of all weights; 0: never, for sums in a fixed order do not drift",
           .legal = {.from = 0, .to = 1e15, .words = "0 (never) and more"}},
          [](auto& job) -> auto& { return job.loop.broadcast_every; }),
      value(
          {.name = "link-cost",
           .sentence = "Seconds of a message, of a byte and of adding a byte, for which operations are chosen",
           .legal = {.words = "ALPHA,BETA,GAMMA"},
           .absent = ""},
          [](auto& job) -> auto& { return job.loop.link; }, link_cost_text, parse_link_cost, Refusals::kNameIt),
      value(
          {.name = "convolutions",
           .agree = kResume,
           .sentence = "Algorithm of each convolution",
           .legal = {.words = "LAYER=ALGORITHM, several with commas between"}},
          [](auto& job) -> auto& { return job.task.convolutions; }, kText,
          [](std::string_view choice) { return model::parse_convolutions(std::string(choice)); }),
      number({.name = "staleness",
              .section = kHow,
              .agree = kResume,
              .sentence = "ssp: iterations a worker may be ahead",
              .legal = {.from = 0, .to = sync::kMaxStaleness}},
             [](auto& job) -> auto& { return job.sync.staleness; }),
      number({.name = "lookahead",
              .section = kHow,
              .agree = kResume,
              .sentence = "elastic-bsp: iterations a barrier may lie ahead",
              .legal = {.from = 1, .to = sync::kMaxLookahead}},
             [](auto& job) -> auto& { return job.sync.lookahead; }),
      value(
          {.name = "objective",
           .section = kHow,
           .sentence = "elastic-bsp: what a barrier's place minimises: waiting-share (of the workers' time until then) or span "
                       "(between the first and the last arrival)",
           .choices = {"waiting-share", "span"}},
          [](auto& job) -> auto& { return job.sync.objective; }, kText, sync::parse_objective),
      number(
          {.name = "history",
           .section = kHow,
           .sentence = "elastic-bsp: a worker's next iterations are predicted from the median of its last so many; so many are bsp "
                       "first",
           .legal = {.from = 1, .to = sync::kMaxHistory}},
          [](auto& job) -> auto& { return job.sync.history; }),
      value(
          {.name = "gradient-scale",
           .section = kHow,
           .agree = kResume,
           .sentence = "What a gradient is multiplied by: mean (1 / workers), full (1), or model: mean where gradients are summed "
                       "over the workers, full where each is applied on its own",
           .choices = {"model", "mean", "full"}},
          [](auto& job) -> auto& { return job.sync.scale; }, kText, sync::parse_gradient_scale),
      value(
          {.name = "non-finite",
           .section = kHow,
           .sentence =
               "A gradient that is not finite: stop (the job, naming it), skip (the iteration, on all; holds updates, which "
               "costs overlap) or apply",
           .choices = {"stop", "skip", "apply"}},
          [](auto& job) -> auto& { return job.update.non_finite; }, kName, parse_non_finite_policy),
  };
}

std::vector<Option> make_surroundings() {
  return {
      text({.name = "checkpoint",
            .section = kFiles,
            .sentence = "Directory for checkpoints",
            .legal = {.words = "a directory"},
            .absent = ""},
           [](auto& job) -> auto& { return job.saving.directory; }),
      number({.name = "checkpoint-every",
              .section = kFiles,
              .sentence = "Iterations between two checkpoints; 0: only at the end",
              .legal = {.from = 0, .to = 1e15, .words = "0 (only at the end) and more"}},
             [](auto& job) -> auto& { return job.saving.every; }),
      flag({.name = "resume",
            .section = kFiles,
            .sentence = "Go on from the newest good checkpoint; another number of servers is allowed"},
           [](auto& job) -> auto& { return job.saving.resume; }),
      text({.name = "resume-from",
            .sentence = "The checkpoint that the coordinator found",
            .legal = {.words = "a directory"},
            .absent = ""},
           [](auto& job) -> auto& { return job.saving.from; }),
      number({.name = "resume-iteration", .sentence = "Its iteration", .legal = {.from = 0, .to = 1e15}},
             [](auto& job) -> auto& { return job.saving.iteration; }),
      text({.name = "export",
            .section = kFiles,
            .sentence = "The final model to this file, in the safetensors format",
            .legal = {.words = "a file"},
            .absent = ""},
           [](auto& job) -> auto& { return job.saving.export_file; }),
      number({.name = "deadline",
              .type = OptionType::kTime,
              .section = kLimits,
              .sentence = "Silence after which a process counts as lost",
              .legal = {.from = 0.2, .to = 86'400, .words = "200ms to 86400s, a day"}},
             [](auto& job) -> auto& { return job.limits.deadline; }),
      number({.name = "stall-deadline",
              .type = OptionType::kTime,
              .section = kLimits,
              .sentence = "Longest wait without progress while everybody is alive",
              .legal = {.from = 1, .to = 1e9, .words = "1s and more"}},
             [](auto& job) -> auto& { return job.limits.stall_deadline; }),
      flag({.name = "metrics", .sentence = "Workers tell the coordinator about every iteration"},
           [](auto& job) -> auto& { return job.watching.metrics; }),
      flag({.name = "pace", .sentence = "The pacing server tells the coordinator of every iteration and superstep"},
           [](auto& job) -> auto& { return job.watching.pace; }),
      flag({.name = "trace", .sentence = "Every process records a timeline"},
           [](auto& job) -> auto& { return job.watching.trace; }),
      number({.name = "scale",
              .section = kWhat,
              .sentence = "replay: divides the parameters, and the sizes of slices, so that a slow link stands for a fast one",
              .legal = {.from = 1, .to = 1e9}},
             [](auto& job) -> auto& { return job.task.scale; }),
      value(
          {.name = "speed",
           .section = kWhat,
           .sentence = "Made-up speed of each worker, share of the machine's: 1,1,0.5,0.25 (default: 1 each)",
           .legal = {.words = "0.001 to 1, one number for each worker, separated by commas"},
           .absent = ""},
          [](auto& job) -> auto& { return job.speed; },
          [](const std::vector<double>& speeds) { return fmt::format("{}", fmt::join(speeds, ",")); },
          [](std::string_view speeds) { return parse_speeds(std::string(speeds)); }, Refusals::kNameIt),
      number({.name = "jitter",
              .section = kWhat,
              .sentence = "Standard deviation of the time that an iteration's computing takes, as a share of it, 0 to 1",
              .legal = {.from = 0, .to = 1}},
             [](auto& job) -> auto& { return job.jitter; }),
  };
}

std::vector<Option> make_all() {
  std::vector<Option> all;
  for (auto make : {make_training, make_messages, make_cooperation, make_surroundings}) {
    for (Option& option : make()) all.push_back(std::move(option));
  }
  return all;
}

}  // namespace

std::span<const Option> options() {
  static const std::vector<Option> all = make_all();
  return all;
}

}  // namespace paceline::job
