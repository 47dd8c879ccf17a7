#include "paramserver/service/worker_client.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "tensor/narrow.h"

namespace paceline::paramserver {
namespace {

scheduling::LiveProfile::Sides sides_of(const JobPlan& plan) {
  using Sides = scheduling::LiveProfile::Sides;
  return plan.options().schedule.push == scheduling::PushWhen::kInBatches ? Sides::kPullsAndPushes : Sides::kPulls;
}

long long milliseconds(Duration duration) {
  return static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

WorkerClient::WorkerClient(std::shared_ptr<const JobPlan> plan, Rank worker, transport::Loop& loop, Outbox& outbox,
                           WorkerClientOptions options)
    : plan_(plan),
      worker_(worker),
      loop_(loop),
      outbox_(outbox),
      options_(std::move(options)),
      gates_(plan, worker, gate_rule(plan->options().schedule)),
      core_(gates_, worker),
      stall_(loop.now(), options_.stall_deadline) {
  const auto elements = static_cast<std::size_t>(plan_->units().elements);
  PACELINE_CHECK(options_.parameters.size() == elements && options_.gradients.size() == elements,
                 "the plan has {} elements, the arenas {} and {}", elements, options_.parameters.size(), options_.gradients.size());
  const WireOptions& wire = plan_->options().wire;
  const std::size_t sent_bytes = elements * wire.element_bytes();
  const auto make_arena = [&](std::unique_ptr<float[]>& memory) {
    const std::size_t floats = (sent_bytes + sizeof(float) - 1) / sizeof(float);
    memory.reset(new float[floats]);  // not initialised, so that pages nobody needs are never there
    return std::as_writable_bytes(std::span(memory.get(), floats)).first(sent_bytes);
  };
  staging_ = make_arena(staging_memory_);
  if (wire.narrow() || wire.drops()) pushes_ = make_arena(push_memory_);
  if (wire.narrow()) widen_now_.resize(plan_->units().units.size());
  if (wire.drops()) dropping_.emplace(plan_);
  // At most a push and a pull of each unit are waiting.
  outgoing_.reserve(2 * plan_->units().units.size());
  sending_.reserve(2 * plan_->units().units.size());
  if (plan_->options().schedule.back == scheduling::Return::kPullInBatches)
    profile_.emplace(plan_->pulled_by_layer(options_.own_server), plan_->options().schedule.batching, sides_of(*plan_));
  outgoing_signal_ = loop.make_signal([this] { send_outgoing(); });
  initial_signal_ = loop.make_signal([this] { send_initial(); });
  done_signal_ = loop.make_signal([this] { send_done(); });
}

WorkerClient::~WorkerClient() = default;

std::span<float> WorkerClient::part(std::span<float> arena, std::uint32_t unit) const {
  const scheduling::Unit& planned = plan_->units().units[unit];
  return arena.subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements));
}

std::span<std::byte> WorkerClient::sent_part(std::span<std::byte> arena, std::uint32_t unit) const {
  const auto offset = static_cast<std::size_t>(plan_->units().units[unit].offset);
  return arena.subspan(offset * plan_->options().wire.element_bytes(), plan_->payload_bytes(unit));
}

// --- training thread ---

// Waits with `lock` until done(), a failure, or the stall deadline; describe() says what is waited for.
template <typename Done, typename Describe>
Status WorkerClient::wait(std::unique_lock<std::mutex>& lock, Done done, Describe describe) {
  if (failure_.ok() && !done()) stall_.on_wait(loop_.now());
  while (failure_.ok() && !done()) {
    if (changed_.wait_until(lock, stall_.next_due()) == std::cv_status::no_timeout || done() || !failure_.ok()) continue;
    PACELINE_RETURN_IF_ERROR(look_for_stall(lock, describe()));
  }
  return failure_;
}

// Nothing has come for long enough to look at the clock. Gives the lock back for a moment when there is something to log.
Status WorkerClient::look_for_stall(std::unique_lock<std::mutex>& lock, const std::string& awaited) {
  const TimePoint now = loop_.now();
  switch (stall_.check(now)) {
    case session::StallDetector::Verdict::kFine:
      return {};
    case session::StallDetector::Verdict::kFail:
      return error(ErrorKind::kDeadline, "worker {} waited {} ms for {}; --stall-deadline is {}", worker_.value,
                   milliseconds(stall_.waited(now)), awaited, to_text(options_.stall_deadline));
    case session::StallDetector::Verdict::kWarn: {
      const Duration waited = stall_.waited(now), median = stall_.median();
      lock.unlock();
      log::warn("worker {} has been waiting {} for {}; an iteration takes {}. It gives up after {} (--stall-deadline)",
                worker_.value, to_text(waited), awaited, to_text(median), to_text(options_.stall_deadline));
      lock.lock();
      return {};
    }
  }
  return {};
}

std::string WorkerClient::describe_missing(std::optional<Layer> layer) const {
  const auto missing = gates_.missing(layer);
  if (!missing) return "nothing";
  const scheduling::Unit& unit = plan_->units().units[*missing];
  return fmt::format("server {} to send the value of {} after iteration {}", unit.server.value, plan_->layer_text(unit.layer),
                     gates_.current() - 1);
}

std::string WorkerClient::describe_undelivered() const {
  const auto undelivered = gates_.undelivered();
  if (!undelivered) return "nothing";
  const scheduling::Unit& unit = plan_->units().units[*undelivered];
  return fmt::format("server {} to receive the gradient of {} of iteration {}", unit.server.value, plan_->layer_text(unit.layer),
                     gates_.current() - 1);
}

Status WorkerClient::wait_open(std::optional<Layer> layer, Iteration iteration) {
  if (layer && (layer->index < 0 || layer->index >= plan_->layers())) {
    return error(ErrorKind::kBadRequest, "layer {} does not exist; the model has {}", layer->index, plan_->layers());
  }
  std::unique_lock lock(mutex_);
  if (failure_.ok() && iteration != gates_.current()) {
    return error(ErrorKind::kBadRequest, "worker {} waits for the parameters of iteration {} in iteration {}", worker_.value,
                 iteration, gates_.current());
  }
  const TimePoint entered = loop_.now();
  const scheduling::UnitRange units = gates_.awaited(layer);
  PACELINE_RETURN_IF_ERROR(wait(
      lock, [&] { return layer ? gates_.open(*layer, iteration) : gates_.all_open(iteration); },
      [&] { return describe_missing(layer); }));
  copy_staged(lock, units);
  const TimePoint opened = loop_.now();
  gates_.account_gate(layer, iteration, entered, opened);
  if (profile_ && layer) profile_->on_gate(*layer, entered, opened);
  return {};
}

// Nobody writes to these parts of the staging area until this thread has pushed their units again, so the copy needs no lock.
void WorkerClient::copy_staged(std::unique_lock<std::mutex>& lock, scheduling::UnitRange units) {
  while (const auto unit = core_.take_staged(units)) {
    units.begin = *unit + 1;
    lock.unlock();
    widen(*unit);
    lock.lock();
  }
}

// From the staging area into the parameters.
void WorkerClient::widen(std::uint32_t unit) {
  const auto to = part(options_.parameters, unit);
  tensor::convert(to, tensor::ConstTensorView(sent_part(staging_, unit).data(), plan_->options().wire.type(), to.size()));
}

// Everybody has the server's rounded initial values, so worker 0 has to round its own.
void WorkerClient::round_initial() {
  const WireOptions& wire = plan_->options().wire;
  if (!wire.narrow() || worker_ != Rank{0}) return;
  const tensor::TensorView rounded(staging_.data(), wire.type(), options_.parameters.size());
  tensor::convert(rounded, std::span<const float>(options_.parameters));
  tensor::convert(options_.parameters, rounded);
}

Status WorkerClient::start() {
  if (worker_ == Rank{0}) initial_signal_->raise();
  PACELINE_RETURN_IF_ERROR(wait_open(std::nullopt, plan_->options().first));
  round_initial();
  return {};
}

Status WorkerClient::wait_layer(Layer layer, Iteration iteration) { return wait_open(layer, iteration); }
Status WorkerClient::wait_all(Iteration iteration) { return wait_open(std::nullopt, iteration + 1); }

Result<std::int64_t> WorkerClient::next_mini_batch() {
  std::unique_lock lock(mutex_);
  PACELINE_RETURN_IF_ERROR(wait(
      lock, [&] { return !mini_batches_.empty(); },
      [&] {
        return fmt::format("server {} to hand out a mini-batch for iteration {}", plan_->pacing_server().value, gates_.current());
      }));
  const std::int64_t number = mini_batches_.front();
  mini_batches_.pop_front();
  return number;
}

void WorkerClient::read_ahead(std::function<void(std::int64_t)> reader) {
  const std::lock_guard lock(mutex_);
  reader_ = std::move(reader);
  if (!reader_) return;
  for (const std::int64_t number : mini_batches_) reader_(number);
}

Status WorkerClient::finish(Iteration last) {
  PACELINE_RETURN_IF_ERROR(wait_all(last));
  if (!plan_->uneven()) return {};
  {
    const std::lock_guard lock(mutex_);
    gates_.next_iteration();
    core_.on_finished();
    stall_.on_progress(loop_.now());
  }
  done_signal_->raise();
  return wait_all(last + 1);
}

Status WorkerClient::gradient_ready(std::uint32_t tensor) {
  if (!dropping_ || tensor >= plan_->table().tensors.size()) return announce(tensor);
  held_.push_back(tensor);
  return dropping_->clips() ? Status() : drop_and_announce();
}

Iteration WorkerClient::current() {
  const std::lock_guard lock(mutex_);
  return gates_.current();
}

// The gradients held back, each as what is sent of it.
Status WorkerClient::drop_and_announce() {
  const Iteration iteration = current();
  const float coefficient = dropping_->clips() ? dropping_->clip_coefficient(held_, options_.gradients) : 1;
  for (const std::uint32_t tensor : held_) {
    dropping_->drop(tensor, iteration, coefficient, options_.gradients);
    PACELINE_RETURN_IF_ERROR(announce(tensor));
  }
  held_.clear();
  return {};
}

Status WorkerClient::announce(std::uint32_t tensor) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    const TimePoint now = loop_.now();
    if (profile_ && tensor < plan_->table().tensors.size()) profile_->on_gradient(plan_->table().tensors[tensor].layer, now);
    complete_.clear();
    PACELINE_RETURN_IF_ERROR(gates_.on_gradient(tensor, complete_));
    core_.on_complete(complete_, now, outgoing_);
    if (outgoing_.empty()) return {};
  }
  outgoing_signal_->raise();
  return {};
}

Status WorkerClient::backward_done(Iteration iteration, std::span<const std::uint32_t> unused) {
  if (dropping_) PACELINE_RETURN_IF_ERROR(drop_and_announce());
  std::unique_lock lock(mutex_);
  if (profile_) profile_->on_backward_done(loop_.now());
  if (failure_.ok() && iteration == gates_.current() && !gates_.all_open(iteration)) {
    // Layers that this forward did not use; their values are on the way.
    const TimePoint entered = loop_.now();
    PACELINE_RETURN_IF_ERROR(wait(
        lock, [&] { return gates_.all_open(iteration); }, [&] { return describe_missing(std::nullopt); }));
    gates_.account_gate(std::nullopt, iteration, entered, loop_.now());
  }
  if (!failure_.ok()) return failure_;
  const TimePoint now = loop_.now();
  complete_.clear();
  PACELINE_RETURN_IF_ERROR(gates_.on_backward_done(iteration, unused, complete_));
  core_.on_complete(complete_, now, outgoing_);
  core_.on_backward_done(now, outgoing_);
  gates_.next_iteration();
  if (profile_) {
    if (const auto batches = profile_->plan()) {
      core_.set_batches(batches->bounds);
      if (batches->push) core_.set_push_batches(batches->push->bounds);
    }
    profile_->on_all_asked();
  }
  stall_.on_progress(now);
  lock.unlock();
  outgoing_signal_->raise();
  return {};
}

void WorkerClient::forward_done() {
  if (!profile_) return;
  const std::lock_guard lock(mutex_);
  const TimePoint now = loop_.now();
  profile_->on_forward_done(now);
  profile_->on_backward_begun(now);
}

Status WorkerClient::wait_gradients_free() {
  std::unique_lock lock(mutex_);
  if (profile_) profile_->on_forward_done(loop_.now());
  const Status status = wait(
      lock, [&] { return gates_.free(); }, [&] { return describe_undelivered(); });
  if (profile_) profile_->on_backward_begun(loop_.now());
  return status;
}

Status WorkerClient::wait_gradients_free(Layer layer) {
  if (layer.index < 0 || layer.index >= plan_->layers()) {
    return error(ErrorKind::kBadRequest, "layer {} does not exist; the model has {}", layer.index, plan_->layers());
  }
  std::unique_lock lock(mutex_);
  return wait(
      lock, [&] { return gates_.free(layer); }, [&] { return describe_undelivered(); });
}

bool WorkerClient::gradients_free(Layer layer) {
  const std::lock_guard lock(mutex_);
  return gates_.free(layer);
}

TimePoint WorkerClient::opened_at(Layer layer) {
  const std::lock_guard lock(mutex_);
  return gates_.opened_at(layer);
}

// --- any thread ---

void WorkerClient::cancel(const Status& reason) {
  PACELINE_CHECK(!reason.ok(), "cancelled without a reason");
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = reason;
  }
  changed_.notify_all();
}

std::optional<scheduling::LiveProfile::Plan> WorkerClient::batches() {
  const std::lock_guard lock(mutex_);
  return profile_ ? profile_->current() : std::nullopt;
}

Account WorkerClient::take_account() {
  const std::lock_guard lock(mutex_);
  Account account = gates_.take_account(loop_.now());
  account.bytes_pushed += dropped_bytes_pushed_.exchange(0, std::memory_order_relaxed);
  return account;
}

}  // namespace paceline::paramserver
