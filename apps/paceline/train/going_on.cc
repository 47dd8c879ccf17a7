#include "paceline/train/going_on.h"

#include <filesystem>

#include "base/wrong.h"
#include "checkpoint/checkpoint_keeper.h"
#include "job/going_on.h"
#include "job/option.h"

namespace paceline::cli {
namespace {

// In the directory as it was typed, from which a job goes on.
Result<checkpoint::FoundCheckpoint> newest_of(const job::Saving& saving) {
  PACELINE_ASSIGN_OR_RETURN(const auto seal, checkpoint::CheckpointSeal::from_file(saving.key_file));
  const std::string directory = std::filesystem::absolute(saving.directory).lexically_normal().string();
  return checkpoint::newest_manifest(system_files(), directory, seal);
}

}  // namespace

Result<std::optional<EarlierJob>> EarlierJob::find(const TrainRequest& typed, Given given) {
  const job::Saving& saving = typed.settings.saving;
  const bool asks = saving.resume && !saving.directory.empty() && !typed.reference && typed.role != "server";
  if (!asks) return std::optional<EarlierJob>();
  PACELINE_ASSIGN_OR_RETURN(auto found, newest_of(saving));
  auto spec = job::from_saved(found.manifest.settings);
  if (!spec.ok()) return wrong("--resume: {}: {}", found.folder, spec.status().message()).because({"other-job", ""});
  if (spec->task.dataset == "(own)")  // whose data no name stands for
    return wrong("--resume: {} is of a program's own model; start that program with its options and --resume", found.folder)
        .because({"other-job", ""});
  return std::optional(EarlierJob(std::move(found), std::move(*spec), std::move(given)));
}

bool EarlierJob::said(std::string_view option, const TrainRequest& request) const {
  if (option == "servers") return (request.servers_given && request.servers > 0) || request.role == "both";
  return given_(fmt::format("--{}", option));
}

void EarlierJob::fill(TrainRequest& request) const {
  request.settings = with_saved(request.settings, spec_, [&](std::string_view option) { return said(option, request); });
  if (!request.join.empty()) return;  // the coordinator says how many there are
  // Machines that are named have nothing to add to these numbers then.
  const bool on_hosts = !request.hosts.names.empty();
  if (!request.workers_given) {
    request.workers = found_.manifest.workers;
    request.workers_given = on_hosts;
  }
  if (!request.servers_given && request.role != "both" && found_.manifest.servers > 0 && request.settings.has_servers()) {
    request.servers = found_.manifest.servers;
    request.servers_given = on_hosts;
  }
}

Status EarlierJob::check(const TrainRequest& request) const {
  const bool knows_workers = request.join.empty() || request.workers_given;
  return is_same_job(found_, request.settings, knows_workers ? std::optional(request.workers) : std::nullopt);
}

void EarlierJob::tell(const TrainRequest& request) const {
  if (request.ranks_elsewhere && !request.join.empty()) return;  // rank 0 says it
  std::string taken, left;
  if (request.join.empty()) {
    if (!given_("--workers") && !request.ranks_elsewhere && request.workers > 1)
      taken += fmt::format(" --workers {}", request.workers);
    const bool as_many = !given_("--servers") && request.role != "both" && request.servers == found_.manifest.servers;
    if (as_many && request.servers > 1) taken += fmt::format(" --servers {}", request.servers);
  }
  taken += taken_text(request.settings, spec_, [&](std::string_view option) { return said(option, request); });
  const job::Saving &saving = spec_.saving, &here = request.settings.saving;
  if (!saving.export_file.empty() && here.export_file.empty()) left += fmt::format(" --export {}", saving.export_file);
  if (!saving.key_file.empty() && here.key_file.empty()) left += fmt::format(" --checkpoint-key {}", saving.key_file);
  if (taken.empty() && left.empty()) return;
  say(stderr, fmt::format("paceline: from {}:{}{}{}\n", found_.folder, taken.empty() ? " nothing" : taken,
                          left.empty() ? "" : "; not", left));
}

std::string way_on(const job::JobSpec& job) {
  if (job.saving.directory.empty()) return "";
  const auto found = newest_of(job.saving);
  return found.ok() ? ". " + checkpoint::way_on(job, found->folder) : "";
}

}  // namespace paceline::cli
