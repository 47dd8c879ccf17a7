#include "checkpoint/state_checkpoints.h"

#include <utility>

namespace paceline::checkpoint {
namespace {

PartSummary write(Files& files, const std::string& directory, const CheckpointSeal& seal, StateCopy copy) {
  std::vector<std::span<const std::byte>> contents;
  auto rest = std::as_bytes(std::span<const float>(copy.numbers));
  for (const SavedArray& array : copy.head.arrays) {
    const auto bytes = static_cast<std::size_t>(array.elements * (1 + array.planes)) * sizeof(float);
    contents.push_back(rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  const std::string name = copy.head.file_name();
  const auto written = write_part(files, directory, std::move(copy.head), contents, seal, IfFinished::kRefuse);
  return written.ok() ? *written : PartSummary{.name = name, .failure = written.status().message()};
}

}  // namespace

StateCheckpoints::StateCheckpoints(Files& files, const job::JobSpec& settings, CheckpointSeal seal, transport::Loop& loop,
                                   StateSource source, std::function<void(Iteration, const PartSummary&)> on_saved)
    : files_(files),
      directory_(settings.saving.directory),
      every_(settings.saving.every),
      seal_(std::move(seal)),
      loop_(loop),
      source_(std::move(source)),
      on_saved_(std::move(on_saved)),
      complete_(settings.saving.iteration),
      saved_(settings.saving.iteration) {}

StateCheckpoints::~StateCheckpoints() { *alive_ = false; }

void StateCheckpoints::on_iteration_complete(Iteration iteration) {
  complete_ = iteration;
  if (every_ > 0 && iteration % every_ == 0) save();
}

// Not on the loop: a large state takes so long to copy that others would hear nothing of this process.
void StateCheckpoints::save() {
  saved_ = complete_;
  ++pending_;
  thread_.run([this, alive = alive_, iteration = complete_, copied = source_.hold()] {
    StateCopy copy = copied();
    loop_.post([this, alive] {
      if (*alive) source_.release();
    });
    copy.head.iteration = iteration;
    const PartSummary summary = write(files_, directory_, seal_, std::move(copy));
    loop_.post([this, alive, iteration, summary] {
      if (*alive) written(iteration, summary);
    });
  });
}

void StateCheckpoints::written(Iteration iteration, const PartSummary& summary) {
  --pending_;
  on_saved_(iteration, summary);
  if (pending_ == 0 && done_) std::exchange(done_, nullptr)();
}

void StateCheckpoints::finish(std::function<void()> done) {
  if (source_.has_state && complete_ > saved_) save();
  if (pending_ == 0) return done();
  done_ = std::move(done);
}

}  // namespace paceline::checkpoint
