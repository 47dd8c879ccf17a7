#include <random>

#include <unistd.h>

#include <torch/torch.h>

#include "base/checksum.h"
#include "paceline/torch.h"
#include "runtime/worker_process.h"
#include "trainer/model_files.h"
#include "trainer/stepper.h"
#include "transport/open/open.h"
#include "transport/security.h"

namespace paceline {
namespace {

[[noreturn]] void raise(const Status& status) {
  throw Error(status.message(), status.kind() == ErrorKind::kBadRequest ? 2 : status.kind() == ErrorKind::kCancelled ? 130 : 1);
}

void require(const Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T require(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

job::JobSpec settings_of(const WorkerOptions& options) {
  job::JobSpec base;
  base.task.model = "(own)";
  base.task.dataset = "(own)";
  wire::Settings pairs = to_settings(base);
  for (const auto& [name, value] : options.settings) pairs.emplace_back(name, value);  // a later pair wins
  job::JobSpec spec = require(validated(require(job::from_settings(pairs))));
  if (spec.update.optimizer.kind == tensor::OptimizerKind::kMean) {
    require(error(ErrorKind::kBadRequest, "optimizer mean leaves the steps to the caller, and paceline::Worker makes them; give {}",
                  tensor::optimizers_with(&tensor::OptimizerTraits::steps)));
  }
  if (spec.update.told_rates)
    require(error(ErrorKind::kBadRequest, "told-rates is for programs on paceline/paceline.h; paceline::Worker tells none"));
  return spec;
}

}  // namespace

struct Worker::State {
  std::unique_ptr<trainer::ModuleAdapter> adapter;
  std::unique_ptr<runtime::WorkerProcess> process;
  std::unique_ptr<trainer::Stepper> stepper;
  std::unique_ptr<training::ProgressTeller> progress;
  Iteration next = 1;
  bool stopping = false;
  bool saved = false;  // this worker's part of the checkpoint of the last iteration, if there is to be one

  // Tells the coordinator, so that the others end too, and throws its verdict.
  [[noreturn]] void fail(const Status& status) { raise(process->fail(status)); }
};

Worker::Worker(torch::nn::Module& module, const WorkerOptions& options) : state_(std::make_unique<State>()) {
  at::set_num_threads(1);
  const job::JobSpec settings = settings_of(options);
  state_->adapter = require(trainer::ModuleAdapter::make(module, options.dry_run));
  runtime::MemberOptions member;
  member.coordinator = require(transport::parse_address(options.coordinator));
  member.listen = require(transport::own_place("", member.coordinator));
  member.wanted_rank = options.rank;
  member.silence_deadline = from_seconds(settings.limits.deadline);
  member.release = PACELINE_VERSION;
  member.seed = std::random_device()() + (static_cast<std::uint64_t>(getpid()) << 32);
  member.table = state_->adapter->table();
  member.settings = to_settings(settings);
  const auto key = require(transport::choose_security(options.security, options.job_key_file, {&member.coordinator, 1}));
  const auto open = [&key, at = member.coordinator] { return transport::open(at, {.key = key}); };
  state_->process =
      require(runtime::WorkerProcess::join(open, std::move(member), state_->adapter->parameters(), state_->adapter->gradients()));
  state_->stepper = std::make_unique<trainer::Stepper>(*state_->adapter, *state_->process);
  state_->progress = std::make_unique<training::ProgressTeller>(*state_->process, state_->process->settings().task.iterations);
  state_->next = state_->process->first();
  if (!state_->process->settings().saving.from.empty()) {
    if (const Status status = trainer::restore_part(*state_->process, *state_->adapter); !status.ok()) state_->fail(status);
  }
  state_->stepper->begin();
}

Worker::~Worker() = default;

int Worker::rank() const { return state_->process->rank().value; }
int Worker::workers() const { return state_->process->workers(); }
std::int64_t Worker::iteration() const { return state_->next; }
bool Worker::stopping() const { return state_->stopping; }

double Worker::step(const std::function<torch::Tensor()>& loss, std::int64_t samples) {
  State& s = *state_;
  report::WorkerReport& report = s.stepper->report();
  s.stepper->timer().end(report::Phase::kLoad);  // whatever the program did since the last step
  const double before = report.phases.total();
  const auto value = s.stepper->step(s.next, samples, loss);
  if (!value.ok()) s.fail(value.status());
  const auto last = s.process->end_iteration(s.next);
  if (!last.ok()) s.fail(last.status());
  s.stopping = *last;
  s.saved = trainer::save_part_if_due(*s.process, *s.adapter, s.next, trainer::Place::kMiddle);
  report.iteration_seconds.add(report.phases.total() - before);
  s.progress->tell(report, s.next, s.next, -1, training::ProgressTeller::Importance::kUsual);
  ++s.next;
  return *value;
}

void Worker::synchronize() {
  if (const Status status = state_->stepper->synchronise(state_->next - 1); !status.ok()) state_->fail(status);
}

std::string Worker::parameters_hash() {
  Hash128 hash;
  hash.update(std::as_bytes(state_->adapter->parameters()));
  return hash.hex();
}

void Worker::finish() {
  if (const Status status = state_->stepper->timer().finish(state_->next - 1); !status.ok()) state_->fail(status);
  if (!state_->saved && state_->next > state_->process->first())
    trainer::save_part_if_due(*state_->process, *state_->adapter, state_->next - 1, trainer::Place::kLast);
  report::WorkerReport& report = state_->stepper->report();
  report.parameters_hash = parameters_hash();
  report.peak_bytes = report::peak_memory();
  require(state_->process->finish(report));
}

}  // namespace paceline
