#include "paceline/train/request.h"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "base/text.h"
#include "model/description.h"
#include "paceline/option_files.h"
#include "paceline/train/job_files.h"
#include "paceline/train/roles.h"
#include "trainer/data/open.h"
#include "transport/transport.h"

namespace paceline::cli {
namespace {

// 0 stands for "not given" in the settings, so it has to be refused where it is given. Everything else is left to the settings' own
// check.
std::string at_least_one(const std::string& text) {
  return !text.empty() && text.find_first_not_of("+-0") == std::string::npos ? fmt::format("'{}'; legal: 1 and more", text)
                                                                             : std::string();
}

Status check_count(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return error(ErrorKind::kBadRequest, "--{} is {}; legal: {} to {}", name, value, least, most);
}

// What of the command line contradicts training without servers. The settings' own check has been.
Status check_servers(TrainRequest& r) {
  if (r.settings.collective == runtime::kNoCollective) return check_count("servers", r.servers, 1, 100'000);
  if (r.servers_given && r.servers != 0) {
    return error(ErrorKind::kBadRequest, "--servers {} contradicts --collective {}, which trains without servers; leave it out",
                 r.servers, r.settings.collective);
  }
  if (r.role != "worker") {
    return error(ErrorKind::kBadRequest, "--role {} contradicts --collective {}, which trains without servers; leave it out",
                 r.role, r.settings.collective);
  }
  if (r.reference) {
    return error(ErrorKind::kBadRequest, "--reference trains alone, whatever --collective {} would do; leave it out",
                 r.settings.collective);
  }
  r.servers = 0;
  return {};
}

Status check_role(const TrainRequest& r) {
  const std::vector<std::string> roles = {"worker", "server", "both"};
  if (std::ranges::find(roles, r.role) == roles.end()) {
    return error(ErrorKind::kBadRequest, "--role knows no '{}'{}; legal: {}", r.role, suggestion(r.role, roles),
                 fmt::join(roles, ", "));
  }
  if (r.role == "server" && r.join.empty())
    return error(ErrorKind::kBadRequest, "--role server needs a job to take part in; give --join HOST:PORT");
  if (r.role != "both") return {};
  if (r.reference) return error(ErrorKind::kBadRequest, "--reference has no servers; leave --role both out");
  if (r.join.empty() && r.servers_given && r.servers != r.workers) {
    return error(ErrorKind::kBadRequest,
                 "--servers {} with --role both: each of the {} processes is a worker and a server; leave --servers out", r.servers,
                 r.workers);
  }
  return {};
}

Status check_model(const runtime::JobSettings& settings) {
  if (runtime::replay_file(settings)) return replay_table(settings).status();
  PACELINE_RETURN_IF_ERROR(model::describe(settings.model).status());
  return check_data_set_name(settings.dataset);
}

}  // namespace

Status check_data_set_name(const std::string& spec) {
  const std::string name = spec.substr(0, spec.find(':'));
  std::vector<std::string> names;
  for (const trainer::data::Kind& kind : trainer::data::kinds()) {
    if (kind.name == name) return {};
    names.push_back(kind.name);
  }
  return error(ErrorKind::kBadRequest, "--dataset knows no '{}'{}; 'paceline datasets' lists them", name, suggestion(name, names));
}

const char* const kTraceHelp =
    "Timeline of all workers and servers on one clock, to this file, in Chrome's trace format (open it in Perfetto): forward, "
    "backward and gates of each layer, each unit's way to its server and back. The newest iterations, when there is no room for "
    "all";

void add_duration(CLI::App& command, const char* name, double& seconds_value, const char* help) {
  command.add_option_function<std::string>(
      name,
      [&seconds_value, name](const std::string& text) {
        const auto duration = parse_duration(text);
        if (!duration.ok()) throw CLI::ValidationError(name, duration.status().message());
        seconds_value = seconds(*duration);
      },
      help);
}

void add_train_options(CLI::App& command, TrainRequest& r) {
  runtime::JobSettings& s = r.settings;
  const auto group = [&](const char* name) { return command.add_option_group(name); };

  CLI::App* what = group("What to train");
  what->add_option(
          "--model", s.model,
          "Network; 'paceline models' lists them. replay:FILE replays a table of layers: sleeps instead of computing, real bytes")
      ->capture_default_str();
  what->add_option("--dataset", s.dataset, "Data set; 'paceline datasets' lists them")->capture_default_str();
  what->add_option("--scale", s.scale,
                   "replay: divides the parameters, and the sizes of slices, so that a slow link stands for a fast one")
      ->capture_default_str();
  what->add_option("--optimizer", s.optimizer, "sgd, momentum, nesterov, adam or adamw")->capture_default_str();
  what->add_option("--learning-rate", s.learning_rate,
                   "A number, or a schedule: step:0.1,every=100,factor=0.5 | cosine:0.1,total=1000 | "
                   "polynomial:0.1,total=1000,power=2; each with ,warmup=50")
      ->capture_default_str();
  what->add_option("--momentum", s.momentum, "For momentum and nesterov, 0 up to below 1")->capture_default_str();
  what->add_option("--weight-decay", s.weight_decay, "Share of a parameter added to its gradient (adamw: taken off the parameter)")
      ->capture_default_str();
  what->add_option("--clip-norm", s.clip_norm,
                   "Largest global norm of the mean gradient; 0: no clipping. Holds an iteration's updates until all its gradients "
                   "are there")
      ->capture_default_str();
  what->add_option("--mini-batch", s.mini_batch, "Samples per worker and iteration")->capture_default_str();
  what->add_option("--iterations", s.iterations, "Iterations; or give --epochs")->check(at_least_one);
  what->add_option("--epochs", s.epochs, "Passes over the data (default 1)")->check(at_least_one);
  what->add_option("--evaluate-every", s.evaluate_every, "Iterations between two evaluations on the test set; 0: only at the end")
      ->capture_default_str();
  what->add_flag_callback(
      "--evaluate-late", [&s] { s.evaluate_late = 1; },
      "Keep copies of the parameters and evaluate them when the training is over, so that evaluating disturbs nobody's pace");
  what->add_option("--seed", s.seed, "Of initial values, order of the data, dropout")->capture_default_str();

  what->add_option("--speed", s.speed, "Made-up speed of each worker, share of the machine's: 1,1,0.5,0.25 (default: 1 each)");
  what->add_option("--jitter", s.jitter,
                   "Standard deviation of the time that an iteration's computing takes, as a share of it, 0 to 1")
      ->capture_default_str();

  CLI::App* how = group("How to synchronise");
  how->add_option("--workers", r.workers, "Worker processes; with --join it must agree with the coordinator's number")
      ->capture_default_str()
      ->each([&r](const std::string&) { r.workers_given = true; });
  how->add_option("--servers", r.servers, "Server processes")->capture_default_str()->each([&r](const std::string&) {
    r.servers_given = true;
  });
  how->add_option("--schedule", s.schedule, "tuned, default, layer-wise, ibatch, kvstore, slicing or p3")->capture_default_str();
  how->add_option("--slice", s.slice,
                  "Largest slice: parameters (50000), or bytes with a unit (200KB); for tuned, slicing and p3 (default: "
                  "chosen, 50000, 50000)");
  how->add_option("--merge", s.merge,
                  "Tensors that together have no more parameters (or bytes, with a unit) than this travel with their neighbour; 0: "
                  "none does (default: tuned: chosen; others: 0)");
  how->add_option(
      "--batching", s.batching,
      "With --return pull-in-batches (ibatch's own): how batches are planned: exact, forward-greedy, backward-greedy or "
      "ibatch (default exact)");
  how->add_option(
      "--push", s.push,
      "When gradients leave: at-end of backward, as-ready, each by itself, or, with --return pull-in-batches, in-batches, planned "
      "as pulls are, each batch one message to each server (default: the schedule's own)");
  how->add_option(
         "--window", s.window,
         "Most bytes of a process that are on their way unacknowledged, so what an urgent layer waits for: auto (2ms of the "
         "link's measured rate, 256KiB at least; to several processes at once up to six slices or 10ms), auto:TIME, or a size of "
         "at least 128KiB")
      ->capture_default_str();
  how->add_option("--return", s.back,
                  "How values come back: broadcast, pull-at-once, pull-by-layer, pull-in-batches or notify-and-pull (default: the "
                  "schedule's own; tuned: as predicted to be fastest)");
  how->add_option("--ordered-places", s.ordered_places,
                  "Where urgency decides, to see what each place is worth: all, none, or some of worker-egress, server-ingress, "
                  "server-egress, window with commas between")
      ->capture_default_str();
  how->add_option(
         "--wire", s.wire,
         "What gradients and values are sent as: float32, or half the bytes as bfloat16 or float16: rounded to nearest, "
         "summed in float32, while the servers keep float32 values; or dropping:SHARE: of each gradient only the share of its "
         "elements that is largest, the rest is added to later ones; or dgc:SHARE: the same of the momentum (deep gradient "
         "compression)")
      ->capture_default_str();
  how->add_option("--dgc-warm-up", s.dgc_warm_up,
                  "dgc: iterations in which the share that is sent falls from a quarter to SHARE; 0: none")
      ->capture_default_str();
  how->add_option("--loss-scale", s.loss_scale,
                  "bfloat16, float16: what gradients are multiplied by before they are rounded, so that small ones are not lost; "
                  "their sum is divided by it. A power of two, 1 to 16777216")
      ->capture_default_str();
  how->add_option("--sync", s.sync, "bsp, asp, ssp or elastic-bsp")->capture_default_str();
  how->add_option("--collective", s.collective,
                  "Train without servers: loop1 (the last rank updates; reduces under backward, broadcasts under forward), loop2 "
                  "(the same after backward), loop3 (allreduce, every rank updates) or loop3-overlap (under backward)")
      ->capture_default_str();
  how->add_option(
         "--algorithm", s.algorithm,
         "Of the collective operations: best, lp, ring, direct, mst or be; with more than 2 workers ring, mst and be sum in "
         "another order than the reference")
      ->capture_default_str();
  how->add_option("--broadcast-every", s.broadcast_every,
                  "loop3: iterations between two broadcasts of all weights; 0: never, for sums in a fixed order do not drift")
      ->capture_default_str();
  how->add_option("--convolutions", r.convolutions_file,
                  "Algorithm of each convolution: a JSON file {\"convolutions\": {LAYER: default, onednn, gemm, winograd or fft}}; "
                  "layers that it does not name run the default")
      ->check(not_empty)
      ->option_text("FILE");
  how->add_option("--plan", r.plan_file,
                  "What 'paceline plan job --output FILE' wrote: model, mini-batch, workers, servers and convolutions, where no "
                  "option of this command line says otherwise")
      ->check(not_empty)
      ->option_text("FILE");
  how->add_option("--prefetch", r.prefetch, "Mini-batches read ahead; 0: each is loaded when it is needed")->capture_default_str();
  how->add_option("--loader-threads", r.loader_threads, "That read ahead; 'paceline profile --steps' says how many it takes")
      ->capture_default_str();
  how->add_option("--staleness", s.staleness, "ssp: iterations a worker may be ahead")->capture_default_str();
  how->add_option("--lookahead", s.lookahead, "elastic-bsp: iterations a barrier may lie ahead")->capture_default_str();
  how->add_option("--objective", s.objective,
                  "elastic-bsp: what a barrier's place minimises: waiting-share (of the workers' time until then) or span (between "
                  "the first and the last arrival)")
      ->capture_default_str();
  how->add_option(
         "--history", s.history,
         "elastic-bsp: a worker's next iterations are predicted from the median of its last so many; so many are bsp first")
      ->capture_default_str();
  how->add_option(
         "--gradient-scale", s.gradient_scale,
         "What a gradient is multiplied by: mean (1 / workers), full (1), or model: mean where gradients are summed over the "
         "workers, full where each is applied on its own")
      ->capture_default_str();
  how->add_option("--non-finite", s.non_finite,
                  "A gradient that is not finite: stop (the job, naming it), skip (the iteration, on all; holds updates, which "
                  "costs overlap) or apply")
      ->capture_default_str();
  how->add_flag("--reference", r.reference,
                "Train in one process with --workers virtual workers and no network: the yardstick, bit for bit");

  CLI::App* files = group("Files");
  files->add_option("--checkpoint", s.checkpoint, "Directory for checkpoints")->check(not_empty);
  files->add_option("--checkpoint-every", s.checkpoint_every, "Iterations between two checkpoints; 0: only at the end")
      ->capture_default_str();
  files->add_option("--export", s.export_file, "The final model to this file, in the safetensors format")->check(not_empty);
  files->add_flag_callback(
      "--resume", [&s] { s.resume = 1; }, "Go on from the newest good checkpoint; another number of servers is allowed");

  CLI::App* where = group("Where");
  where->add_option("--join", r.join, "HOST:PORT of a coordinator: take part in a job that was started elsewhere")
      ->check(not_empty);
  where
      ->add_option(
          "--role", r.role,
          "With --join: worker, server or both (a worker and a server in one process, which share one window). Without: both "
          "makes every worker's process a server too")
      ->capture_default_str();
  where->add_option("--rank", r.rank, "With --join: this process's rank; -1: the coordinator chooses")->capture_default_str();
  where
      ->add_option("--bind", r.bind,
                   "Address to listen on; other than loopback only in a closed network, for there is no authentication")
      ->capture_default_str();

  add_limit_options(command, r);
}

void add_limit_options(CLI::App& command, TrainRequest& r) {
  CLI::App* limits = command.add_option_group("Limits");
  add_duration(*limits, "--deadline", r.settings.deadline, "Silence after which a process counts as lost (default 10s)");
  add_duration(*limits, "--stall-deadline", r.settings.stall_deadline,
               "Longest wait without progress while everybody is alive (default 10min)");

  command.add_flag("--json", r.json, "One JSON document on standard output, nothing else there");
  command.add_flag("--progress", r.progress, "Show progress even when standard error is no terminal");
  command.add_option("--metrics", r.metrics_file, "One JSON object per line and iteration to this file")->check(not_empty);
  command
      .add_option("--pace", r.pace_file,
                  "When each worker's iterations began and ended, and where barriers were, as the pacing server saw it: one JSON "
                  "object per line to this file")
      ->check(not_empty);
  command.add_option("--trace", r.trace_file, kTraceHelp)->check(not_empty);
}

Result<TrainRequest> validated(TrainRequest r) {
  if (!r.convolutions_file.empty()) {
    PACELINE_ASSIGN_OR_RETURN(r.settings.convolutions, read_convolutions(r.convolutions_file, r.settings.model));
  }
  PACELINE_ASSIGN_OR_RETURN(r.settings, runtime::validated(r.settings));
  PACELINE_RETURN_IF_ERROR(check_count("workers", r.workers, 1, 100'000));
  PACELINE_RETURN_IF_ERROR(check_count("prefetch", r.prefetch, 0, 64));
  PACELINE_RETURN_IF_ERROR(check_count("loader-threads", r.loader_threads, 1, 64));
  PACELINE_RETURN_IF_ERROR(check_model(r.settings));
  if (r.join.empty() || r.workers_given) PACELINE_RETURN_IF_ERROR(runtime::compute_speed(r.settings, r.workers).status());
  PACELINE_RETURN_IF_ERROR(check_role(r));
  PACELINE_RETURN_IF_ERROR(check_servers(r));
  if (r.role == "both") r.servers = r.workers;
  PACELINE_RETURN_IF_ERROR(check_count("rank", r.rank, -1, 99'999));
  if (r.join.empty() && r.rank >= 0)
    return error(ErrorKind::kBadRequest, "--rank {} is that of a process that joins a job; give --join HOST:PORT, or leave it out",
                 r.rank);
  if (!r.join.empty()) {
    if (const auto address = transport::parse_address(r.join); !address.ok()) {
      return error(ErrorKind::kBadRequest, "--join {}: {}", r.join, address.status().message());
    }
  }
  if (r.reference && !r.join.empty()) return error(ErrorKind::kBadRequest, "--reference trains alone; it cannot --join {}", r.join);
  if (r.reference && r.settings.sync != "bsp") {
    return error(ErrorKind::kBadRequest, "--reference computes --sync bsp; {} has no result that can be repeated", r.settings.sync);
  }
  if (r.reference && !r.pace_file.empty())
    return error(ErrorKind::kBadRequest, "--reference has no server that could see the workers' pace; leave --pace out");
  if (r.reference && !r.trace_file.empty())
    return error(ErrorKind::kBadRequest, "--reference is one process without a network; leave --trace out");
  if (!r.join.empty() && !r.ranks_elsewhere && !r.trace_file.empty()) {
    return error(ErrorKind::kBadRequest,
                 "--trace {} with --join: the coordinator writes the timeline of all processes; give it to 'paceline coordinator'",
                 r.trace_file);
  }
  if (r.reference && (r.settings.resume != 0 || !r.settings.checkpoint.empty())) {
    return error(ErrorKind::kBadRequest, "--reference writes and reads no checkpoints; leave --checkpoint and --resume out");
  }
  PACELINE_RETURN_IF_ERROR(check_output("--export", r.settings.export_file));
  if (!r.settings.export_file.empty())
    r.settings.export_file = std::filesystem::absolute(r.settings.export_file).lexically_normal().string();
  if (!r.settings.checkpoint.empty())
    r.settings.checkpoint = std::filesystem::absolute(r.settings.checkpoint).lexically_normal().string();
  r.settings.metrics = r.metrics_file.empty() ? 0 : 1;
  // Supersteps stand in the metrics, too.
  r.settings.pace = !r.pace_file.empty() || (!r.metrics_file.empty() && r.settings.sync == "elastic-bsp") ? 1 : 0;
  return r;
}

}  // namespace paceline::cli
