#include "runtime/worker_process.h"

#include <algorithm>
#include <future>

#include "base/log.h"
#include "checkpoint/saved_model.h"
#include "collectives/training/collective_carrier.h"
#include "collectives/training/loop_options.h"
#include "job/costs.h"
#include "paramserver/service/server_carrier.h"
#include "runtime/saved_state.h"

namespace paceline::runtime {
namespace {

// Settings that cannot be read are refused by the coordinator.
MemberOptions with_hub(MemberOptions options) {
  const auto settings = job::from_settings(options.settings);
  const bool among_workers = settings.ok() && !settings->has_servers() && options.roles.list().size() == 1;
  options.hub = wire::hub_of(among_workers ? 0 : 1);
  return options;
}

}  // namespace

WorkerProcess::WorkerProcess(std::unique_ptr<transport::Transport> transport, MemberOptions options, std::span<float> parameters,
                             std::span<float> gradients, exchange::OptimizerState* state)
    : parameters_(parameters), gradients_(gradients), state_(state), transport_(std::move(transport)) {
  node_ = std::make_unique<Node>(*transport_, with_hub(std::move(options)), this,
                                 [this](Node&, const wire::Stop& stop) { set_end(stop); });
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::join(const MakeTransport& make_transport, MemberOptions options,
                                                           std::span<float> parameters, std::span<float> gradients) {
  PACELINE_ASSIGN_OR_RETURN(auto process, begin(make_transport, std::move(options), parameters, gradients));
  PACELINE_RETURN_IF_ERROR(process->joined(exchange::Gatehouse::kNoLimit).status());
  return process;
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::begin(const MakeTransport& make_transport, MemberOptions options,
                                                            std::span<float> parameters, std::span<float> gradients,
                                                            exchange::OptimizerState* state) {
  PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<transport::Transport> transport, make_transport());
  auto process =
      std::unique_ptr<WorkerProcess>(new WorkerProcess(std::move(transport), std::move(options), parameters, gradients, state));
  PACELINE_RETURN_IF_ERROR(process->node_->start());
  process->loop_thread_ = std::thread([&loop = process->transport_->loop()] { loop.run(); });
  return process;
}

Result<bool> WorkerProcess::joined(Duration limit) {
  const TimePoint began = transport_->loop().now();
  {
    std::unique_lock lock(mutex_);
    if (!wait(lock, limit, [&] { return connected_ || end_; })) return false;
    if (end_) {
      const Status status = end_->status();
      return status.ok() ? Status(ErrorKind::kCancelled, "the job ended before it began") : status;
    }
  }
  auto started = exchange_->start(limit - std::min(limit, transport_->loop().now() - began));
  if (!started.ok()) return fail(started.status());
  return started;
}

// False: the limit has passed.
template <typename Done>
bool WorkerProcess::wait(std::unique_lock<std::mutex>& lock, Duration limit, Done done) {
  const TimePoint now = transport_->loop().now();
  if (limit < TimePoint::max() - now) return changed_.wait_until(lock, now + limit, done);
  changed_.wait(lock, done);
  return true;
}

WorkerProcess::~WorkerProcess() {
  if (loop_thread_.joinable()) {
    std::promise<void> left;
    transport_->loop().post([&] { node_->say_goodbye([&] { left.set_value(); }, farewell_); });
    left.get_future().wait();
    transport_->loop().stop();
    loop_thread_.join();
  }
  node_->wait_prepared();
  checkpoints_.reset();
  exchange_.reset();
  node_.reset();
}

Result<session::ChannelEnd*> WorkerProcess::begin(const BegunJob& job) {
  rank_ = job.rank;
  workers_ = job.workers;
  settings_ = job.settings;
  seal_ = job.seal;
  PACELINE_ASSIGN_OR_RETURN(compute_speed_, job::compute_speed(settings_, workers_));
  first_ = settings_.saving.iteration + 1;
  begun_ = first_;
  PACELINE_RETURN_IF_ERROR(check_state(*job.plan));
  if (rank_ == Rank{0} && settings_.has_servers())
    for (const std::string& cost : job::costs_of(*job.plan)) log::warn("{}", cost);
  PACELINE_RETURN_IF_ERROR(make_exchange(job.plan));
  return &exchange_->carrier();
}

// The initial values of a job are rank 0's, also of one that goes on.
Status WorkerProcess::restore() {
  if (rank_ == Rank{0}) PACELINE_RETURN_IF_ERROR(restore_parameters());
  return updates_ == nullptr ? Status() : restore_state(system_files(), settings_.saving, seal_, *updates_);
}

std::unique_ptr<exchange::Gatehouse> WorkerProcess::make_house(const std::shared_ptr<const job::Plan>& plan,
                                                               exchange::GateLedger::Rule rule) {
  exchange::GatehouseOptions options{.stall_deadline = from_seconds(settings_.limits.stall_deadline),
                                     .on_failed = [this](const Status& reason) { node_->fail(reason); }};
  const bool waits_for_others = workers_ > 1 && plan->options().sync.kind != sync::SyncKind::kAsp;
  if (waits_for_others) options.ask_reached = [this] { node_->send_reached(rank_, 0); };
  auto house = std::make_unique<exchange::Gatehouse>(plan, rank_, rule, transport_->loop(), std::move(options));
  if (node_->recorder() != nullptr) house->events().add(*node_->recorder());
  house_ = house.get();
  return house;
}

Status WorkerProcess::make_exchange(const std::shared_ptr<const job::Plan>& plan) {
  if (!settings_.has_servers()) return make_collective_exchange(plan);
  auto house = make_house(plan, paramserver::gate_rule(plan->options().schedule));
  const exchange::TensorMemory memory(plan, parameters_, gradients_, state_);
  auto carrier = std::make_unique<paramserver::ServerCarrier>(*house, node_->sender(), memory,
                                                              node_->holds_several() ? std::optional(rank_) : std::nullopt);
  exchange_ =
      std::make_unique<exchange::GradientExchange>(std::move(house), std::move(carrier), exchange::compression_of(plan, memory));
  return {};
}

Status WorkerProcess::make_collective_exchange(const std::shared_ptr<const job::Plan>& plan) {
  PACELINE_ASSIGN_OR_RETURN(const collectives::TrainingOptions training, job::training_of(settings_));
  auto house = make_house(plan, collectives::gate_rule(training));
  auto carrier = std::make_unique<collectives::CollectiveCarrier>(*house, node_->sender(),
                                                                  exchange::TensorMemory(plan, parameters_, gradients_), training);
  // One of those that update writes the state of all.
  const Rank keeper = collectives::root_of(training, workers_);
  if (updates_everywhere(training.loop) || rank_ == keeper) updates_ = carrier.get();
  if (!settings_.saving.directory.empty() && rank_ == keeper) {
    carrier->set_on_updated([this](Iteration iteration) { checkpoints_->on_iteration_complete(iteration); });
    checkpoints_ = std::make_unique<checkpoint::StateCheckpoints>(
        system_files(), settings_, seal_, transport_->loop(), source_of(*carrier),
        [this](Iteration iteration, const checkpoint::PartSummary& part) { node_->send_saved(role(), iteration, encode(part)); });
  }
  exchange_ = std::make_unique<exchange::GradientExchange>(std::move(house), std::move(carrier));
  return {};
}

Status WorkerProcess::restore_parameters() {
  PACELINE_ASSIGN_OR_RETURN(checkpoint::SavedModel model, checkpoint::SavedModel::open(system_files(), settings_.saving, seal_));
  return model.read_values(0, parameters_);
}

// A checkpoint has the state of its own, which servers read.
Status WorkerProcess::check_state(const job::Plan& plan) {
  if (state_ == nullptr || state_->empty()) return {};
  PACELINE_RETURN_IF_ERROR(state_->check(plan));
  if (!settings_.saving.from.empty()) *state_ = {};
  if (settings_.has_servers()) return {};
  return error(ErrorKind::kBadRequest,
               "the job is to begin with the optimizer's state of worker {}, and only servers take one; give it servers",
               rank_.value);
}

void WorkerProcess::on_connected() {
  const std::lock_guard lock(mutex_);
  connected_ = true;
  changed_.notify_all();
}

// The training thread may stand at a gate for a worker that is standing still already, so it is not asked: its iteration is.
void WorkerProcess::on_park() {
  const std::lock_guard lock(mutex_);
  park_asked_ = true;
  node_->send_control(wire::MessageKind::kParked, begun_);
}

void WorkerProcess::on_finish_at(Iteration last) {
  const std::lock_guard lock(mutex_);
  last_ = last;
  changed_.notify_all();
}

void WorkerProcess::on_worker_done(Rank worker, Iteration last) {
  if (exchange_ != nullptr) exchange_->on_worker_done(worker, last);
}

// The loop answers also while the training thread computes.
void WorkerProcess::on_reached(Rank who, Iteration reached) {
  if (house_ == nullptr) return;
  if (reached == 0)
    node_->send_reached(who, house_->reached());
  else
    house_->on_reached(who, reached);
}

void WorkerProcess::end(const wire::Stop& stop, std::function<void()> done) {
  if (exchange_ != nullptr && stop.kind != wire::StopKind::kDone) exchange_->cancel(stop.status());
  done();
}

void WorkerProcess::set_end(const wire::Stop& stop) {
  const std::lock_guard lock(mutex_);
  end_ = stop;
  changed_.notify_all();
}

void WorkerProcess::send_progress(std::string json) {
  transport_->loop().post([this, json = std::move(json)] { node_->send_progress(json); });
}

void WorkerProcess::tell_alike(Iteration iteration, std::optional<wire::Settings> what) {
  transport_->loop().post([this, iteration, what = std::move(what)] {
    node_->send_control(what ? wire::MessageKind::kAlike : wire::MessageKind::kLeftOut, iteration,
                        what ? wire::encode(*what) : std::vector<std::byte>());
  });
}

bool WorkerProcess::checkpoint_due(Iteration iteration, bool last) const {
  const job::Saving& saving = settings_.saving;
  return !saving.directory.empty() && (last || (saving.every > 0 && iteration % saving.every == 0));
}

void WorkerProcess::save_part(Iteration iteration, checkpoint::PartHead head,
                              const std::vector<std::span<const std::byte>>& contents) {
  head.role = "worker";
  head.rank = rank_.value;
  head.iteration = iteration;
  checkpoint::PartSummary part{.name = head.file_name()};
  auto written = checkpoint::write_part(system_files(), settings_.saving.directory, std::move(head), contents, seal_,
                                        checkpoint::IfFinished::kRefuse);
  if (written.ok())
    part = *std::move(written);
  else
    part.failure = written.status().message();
  transport_->loop().post([this, iteration, text = encode(part)] { node_->send_saved(role(), iteration, text); });
}

// Standing still here is short: everybody's loop has told at once how far its worker is, and the foremost's iteration is the
// answer.
Result<bool> WorkerProcess::end_iteration(Iteration iteration) {
  std::unique_lock lock(mutex_);
  if (end_ && !end_->status().ok()) return end_->status();
  if (park_asked_ && !last_) {
    changed_.wait(lock, [&] { return last_ || end_; });
    if (!last_) return end_->status().ok() ? Status(ErrorKind::kCancelled, "the job ended") : end_->status();
  }
  begun_ = iteration + 1;
  // Where workers do different numbers of iterations nobody waits for anybody's further ones: this one is the last.
  return last_ && (iteration >= *last_ || exchange_->plan().uneven());
}

Status WorkerProcess::wait_for_verdict() { return ended(exchange::Gatehouse::kNoLimit).status(); }

Status WorkerProcess::finish(report::WorkerReport report) {
  hand_in(std::move(report));
  return wait_for_verdict();
}

Result<bool> WorkerProcess::ended(Duration limit) {
  std::unique_lock lock(mutex_);
  if (!wait(lock, limit, [&] { return end_.has_value(); })) return false;
  PACELINE_RETURN_IF_ERROR(end_->status());
  return true;
}

void WorkerProcess::hand_in(report::WorkerReport report) {
  if (const auto batches = exchange_->batches())
    report.batching = report::batching_json(exchange_->plan().options().schedule.batching, *batches);
  auto hand_in = [this, report = std::move(report)]() mutable {
    report.link = node_->link();
    // What the server still does belongs to the same record.
    if (!node_->holds_several()) node_->tell_timeline();
    node_->send_report(role(), encode(report), exchange_->current() - 1);
  };
  // The job is not over before its last checkpoint is written.
  transport_->loop().post([this, hand_in = std::move(hand_in)]() mutable {
    if (checkpoints_ == nullptr) return hand_in();
    checkpoints_->finish(std::move(hand_in));
  });
}

void WorkerProcess::ask_to_end() {
  transport_->loop().post([this] { node_->ask_to_end(); });
}

void WorkerProcess::interrupt() {
  transport_->loop().post(
      [this] { node_->interrupt(error(ErrorKind::kCancelled, "worker {} was asked to end by a signal", rank_.value)); });
}

Status WorkerProcess::fail(const Status& reason) {
  transport_->loop().post([this, reason] { node_->fail(reason); });
  const Status verdict = wait_for_verdict();
  return verdict.ok() ? reason : verdict;
}

}  // namespace paceline::runtime
