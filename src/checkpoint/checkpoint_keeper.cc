#include "checkpoint/checkpoint_keeper.h"

#include <ranges>
#include <utility>

#include "base/new_file.h"
#include "job/make_plan.h"

namespace paceline::checkpoint {
namespace {

// The choice of collective operations is made once for a job, and kept when it goes on.
void keep_choices(const job::JobSpec& saved, job::JobSpec& spec) {
  if (spec.has_servers() || saved.loop.loop != spec.loop.loop || saved.loop.algorithm != spec.loop.algorithm) return;
  spec.loop.link = saved.loop.link;
  if (!spec.schedule.merge) spec.schedule.merge = saved.schedule.merge;
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(Files& files, Options options) : files_(files), options_(std::move(options)) {
  PACELINE_CHECK(options_.keep >= 1, "{} checkpoints to keep", options_.keep);
}

Status CheckpointKeeper::begin(job::JobSpec& spec, const wire::TensorTable& table) {
  // Only the coordinator decides where to resume; a member that brings an answer is overruled.
  spec.saving.from.clear();
  spec.saving.iteration = 0;
  spec.saving.manifest.clear();
  spec.loop.link.reset();
  job_ = spec;
  if (job_.saving.directory.empty()) return {};
  PACELINE_ASSIGN_OR_RETURN(seal_, CheckpointSeal::from_file(job_.saving.key_file));
  const Status made = job_.saving.resume ? Status() : files_.make_directories(job_.saving.directory);
  if (!made.ok()) return error(ErrorKind::kBadRequest, "--checkpoint: {}; give a folder that can be made", made.message());
  PACELINE_RETURN_IF_ERROR(lock_directory());
  if (const Status writes = can_write(files_, job_.saving.directory + "/.writable"); !writes.ok())
    return error(ErrorKind::kBadRequest, "--checkpoint {}: {}; give a folder that can be written", job_.saving.directory,
                 writes.message());
  if (job_.saving.resume) {
    PACELINE_RETURN_IF_ERROR(resume(spec, table));
  } else {
    PACELINE_ASSIGN_OR_RETURN(const auto all, list_checkpoints(files_, job_.saving.directory));
    for (const auto& [iteration, complete] : all | std::views::reverse) {
      if (!complete) continue;
      return error(
          ErrorKind::kBadRequest,
          "--checkpoint {} holds a checkpoint of an earlier job, {}; go on from it with --resume, or give another directory",
          job_.saving.directory, checkpoint_folder(job_.saving.directory, iteration));
    }
    PACELINE_RETURN_IF_ERROR(clear_newer_checkpoints(files_, job_.saving.directory, 0));
  }
  model_.release = options_.release;
  model_.workers = options_.workers;
  model_.servers = options_.servers;
  model_.settings = to_settings(spec);
  model_.table = table;
  thread_ = std::make_unique<TaskThread>();
  return expect_parts(table);
}

Status CheckpointKeeper::lock_directory() {
  auto lock = files_.lock_directory(job_.saving.directory);
  if (lock.ok()) {
    lock_ = std::move(*lock);
    return {};
  }
  if (lock.status().kind() == ErrorKind::kOverloaded) {
    return error(ErrorKind::kBadRequest, "--checkpoint {} is being used by another job that runs; give another directory",
                 job_.saving.directory)
        .because({"in-use", ""});
  }
  // Without the right to lock, or without the directory: what follows says what is wrong, or works.
  return {};
}

Status CheckpointKeeper::resume(job::JobSpec& spec, const wire::TensorTable& table) {
  PACELINE_ASSIGN_OR_RETURN(const FoundCheckpoint found, newest_good_checkpoint(files_, job_.saving.directory, seal_));
  for (const std::string& warning : found.warnings) options_.warn(warning);
  if (const auto saved = job::from_saved(found.manifest.settings); saved.ok()) keep_choices(*saved, spec);
  PACELINE_RETURN_IF_ERROR(can_resume(found, spec, table, options_.workers));
  PACELINE_RETURN_IF_ERROR(clear_newer_checkpoints(files_, job_.saving.directory, found.manifest.iteration));
  {
    const std::lock_guard lock(mutex_);
    newest_ = found.folder;
  }
  spec.saving.from = found.folder;
  spec.saving.iteration = found.manifest.iteration;
  spec.saving.manifest = found.manifest.checksum;
  from_ = found.folder;
  return {};
}

Status CheckpointKeeper::expect_parts(const wire::TensorTable& table) {
  PACELINE_ASSIGN_OR_RETURN(const auto plan, make_plan(job_, table, options_.workers, options_.servers, 1));
  // Without servers a worker writes what a single server would.
  const std::int32_t servers = job_.has_servers() ? options_.servers : 1;
  for (std::int32_t server = 0; server < servers; ++server) {
    // A server without units has nothing to save.
    if (!plan->units().of_server[static_cast<std::size_t>(server)].empty())
      expected_.insert(PartHead{"server", server, 0, "", {}}.file_name());
  }
  for (std::int32_t worker = 0; worker < options_.workers; ++worker)
    expected_.insert(PartHead{"worker", worker, 0, "", {}}.file_name());
  return {};
}

void CheckpointKeeper::on_saved(const wire::Seat& from, Iteration iteration, const std::string& text) {
  const auto part = decode_part_summary(text);
  if (!part.ok() || !expected_.contains(part->name) || iteration < 1) {
    options_.warn(fmt::format("{} says that it saved a part of a checkpoint that is not expected: {}", from.text(),
                              part.ok() ? part->name : part.status().message()));
    return;
  }
  last_ = std::max(last_, iteration);
  Collected& collected = collected_[iteration];
  collected.parts[part->name] = *part;
  if (!part->failure.empty() && collected.failure.empty()) collected.failure = fmt::format("{}: {}", from.text(), part->failure);
  if (collected.parts.size() < expected_.size()) return;
  if (collected.failure.empty()) {
    Manifest manifest = model_;
    manifest.iteration = iteration;
    for (const auto& [name, summary] : collected.parts) manifest.parts.push_back(summary);
    thread_->run([this, manifest = std::move(manifest)] { complete(manifest); });
  } else {
    note_void(iteration, collected.failure);
    options_.warn(fmt::format("there is no checkpoint of iteration {}: {}; training goes on, {}", iteration, collected.failure,
                              newest().empty() ? "without any checkpoint so far" : "the newest good one is " + newest()));
    thread_->run([this, iteration] { discard(iteration); });
  }
  collected_.erase(iteration);
}

// On the thread.
void CheckpointKeeper::complete(const Manifest& manifest) {
  if (const Status status = write_manifest(files_, job_.saving.directory, manifest, seal_); !status.ok()) {
    note_void(manifest.iteration, status.message());
    options_.warn(
        fmt::format("there is no checkpoint of iteration {}: {}; training goes on", manifest.iteration, status.message()));
    return discard(manifest.iteration);
  }
  {
    const std::lock_guard lock(mutex_);
    newest_ = checkpoint_folder(job_.saving.directory, manifest.iteration);
  }
  if (const Status status = prune_checkpoints(files_, job_.saving.directory, options_.keep); !status.ok()) {
    options_.warn(fmt::format("old checkpoints could not be removed: {}", status.message()));
  }
}

// On the thread. Gives the room back.
void CheckpointKeeper::discard(Iteration iteration) {
  (void)remove_checkpoint(files_, checkpoint_folder(job_.saving.directory, iteration));
}

void CheckpointKeeper::finish() {
  if (thread_ != nullptr) thread_->wait_idle();
}

void CheckpointKeeper::note_void(Iteration iteration, const std::string& why) {
  const std::lock_guard lock(mutex_);
  void_ = {iteration, why};
}

Status CheckpointKeeper::last_one() const {
  if (job_.saving.directory.empty()) return {};
  const std::lock_guard lock(mutex_);
  if (last_ != 0 && newest_ == checkpoint_folder(job_.saving.directory, last_)) return {};
  if (last_ == 0 && !from_.empty()) return {};  // nothing was left to train
  const bool is_void = last_ != 0 && void_.iteration == last_;
  return error(ErrorKind::kIo, "the job went through, but there is no checkpoint of its last iteration{}: {}; {}",
               last_ == 0 ? "" : fmt::format(" {}", last_), is_void ? void_.why : missing_parts(),
               newest_.empty() ? "there is none at all" : "the newest good one is " + newest_);
}

// Of the last one, for people.
std::string CheckpointKeeper::missing_parts() const {
  std::string missing;
  const auto collected = collected_.find(last_);
  for (const std::string& name : expected_) {
    if (collected != collected_.end() && collected->second.parts.contains(name)) continue;
    missing += (missing.empty() ? "" : ", ") + name;
  }
  return fmt::format("nobody said that {} {} written; a process died or was cut off before it could", missing,
                     missing.find(',') == std::string::npos ? "is" : "are");
}

std::string CheckpointKeeper::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

std::string way_on(const job::JobSpec& job, const std::string& newest) {
  const std::string last = fmt::format("The last checkpoint is {}; ", newest);
  // `paceline train` takes all else from the checkpoint; a program says everything by itself.
  if (job.task.dataset == "(own)") return last + "the program goes on when it gives the same options, and resume";
  const std::string& key = job.saving.key_file;
  return fmt::format("{}go on with --checkpoint {} --resume{}", last, job.saving.directory,
                     key.empty() ? "" : " --checkpoint-key " + key);
}

}  // namespace paceline::checkpoint
