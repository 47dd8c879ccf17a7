#include "paramserver/service/worker_client.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "tensor/narrow.h"
#include "tensor/sparse.h"

namespace paceline::paramserver {
namespace {

// What a ticket says: the kind of message above, the unit below. Never kNoTicket, which messages have that borrow nothing.
constexpr std::uint64_t kNoTicket = 0;
constexpr std::uint64_t ticket_of(wire::MessageKind kind, std::uint32_t unit) {
  return ((static_cast<std::uint64_t>(kind) + 1) << 32) | unit;
}

WorkerCore::Values values_of(const wire::MessageHead& head) {
  return {head.unit, head.kind == wire::MessageKind::kValues ? head.detail : head.unit, head.iteration};
}

// What a batch gains in size with each layer.
std::vector<Bytes> pulled_by_layer(const JobPlan& plan) {
  std::vector<Bytes> bytes(static_cast<std::size_t>(plan.layers()));
  for (const scheduling::Unit& unit : plan.units().units)
    bytes[static_cast<std::size_t>(unit.layer.index)] += Bytes{static_cast<std::int64_t>(plan.payload_bytes(unit.id))};
  return bytes;
}

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
      core_(std::move(plan), worker),
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
    profile_.emplace(pulled_by_layer(*plan_), plan_->options().servers, plan_->options().schedule.batching, sides_of(*plan_));
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

std::string WorkerClient::describe_missing(scheduling::UnitRange units) const {
  const auto missing = core_.missing_unit(units);
  if (!missing) return "nothing";
  const scheduling::Unit& unit = plan_->units().units[*missing];
  return fmt::format("server {} to send the value of {} after iteration {}", unit.server.value, plan_->layer_text(unit.layer),
                     core_.current() - 1);
}

std::string WorkerClient::describe_undelivered() const {
  const auto undelivered = core_.undelivered_unit();
  if (!undelivered) return "nothing";
  const scheduling::Unit& unit = plan_->units().units[*undelivered];
  return fmt::format("server {} to receive the gradient of {} of iteration {}", unit.server.value, plan_->layer_text(unit.layer),
                     core_.current() - 1);
}

Status WorkerClient::wait_open(std::optional<Layer> layer, Iteration iteration) {
  if (layer && (layer->index < 0 || layer->index >= plan_->layers())) {
    return error(ErrorKind::kBadRequest, "layer {} does not exist; the model has {}", layer->index, plan_->layers());
  }
  std::unique_lock lock(mutex_);
  if (failure_.ok() && iteration != core_.current()) {
    return error(ErrorKind::kBadRequest, "worker {} waits for the parameters of iteration {} in iteration {}", worker_.value,
                 iteration, core_.current());
  }
  const TimePoint entered = loop_.now();
  const scheduling::UnitRange units = core_.units_of(layer);
  PACELINE_RETURN_IF_ERROR(wait(
      lock, [&] { return layer ? core_.layer_open(*layer, iteration) : core_.all_open(iteration); },
      [&] { return describe_missing(units); }));
  copy_staged(lock, units);
  const TimePoint opened = loop_.now();
  core_.account_gate(layer, iteration, entered, opened);
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
        return fmt::format("server {} to hand out a mini-batch for iteration {}", plan_->pacing_server().value, core_.current());
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
  return core_.current();
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
    PACELINE_RETURN_IF_ERROR(core_.on_gradient_ready(tensor, now, outgoing_));
    if (outgoing_.empty()) return {};
  }
  outgoing_signal_->raise();
  return {};
}

Status WorkerClient::backward_done(Iteration iteration, std::span<const std::uint32_t> unused) {
  if (dropping_) PACELINE_RETURN_IF_ERROR(drop_and_announce());
  std::unique_lock lock(mutex_);
  if (profile_) profile_->on_backward_done(loop_.now());
  if (failure_.ok() && iteration == core_.current() && !core_.all_open(iteration)) {
    // Layers that this forward did not use; their values are on the way.
    const TimePoint entered = loop_.now();
    const scheduling::UnitRange all = core_.units_of(std::nullopt);
    PACELINE_RETURN_IF_ERROR(wait(
        lock, [&] { return core_.all_open(iteration); }, [&] { return describe_missing(all); }));
    core_.account_gate(std::nullopt, iteration, entered, loop_.now());
  }
  if (!failure_.ok()) return failure_;
  const TimePoint now = loop_.now();
  std::optional<scheduling::LiveProfile::Plan> batches;
  if (profile_) {
    batches = profile_->plan();
    if (batches) core_.set_batches(batches->bounds);
    profile_->on_asked();
  }
  PACELINE_RETURN_IF_ERROR(core_.on_backward_done(iteration, unused, now, outgoing_));
  if (batches && batches->push) core_.set_push_batches(batches->push->bounds);
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
      lock, [&] { return core_.gradients_free(); }, [&] { return describe_undelivered(); });
  if (profile_) profile_->on_backward_begun(loop_.now());
  return status;
}

Status WorkerClient::wait_gradients_free(Layer layer) {
  if (layer.index < 0 || layer.index >= plan_->layers()) {
    return error(ErrorKind::kBadRequest, "layer {} does not exist; the model has {}", layer.index, plan_->layers());
  }
  std::unique_lock lock(mutex_);
  return wait(
      lock, [&] { return core_.gradients_free(layer); }, [&] { return describe_undelivered(); });
}

bool WorkerClient::gradients_free(Layer layer) {
  const std::lock_guard lock(mutex_);
  return core_.gradients_free(layer);
}

TimePoint WorkerClient::opened_at(Layer layer) {
  const std::lock_guard lock(mutex_);
  return core_.opened_at(layer);
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
  Account account = core_.take_account(loop_.now());
  account.bytes_pushed += dropped_bytes_pushed_.exchange(0, std::memory_order_relaxed);
  return account;
}

// --- loop ---

// The gradient as it is sent.
void WorkerClient::put_gradient(std::uint32_t unit, std::span<std::byte> to) {
  const WireOptions& wire = plan_->options().wire;
  const std::span<const float> gradient = part(options_.gradients, unit);
  if (!wire.narrow()) {
    std::ranges::copy(std::as_bytes(gradient), to.begin());
  } else {
    tensor::narrow({to.data(), wire.type(), gradient.size()}, gradient, static_cast<float>(wire.loss_scale));
  }
}

std::span<const std::byte> WorkerClient::gradient_payload(const WorkerAction& push) {
  const WireOptions& wire = plan_->options().wire;
  if (wire.drops()) return sparse_payload(push);
  if (!wire.narrow()) return std::as_bytes(part(options_.gradients, push.unit));
  const auto payload = sent_part(pushes_, push.unit);
  put_gradient(push.unit, payload);
  return payload;
}

// Sparse where that is smaller. Parts that were not used hold what an earlier iteration left there.
std::span<const std::byte> WorkerClient::sparse_payload(const WorkerAction& push) {
  const scheduling::Unit& planned = plan_->units().units[push.unit];
  const auto gradient = part(options_.gradients, push.unit);
  const auto parts = plan_->units().parts_of(planned);
  const auto for_each_used = [&](auto visit) {
    for (std::uint32_t i = 0; i < planned.parts; ++i) {
      if (((push.detail >> i) & 1) != 0) continue;
      const auto skipped = static_cast<std::size_t>(parts[i].offset - planned.offset);
      visit(skipped, gradient.subspan(skipped, static_cast<std::size_t>(parts[i].elements)));
    }
  };
  std::size_t held = 0;
  for_each_used([&](std::size_t, std::span<const float> of_part) { held += tensor::count_sparse(of_part); });
  // Nothing at all would say that the unit was not used: a zero says that it was.
  const std::size_t count = std::max<std::size_t>(held, 1);
  std::span<const std::byte> payload = std::as_bytes(gradient);
  if (count * tensor::kSparseBytes < payload.size()) {
    const auto place = sent_part(pushes_, push.unit).first(count * tensor::kSparseBytes);
    const std::span indices(reinterpret_cast<std::uint32_t*>(place.data()), count);
    const std::span values(reinterpret_cast<float*>(place.data() + indices.size_bytes()), count);
    indices[0] = 0;
    values[0] = 0;
    std::size_t at = 0;
    for_each_used([&](std::size_t skipped, std::span<const float> of_part) {
      at = tensor::pack_sparse(of_part, static_cast<std::uint32_t>(skipped), at, indices, values);
    });
    payload = place;
  }
  dropped_bytes_pushed_.fetch_add(static_cast<std::int64_t>(payload.size()), std::memory_order_relaxed);
  return payload;
}

void WorkerClient::send(wire::MessageKind kind, const WorkerAction& action, std::span<const std::byte> payload) {
  const scheduling::Unit& planned = plan_->units().units[action.unit];
  const wire::MessageHead head{.kind = kind,
                               .layer = planned.layer,
                               .unit = action.unit,
                               .detail = action.detail,
                               .iteration = action.iteration,
                               .payload_bytes = payload.size()};
  // Messages without payload borrow nothing, so nobody needs to know when they have arrived.
  outbox_.send_to_server(planned.server, head, payload, payload.empty() ? kNoTicket : ticket_of(kind, action.unit));
}

void WorkerClient::send_outgoing() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    std::swap(sending_, outgoing_);
  }
  for (const WorkerAction& action : sending_) {
    switch (action.kind) {
      case WorkerAction::Kind::kPush: {
        const bool borrows = action.detail != scheduling::all_parts(plan_->units().units[action.unit]);
        send(wire::MessageKind::kPush, action, borrows ? gradient_payload(action) : std::span<const std::byte>());
        break;
      }
      case WorkerAction::Kind::kPushBatch:
        send(wire::MessageKind::kPushes, action, gather_gradients(action.unit, action.detail));
        break;
      case WorkerAction::Kind::kPull:
        send(wire::MessageKind::kPull, action, {});
        break;
    }
  }
  sending_.clear();
}

// Nothing when other servers' units lie between them.
std::optional<std::span<std::byte>> WorkerClient::in_one_piece(std::span<std::byte> arena, std::uint32_t unit,
                                                               std::uint32_t last) const {
  const auto units = core_.units_between(unit, last);
  if (units.size() != last - unit + 1) return std::nullopt;
  return std::span(sent_part(arena, unit).data(), bytes_of(units));
}

std::size_t WorkerClient::bytes_of(std::span<const std::uint32_t> units) const {
  std::size_t bytes = 0;
  for (const std::uint32_t unit : units) bytes += plan_->payload_bytes(unit);
  return bytes;
}

// The core sends nothing of these units again before this has been delivered, so the memory is free by then. Nobody writes to
// gradients that are not delivered, so the copy needs no lock.
std::span<const std::byte> WorkerClient::gather_gradients(std::uint32_t unit, std::uint32_t last) {
  const bool narrow = plan_->options().wire.narrow();
  auto piece = in_one_piece(narrow ? pushes_ : std::as_writable_bytes(options_.gradients), unit, last);
  const auto units = core_.units_between(unit, last);
  if (plan_->options().wire.drops())
    dropped_bytes_pushed_.fetch_add(static_cast<std::int64_t>(bytes_of(units)), std::memory_order_relaxed);
  if (piece && !narrow) return *piece;
  if (!piece) {
    std::vector<std::byte>& memory = gathered_[unit];
    memory.resize(bytes_of(units));
    piece = memory;
  }
  std::span<std::byte> rest = *piece;
  for (const std::uint32_t one : units) {
    const std::size_t bytes = plan_->payload_bytes(one);
    put_gradient(one, rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  return *piece;
}

void WorkerClient::send_initial() {
  for (const scheduling::Unit& unit : plan_->units().units)
    send(wire::MessageKind::kInitial, {.unit = unit.id, .iteration = plan_->options().first - 1},
         std::as_bytes(part(options_.parameters, unit.id)));
}

void WorkerClient::send_done() {
  Iteration last = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    last = core_.current() - 2;
  }
  const wire::MessageHead head{.kind = wire::MessageKind::kDone, .layer = wire::kControlLayer, .iteration = last};
  const auto& of_server = plan_->units().of_server;
  for (std::size_t server = 0; server < of_server.size(); ++server) {
    if (!of_server[server].empty()) outbox_.send_to_server(Rank{static_cast<std::int32_t>(server)}, head, {}, kNoTicket);
  }
}

// Sessions keep order and lose nothing, so another count than the next is a fault of the server.
Status WorkerClient::on_mini_batch(const wire::MessageHead& head) {
  {
    const std::lock_guard lock(mutex_);
    if (!plan_->uneven() || head.unit != handed_out_ + 1 || head.iteration < 1) {
      return error(ErrorKind::kBadRequest, "worker {} was handed out mini-batch {} for its {}. iteration; so far it has {}",
                   worker_.value, head.iteration, head.unit, handed_out_);
    }
    ++handed_out_;
    mini_batches_.push_back(head.iteration);
    if (reader_) reader_(head.iteration);
  }
  changed_.notify_all();
  return {};
}

bool WorkerClient::takes(const session::PeerName& from, const wire::MessageHead& head) const {
  return from.role == session::Role::kServer && head.flags == 0 &&
         (head.kind == wire::MessageKind::kValue || head.kind == wire::MessageKind::kValues ||
          ((head.kind == wire::MessageKind::kNotify || head.kind == wire::MessageKind::kMiniBatch) && head.payload_bytes == 0));
}

Status WorkerClient::unexpected(const session::PeerName& from, const wire::MessageHead& head) const {
  return error(ErrorKind::kBadRequest, "{} sent worker {} a message it does not take: kind {}, flags {}, {} bytes", from.text(),
               worker_.value, static_cast<int>(head.kind), static_cast<int>(head.flags), head.payload_bytes);
}

Result<std::span<std::byte>> WorkerClient::on_message_begin(const session::PeerName& from, const wire::MessageHead& head) {
  if (!takes(from, head) || head.payload_bytes == 0) return unexpected(from, head);
  const WorkerCore::Values values = values_of(head);
  const std::lock_guard lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(const auto place, core_.on_value_begin(from.rank, values, head.payload_bytes, loop_.now()));
  const bool staged = place == WorkerCore::Place::kStaging;
  if (!plan_->options().wire.narrow()) return place_of(values, staged ? staging_ : std::as_writable_bytes(options_.parameters));
  widen_now_[values.unit] = staged ? 0 : 1;
  return place_of(values, staging_);
}

// Straight into the arena when the units stand behind each other there.
Result<std::span<std::byte>> WorkerClient::place_of(const WorkerCore::Values& values, std::span<std::byte> arena) {
  if (const auto piece = in_one_piece(arena, values.unit, values.last)) return *piece;
  const std::size_t bytes = bytes_of(core_.units_of(values));
  Parcel& parcel = parcels_[values.unit];
  parcel.memory.resize((bytes + sizeof(float) - 1) / sizeof(float));
  parcel.arena = arena;
  parcel.arriving = true;
  return std::as_writable_bytes(std::span(parcel.memory)).first(bytes);
}

// Nobody reads these places before on_value, so the copy needs no lock.
void WorkerClient::deal_out(const WorkerCore::Values& values, std::span<const std::byte> payload) {
  const auto found = parcels_.find(values.unit);
  if (found == parcels_.end() || !std::exchange(found->second.arriving, false)) return;
  for (const std::uint32_t unit : core_.units_of(values)) {
    const auto to = sent_part(found->second.arena, unit);
    std::ranges::copy(payload.first(to.size()), to.begin());
    payload = payload.subspan(to.size());
  }
}

void WorkerClient::on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (!takes(from, head)) return fail(unexpected(from, head));
  if (head.kind == wire::MessageKind::kMiniBatch) {
    if (const Status status = on_mini_batch(head); !status.ok()) fail(status);
    return;
  }
  const WorkerCore::Values values = values_of(head);
  if (!payload.empty()) {
    deal_out(values, payload);
    if (!widen_now_.empty() && std::exchange(widen_now_[values.unit], 0) != 0) {
      for (const std::uint32_t unit : core_.units_of(values)) widen(unit);
    }
  }
  Status status;
  bool opened = false, more = false;
  {
    const std::lock_guard lock(mutex_);
    if (head.kind == wire::MessageKind::kNotify) {
      status = core_.on_notify(from.rank, head.unit, head.iteration, outgoing_);
    } else {
      const std::uint32_t micros = head.kind == wire::MessageKind::kValue ? head.detail : 0;
      const TimePoint now = loop_.now();
      status = core_.on_value(from.rank, values, micros, now, outgoing_);
      if (profile_) profile_->on_pulled(Bytes{static_cast<std::int64_t>(head.payload_bytes)}, now);
      opened = status.ok() && core_.any_open(values);
    }
    more = !outgoing_.empty();
  }
  if (!status.ok()) return fail(status);
  if (opened) changed_.notify_all();
  if (more) send_outgoing();
}

void WorkerClient::on_delivered(const session::PeerName&, std::uint64_t ticket) {
  if (ticket == kNoTicket) return;
  const auto unit = static_cast<std::uint32_t>(ticket);
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    if (ticket == ticket_of(wire::MessageKind::kInitial, unit)) {
      core_.on_initial_received(unit);
      changed = core_.all_open(plan_->options().first);
    } else {
      for (const std::uint32_t delivered : core_.on_push_delivered(unit, loop_.now())) {
        const scheduling::Unit& planned = plan_->units().units[delivered];
        changed = changed || core_.gradients_free(planned.last_layer) || core_.gradients_free(planned.layer);
      }
    }
  }
  if (changed) changed_.notify_all();
}

void WorkerClient::on_peer_lost(const session::PeerName& peer, const Status& reason) {
  if (peer.role == session::Role::kServer) fail(reason);
}

void WorkerClient::fail(const Status& reason) {
  cancel(reason);
  if (!std::exchange(reported_, true) && options_.on_failed) options_.on_failed(reason);
}

}  // namespace paceline::paramserver
