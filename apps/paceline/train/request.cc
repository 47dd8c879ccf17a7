#include "paceline/train/request.h"

#include <algorithm>
#include <filesystem>
#include <ranges>

#include <fmt/ranges.h>

#include "base/text.h"
#include "base/wrong.h"
#include "model/description.h"
#include "paceline/beside.h"
#include "paceline/data_files.h"
#include "paceline/help_text.h"
#include "paceline/option_files.h"
#include "paceline/train/data_check.h"
#include "paceline/train/job_files.h"
#include "paceline/train/job_options.h"
#include "paceline/train/one_process.h"
#include "paceline/train/roles.h"
#include "paceline/within.h"
#include "transport/transport.h"

namespace paceline::cli {
namespace {

constexpr std::int64_t kMostAhead = 64;  // mini-batches, and threads that read them

Status check_count(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return error(ErrorKind::kBadRequest, "--{} is {}; legal: {} to {}", name, value, least, most)
      .because({"illegal", fmt::format("--{}", name)});
}

// What of the command line contradicts training without servers. The settings' own check has been.
Status check_servers(TrainRequest& r) {
  if (!r.program.empty()) return check_count("servers", r.servers, 0, kMostProcesses);
  if (r.settings.has_servers()) {
    if (r.servers == 0)
      return error(ErrorKind::kBadRequest, "--servers 0: training without servers is --collective loop3-overlap; or give 1 to {}",
                   kMostProcesses);
    return check_count("servers", r.servers, 1, kMostProcesses);
  }
  const char* loop = to_string(*r.settings.loop.loop);
  if (r.servers_given && r.servers != 0) {
    return error(ErrorKind::kBadRequest, "--servers {} contradicts --collective {}, which trains without servers; leave it out",
                 r.servers, loop);
  }
  if (r.role != "worker") {
    return error(ErrorKind::kBadRequest, "--role {} contradicts --collective {}, which trains without servers; leave it out",
                 r.role, loop);
  }
  if (r.reference) {
    return error(ErrorKind::kBadRequest, "--reference trains alone, whatever --collective {} would do; leave it out", loop);
  }
  r.servers = 0;
  return {};
}

Status check_role(const TrainRequest& r) {
  const std::vector<std::string> roles = {"worker", "server", "both"};
  if (std::ranges::find(roles, r.role) == roles.end()) {
    return error(ErrorKind::kBadRequest, "--role knows no '{}'{}; legal: {}", r.role, suggestion(r.role, roles),
                 fmt::join(roles, ", "))
        .because({"unknown", "--role"});
  }
  if (r.role == "server" && r.join.empty())
    return error(ErrorKind::kBadRequest, "--role server needs a job to take part in; give --join HOST:PORT")
        .because({"missing", "--join"});
  if (r.role == "worker" && r.role_given && r.join.empty() && !r.ranks_elsewhere) {
    return error(ErrorKind::kBadRequest,
                 "--role worker needs a job to take part in; give --join HOST:PORT, or leave --role out: a whole job starts its "
                 "workers")
        .because({"missing", "--join"});
  }
  if (r.role != "both") return {};
  if (r.reference) return error(ErrorKind::kBadRequest, "--reference has no servers; leave --role both out");
  if (r.join.empty() && r.servers_given && r.servers != r.workers) {
    return error(ErrorKind::kBadRequest,
                 "--servers {} with --role both: each of the {} processes is a worker and a server; leave --servers out", r.servers,
                 r.workers);
  }
  return {};
}

// One worker on each, and where there are servers one of them too, unless it is said otherwise.
Status check_hosts(TrainRequest& r) {
  const HostOptions& hosts = r.hosts;
  PACELINE_RETURN_IF_ERROR(check_named_hosts(hosts));
  if (hosts.names.empty())
    return hosts.pass.empty() ? Status() : error(ErrorKind::kBadRequest, "--pass is for --hosts; give it, or leave --pass out");
  if (!r.join.empty())
    return error(ErrorKind::kBadRequest, "--hosts starts a whole job, and --join takes part in one; leave one out");
  if (r.reference) return error(ErrorKind::kBadRequest, "--reference trains alone, in one process here; leave --hosts out");
  if (r.ranks_elsewhere)
    return error(ErrorKind::kBadRequest,
                 "--hosts starts a process for each rank, and a launcher has started this one; leave one out");
  if (const bool file = r.bind.starts_with("unix:"); file || transport::is_wildcard(r.bind))
    return error(ErrorKind::kBadRequest, "--bind {} {}, which --hosts cannot reach; give this machine's address", r.bind,
                 file ? "is a file of this machine" : "names no host");
  if (!r.workers_given) r.workers = static_cast<std::int32_t>(hosts.names.size());
  if (!r.servers_given && r.settings.has_servers()) r.servers = static_cast<std::int32_t>(hosts.names.size());
  if (!r.bind.empty()) return {};
  PACELINE_ASSIGN_OR_RETURN(r.bind, meeting_address(hosts));
  return {};
}

Status check_security(TrainRequest& r) {
  if (r.reference) return transport::parse_security(r.security.security).status();
  std::vector<transport::Address> places;
  if (!r.join.empty()) {
    const auto address = transport::parse_address(r.join);
    if (!address.ok()) return at(fmt::format("--join {}", r.join), address.status());
    places.push_back(*address);
  }
  const auto own = transport::own_place(r.bind, places.empty() ? transport::Address() : places.front());
  if (!own.ok()) return at(fmt::format("--bind {}", r.bind), own.status());
  places.insert(places.begin(), *own);
  r.bind = own->host;
  const bool all_here = r.join.empty() && !r.ranks_elsewhere;
  PACELINE_ASSIGN_OR_RETURN(r.key, choose_key(r.security, places, all_here ? MissingKey::kMakeOwn : MissingKey::kRefuse));
  return {};
}

// Of a job whose processes are all here, the coordinator among them: a table that comes along by its file.
void name_table(TrainRequest& r) {
  const auto file = job::replay_file(r.settings);
  if (file && r.join.empty() && r.hosts.names.empty()) r.settings.task.model = "replay:" + file_or_layer_table(*file);
}

Status check_model(const TrainRequest& r) {
  const job::JobSpec& settings = r.settings;
  if (job::replay_file(settings)) return replay_table(settings).status();
  if (settings.update.optimizer.kind == tensor::OptimizerKind::kMean && r.program.empty()) {
    return error(ErrorKind::kBadRequest,
                 "--optimizer mean leaves the steps to a program with an optimizer of its own, and the trainer has none; give "
                 "--model replay:FILE, or {}",
                 tensor::optimizers_with(&tensor::OptimizerTraits::steps));
  }
  if (settings.update.told_rates && r.program.empty())
    return error(ErrorKind::kBadRequest, "--told-rates is for programs that tell rates, and the trainer tells none");
  PACELINE_RETURN_IF_ERROR(model::describe(settings.task.model).status());
  PACELINE_RETURN_IF_ERROR(check_data_set_name(settings.task.dataset));
  const bool opens = r.hosts.names.empty() && r.role != "server";  // servers read no data
  return opens ? check_data_at_hand(settings.task.dataset) : Status();
}

void add_loading_options(CLI::App& how, TrainRequest& r) {
  within(how.add_option("--prefetch", r.prefetch, "Mini-batches read ahead; 0: none. No bit changes"), 0, kMostAhead)
      ->capture_default_str()
      ->group(kForExperts);
  const char* threads = "That read ahead; 'paceline profile --steps' says how many it takes";
  within(how.add_option("--loader-threads", r.loader_threads, threads), 1, kMostAhead)->capture_default_str()->group(kForExperts);
}

}  // namespace

const char* const kTraceHelp =
    "Timeline of all workers and servers on one clock, to this file, for 'paceline timeline' and Perfetto: forward, backward and "
    "gates of each layer, each unit's way to its server and back. The newest iterations, when there is no room for all";

void add_train_options(CLI::App& command, TrainRequest& r) {
  const auto group = [&](const char* name) { return command.add_option_group(name); };

  add_job_options(*group("What to train"), r.settings, job::Section::kWhat);
  CLI::App* how = group("How to synchronise");
  within(how->add_option("--workers", r.workers, "Worker processes; with --join it must agree with the coordinator's number"), 1,
         kMostProcesses)
      ->capture_default_str()
      ->each([&r](const std::string&) { r.workers_given = true; });
  within(how->add_option("--servers", r.servers, "Server processes"), 0, kMostProcesses)
      ->capture_default_str()
      ->each([&r](const std::string&) { r.servers_given = true; });
  add_job_options(*how, r.settings, job::Section::kHow);
  how->add_option("--convolutions", r.convolutions_file,
                  "Algorithm of each convolution: a JSON file {\"convolutions\": {LAYER: default, onednn, gemm, winograd or fft}}; "
                  "layers that it does not name run the default")
      ->check(not_empty)
      ->option_text("FILE")
      ->group(kForExperts);
  how->add_option("--plan", r.plan_file,
                  "What 'paceline plan job --output FILE' wrote: model, mini-batch, workers, servers, convolutions, reading ahead "
                  "and, if it was given one, the data set. Options of this command line win; another --model is refused")
      ->check(not_empty)
      ->option_text("FILE")
      ->group(kForExperts);
  add_loading_options(*how, r);
  how->add_flag("--reference", r.reference,
                "Train in one process with --workers virtual workers and no network: the yardstick, bit for bit");

  add_job_options(*group("Files"), r.settings, job::Section::kFiles);

  CLI::App* where = group("Where");
  where->add_option("--join", r.join, "HOST:PORT or unix:/PATH of a coordinator: take part in a job that was started elsewhere")
      ->check(not_empty)
      ->type_name("ADDRESS");
  where
      ->add_option(
          "--role", r.role,
          "With --join: worker, server or both (a worker and a server in one process, which share one window). Without: both "
          "makes every worker's process a server too")
      ->capture_default_str()
      ->type_name("WORD")
      ->each([&r](const std::string&) { r.role_given = true; });
  within(where->add_option("--rank", r.rank, "With --join: this process's rank; -1: the coordinator chooses"), -1,
         kMostProcesses - 1)
      ->capture_default_str()
      ->group(kForExperts);
  where
      ->add_option("--bind", r.bind,
                   "Host to listen on, or unix:/PATH; a host that is not the loopback needs a key (--job-key-file)")
      ->default_str("127.0.0.1")
      ->type_name("HOST");

  add_host_options(*where, r.hosts);

  add_limit_options(command, r);
}

void add_limit_options(CLI::App& command, TrainRequest& r) {
  add_security_options(*command.add_option_group("Security"), r.security);
  add_job_options(*command.add_option_group("Limits"), r.settings, job::Section::kLimits);

  command.add_flag("--json", r.json, "One JSON document on standard output, nothing else there");
  command.add_flag("--verbose", r.verbose, kVerboseHelp)->group(kForExperts);
  command.add_flag("--progress", r.progress, "Show progress even when standard error is no terminal")->group(kForExperts);
  command.add_option("--metrics", r.metrics_file, "One JSON object per line and iteration to this file")
      ->check(not_empty)
      ->type_name("FILE");
  command
      .add_option("--pace", r.pace_file,
                  "When each worker's iterations began and ended, and where barriers were, as the pacing server saw it: one JSON "
                  "object per line to this file")
      ->check(not_empty)
      ->type_name("FILE")
      ->group(kForExperts);
  command.add_option("--trace", r.trace_file, kTraceHelp)->check(not_empty)->type_name("FILE");
}

namespace {

Result<TrainRequest> checked(TrainRequest r) {
  if (!r.convolutions_file.empty()) {
    auto choice = read_convolutions(r.convolutions_file, r.settings.task.model);
    if (!choice.ok()) return choice.status().because({"format", "--convolutions"});
    r.settings.task.convolutions = std::move(*choice);
  }
  PACELINE_ASSIGN_OR_RETURN(r.settings, job::validated(r.settings));
  PACELINE_RETURN_IF_ERROR(check_hosts(r));
  PACELINE_RETURN_IF_ERROR(check_count("workers", r.workers, 1, kMostProcesses));
  PACELINE_RETURN_IF_ERROR(check_count("prefetch", r.prefetch, 0, kMostAhead));
  PACELINE_RETURN_IF_ERROR(check_count("loader-threads", r.loader_threads, 1, kMostAhead));
  name_table(r);
  PACELINE_RETURN_IF_ERROR(check_model(r));
  if (r.join.empty() || r.workers_given) PACELINE_RETURN_IF_ERROR(job::compute_speed(r.settings, r.workers).status());
  PACELINE_RETURN_IF_ERROR(check_role(r));
  PACELINE_RETURN_IF_ERROR(check_servers(r));
  if (r.role == "both") r.servers = r.workers;
  if (r.join.empty() && r.rank >= 0)
    return error(ErrorKind::kBadRequest, "--rank {} is that of a process that joins a job; give --join HOST:PORT, or leave it out",
                 r.rank);
  PACELINE_RETURN_IF_ERROR(check_security(r));
  PACELINE_RETURN_IF_ERROR(check_one_process(r));
  const NamedFiles written = {{"--metrics", r.metrics_file},
                              {"--pace", r.pace_file},
                              {"--trace", r.trace_file},
                              {"--export", r.settings.saving.export_file}};
  PACELINE_RETURN_IF_ERROR(check_output_names(written, {{"--job-key-file", r.security.key_file},
                                                        {"--checkpoint-key", r.settings.saving.key_file},
                                                        {"--convolutions", r.convolutions_file},
                                                        {"--plan", r.plan_file},
                                                        {"--config", r.config_file},
                                                        {"--model", job::replay_file(r.settings).value_or("")}}));
  PACELINE_RETURN_IF_ERROR(check_no_data(r.settings.task.dataset, written, "--dataset"));
  if (r.join.empty()) PACELINE_RETURN_IF_ERROR(check_output("--trace", r.trace_file));
  PACELINE_RETURN_IF_ERROR(check_output("--export", r.settings.saving.export_file));
  for (std::string* path : {&r.settings.saving.export_file, &r.settings.saving.directory})
    if (!path->empty()) *path = std::filesystem::absolute(*path).lexically_normal().string();
  r.settings.watching.metrics = !r.metrics_file.empty();
  // Supersteps stand in the metrics, too.
  r.settings.watching.pace =
      !r.pace_file.empty() || (!r.metrics_file.empty() && r.settings.sync.kind == sync::SyncKind::kElasticBsp);
  return r;
}

}  // namespace

Result<TrainRequest> validated(TrainRequest request) {
  auto good = checked(std::move(request));
  if (good.ok() || good.status().kind() != ErrorKind::kBadRequest) return good;
  return good.status().because({"contradiction", ""});  // what nobody nearer had a word for is about options together
}

std::int32_t ranks_beside(const TrainRequest& request, std::int32_t rank) {
  if (request.hosts.names.empty()) return request.workers;
  const auto host = [&](std::int32_t one) { return host_of(request.hosts, static_cast<std::size_t>(one)); };
  return static_cast<std::int32_t>(std::ranges::count(std::views::iota(0, request.workers), host(rank), host));
}

}  // namespace paceline::cli
