#include "exchange/gradient_exchange.h"

#include <algorithm>
#include <utility>

#include "base/fork.h"

namespace paceline::exchange {
namespace {

Status check_layer(const job::Plan& plan, Layer layer) {
  if (layer.index >= 0 && layer.index < plan.layers()) return {};
  return error(ErrorKind::kBadRequest, "layer {} does not exist; the model has {}", layer.index, plan.layers());
}

// Until gradients are not being read any more.
template <typename Over>
Result<bool> wait_read(Gatehouse& house, const Carrier& carrier, Gatehouse::Lock& lock, Duration limit, std::optional<Layer> layer,
                       Over over) {
  return house.wait(lock, limit, {Gatehouse::What::kRead, layer}, over, [&] {
    const auto unit = house.gates().undelivered();
    return unit ? carrier.reading(*unit) : std::string("nothing");
  });
}

}  // namespace

using wire::Happening;

GradientExchange::GradientExchange(std::unique_ptr<Gatehouse> house, std::unique_ptr<Carrier> carrier,
                                   std::unique_ptr<GradientCompression> compression)
    : process_(process_generation()), house_(std::move(house)), carrier_(std::move(carrier)), compression_(std::move(compression)) {
  house_->set_blames([this](const std::string& awaited, Duration waited) { return carrier_->blames(awaited, waited); });
}

// In the child of a fork nothing is destroyed: the lock may be held, and what the carrier holds is the parent's.
GradientExchange::~GradientExchange() {
  if (check_process().ok()) return;
  static_cast<void>(house_.release());
  static_cast<void>(carrier_.release());
  static_cast<void>(compression_.release());
}

Status GradientExchange::check_process() const {
  if (process_generation() == process_) return {};
  return error(ErrorKind::kCancelled, "this process was forked from that of worker {}, which alone may exchange gradients",
               house_->worker().value);
}

// False: it is there already, or beyond.
bool GradientExchange::enter(Phase phase) {
  const Lock lock = house_->lock();
  return std::exchange(phase_, std::max(phase_, phase)) < phase;
}

GradientExchange::Phase GradientExchange::phase() {
  const Lock lock = house_->lock();
  return phase_;
}

// --- gates ---

Result<bool> GradientExchange::start(Duration limit) {
  PACELINE_RETURN_IF_ERROR(check_process());
  if (enter(Phase::kStarting)) carrier_->start();
  PACELINE_ASSIGN_OR_RETURN(const bool over, wait_open(std::nullopt, plan().options().first, limit));
  if (over && enter(Phase::kTraining)) carrier_->on_started();
  return over;
}

Result<bool> GradientExchange::wait_open(std::optional<Layer> layer, Iteration iteration, Duration limit) {
  Lock lock = house_->lock();
  exchange::GateLedger& gates = house_->gates();
  if (house_->failure().ok() && iteration != gates.current()) {
    return error(ErrorKind::kBadRequest, "worker {} waits for the parameters of iteration {} in iteration {}",
                 house_->worker().value, iteration, gates.current())
        .because({"order", "iteration"});
  }
  // Who waits for everything also waits for what the others still receive from here, so that a job's figures hold all of it.
  const auto open = [&] {
    return layer ? gates.open(*layer, gates.current()) : gates.all_open(gates.current()) && carrier_->takes_gradients();
  };
  TimePoint entered;
  PACELINE_ASSIGN_OR_RETURN(const bool over, house_->wait(
                                                 lock, limit, {Gatehouse::What::kValues, layer, iteration}, open,
                                                 [&] { return carrier_->awaited(gates.missing(layer)); }, &entered));
  if (!over) return false;
  carrier_->settle(lock, gates.awaited(layer));
  gates.on_waited(layer);
  const TimePoint opened = house_->loop().now();
  if (layer)
    tell(wire::during(entered, opened,
                      {.what = Happening::kGate, .unit = static_cast<std::uint32_t>(layer->index), .iteration = iteration}));
  else if (phase_ != Phase::kStarting)
    tell(wire::during(entered, opened, {.what = Happening::kWaitValues, .iteration = iteration}));
  return true;
}

Result<bool> GradientExchange::wait_layer(Layer layer, Iteration iteration, Duration limit) {
  PACELINE_RETURN_IF_ERROR(check_process());
  PACELINE_RETURN_IF_ERROR(check_layer(plan(), layer));
  return wait_open(layer, iteration, limit);
}

Result<bool> GradientExchange::wait_all(Iteration iteration, Duration limit) {
  PACELINE_RETURN_IF_ERROR(check_process());
  return wait_open(std::nullopt, iteration + 1, limit);
}

Result<bool> GradientExchange::finish(Iteration last, Duration limit) {
  PACELINE_RETURN_IF_ERROR(check_process());
  if (!plan().uneven()) return wait_all(last, limit);
  if (phase() != Phase::kFinishing) {
    PACELINE_ASSIGN_OR_RETURN(const bool over, wait_all(last, limit));
    if (!over) return false;
    if (enter(Phase::kFinishing)) {
      {
        const Lock lock = house_->lock();
        house_->gates().next_iteration();
        house_->on_progress();
        house_->on_last_done();
      }
      carrier_->finish();
    }
  }
  return wait_all(last + 1, limit);
}

TimePoint GradientExchange::opened_at(Layer layer) {
  if (!check_process().ok()) return {};
  const Lock lock = house_->lock();
  return house_->account().opened_at(layer);
}

// --- gradients ---

Status GradientExchange::gradient_ready(std::uint32_t tensor) {
  PACELINE_RETURN_IF_ERROR(check_process());
  if (compression_ == nullptr || tensor >= plan().table().tensors.size()) return announce(tensor);
  {  // what is refused changes nothing, so it is refused before
    const Lock lock = house_->lock();
    PACELINE_RETURN_IF_ERROR(check_rates_told());
  }
  return compression_->compress(tensor, current()) ? announce(tensor) : Status();
}

Status GradientExchange::begin_gradient(std::uint32_t tensor) {
  PACELINE_RETURN_IF_ERROR(check_process());
  const Lock lock = house_->lock();
  return house_->gates().begin_gradient(tensor);
}

void GradientExchange::withdraw_gradient(std::uint32_t tensor) {
  const Lock lock = house_->lock();
  house_->gates().withdraw_gradient(tensor);
}

bool GradientExchange::in_backward() {
  const Lock lock = house_->lock();
  return house_->gates().in_backward();
}

Iteration GradientExchange::current() {
  const Lock lock = house_->lock();
  return house_->gates().current();
}

// What the last iteration still sends from here; hardly ever anything.
Result<bool> GradientExchange::wait_for_round(Lock& lock) {
  return house_->wait(
      lock, Gatehouse::kNoLimit, {Gatehouse::What::kValues}, [this] { return carrier_->takes_gradients(); },
      [this] { return carrier_->awaited(house_->gates().missing(std::nullopt)); });
}

Status GradientExchange::announce(std::uint32_t tensor) {
  thread_local std::vector<Complete> complete;
  complete.clear();
  Lock lock = house_->lock();
  PACELINE_RETURN_IF_ERROR(check_rates_told());
  PACELINE_RETURN_IF_ERROR(whole(wait_for_round(lock)));
  if (tensor < plan().table().tensors.size()) {
    const TimePoint now = house_->loop().now();
    const Layer layer = plan().table().tensors[tensor].layer;
    tell(wire::at(now, {.what = Happening::kGradient, .unit = static_cast<std::uint32_t>(layer.index)}));
  }
  PACELINE_RETURN_IF_ERROR(house_->gates().on_gradient(tensor, complete));
  if (complete.empty()) return {};
  PACELINE_RETURN_IF_ERROR(take(lock, complete, house_->gates().current()));
  lock.unlock();
  carrier_->on_units_told();
  return {};
}

// Refused, and nothing changes, where backward of the iteration is not over with them either.
Status GradientExchange::announce_held(Iteration iteration, std::span<const std::uint32_t> unused) {
  {
    const Lock lock = house_->lock();
    PACELINE_RETURN_IF_ERROR(house_->gates().check_backward(iteration, unused, compression_->held()));
  }
  for (const std::uint32_t tensor : compression_->compress_held(iteration)) PACELINE_RETURN_IF_ERROR(announce(tensor));
  return {};
}

// Where gradients are copied, nobody else touches their places before they are told, so that the copy needs no lock.
Status GradientExchange::take(Lock& lock, std::span<const Complete> complete, Iteration iteration) {
  if (const Status together = house_->gates().check_together(); !together.ok()) {
    house_->loop().post([this, together] { house_->fail_alike(together); });
    house_->wait_for_thread(lock, [this] { return !house_->failure().ok(); });
    return house_->failure();
  }
  if (carrier_->takes_copies()) {
    lock.unlock();
    PACELINE_RETURN_IF_ERROR(carrier_->take(complete, iteration));
    lock.lock();
  }
  for (const Complete& unit : complete) house_->told().push_back({unit});
  return {};
}

// Layers that this forward did not use; their values are on the way.
Status GradientExchange::wait_unused_layers(Lock& lock, Iteration iteration) {
  exchange::GateLedger& gates = house_->gates();
  if (!house_->failure().ok() || iteration != gates.current() || gates.all_open(iteration)) return {};
  const TimePoint entered = house_->loop().now();
  PACELINE_RETURN_IF_ERROR(whole(house_->wait(
      lock, Gatehouse::kNoLimit, {Gatehouse::What::kValues}, [&] { return gates.all_open(iteration); },
      [&] { return carrier_->awaited(gates.missing(std::nullopt)); })));
  house_->account().on_waited(std::nullopt, iteration, entered, house_->loop().now());
  return {};
}

Status GradientExchange::backward_done(Iteration iteration, std::span<const std::uint32_t> unused) {
  PACELINE_RETURN_IF_ERROR(check_process());
  if (compression_ != nullptr && compression_->holds()) PACELINE_RETURN_IF_ERROR(announce_held(iteration, unused));
  thread_local std::vector<Complete> complete;
  complete.clear();
  Lock lock = house_->lock();
  tell(wire::at(house_->loop().now(), {.what = Happening::kBackwardDone, .iteration = iteration}));
  PACELINE_RETURN_IF_ERROR(check_rates_told());
  PACELINE_RETURN_IF_ERROR(wait_unused_layers(lock, iteration));
  PACELINE_RETURN_IF_ERROR(whole(wait_for_round(lock)));
  PACELINE_RETURN_IF_ERROR(house_->gates().on_backward_done(iteration, unused, complete));
  PACELINE_RETURN_IF_ERROR(take(lock, complete, iteration));
  house_->gates().next_iteration();
  house_->told().push_back({.backward_done = true});
  tell({.what = Happening::kIterationDone, .iteration = iteration});
  house_->on_progress();
  lock.unlock();
  carrier_->on_backward_told();
  return {};
}

void GradientExchange::forward_done() {
  if (!check_process().ok()) return;
  const Lock lock = house_->lock();
  if (std::exchange(forward_over_, house_->gates().current()) == house_->gates().current()) return;
  const TimePoint now = house_->loop().now();
  for (const Happening what : {Happening::kForwardDone, Happening::kBackwardBegun}) tell(wire::at(now, {.what = what}));
}

Status GradientExchange::wait_gradient_free(std::uint32_t tensor) {
  PACELINE_RETURN_IF_ERROR(check_process());
  Lock lock = house_->lock();
  return whole(
      wait_read(*house_, *carrier_, lock, Gatehouse::kNoLimit, std::nullopt, [&] { return house_->gates().free_of(tensor); }));
}

Result<bool> GradientExchange::wait_free(std::optional<Layer> layer, Duration limit) {
  PACELINE_RETURN_IF_ERROR(check_process());
  if (layer) PACELINE_RETURN_IF_ERROR(check_layer(plan(), *layer));
  Lock lock = house_->lock();
  exchange::GateLedger& gates = house_->gates();
  const TimePoint entered = house_->loop().now();
  if (!layer) tell(wire::at(entered, {.what = Happening::kForwardDone}));
  const auto over = wait_read(*house_, *carrier_, lock, limit, layer, [&] { return layer ? gates.free(*layer) : gates.free(); });
  if (layer) return over;
  const TimePoint now = house_->loop().now();
  tell(wire::during(entered, now, {.what = Happening::kWaitGradients}));
  tell(wire::at(now, {.what = Happening::kBackwardBegun}));
  return over;
}

bool GradientExchange::gradients_free(Layer layer) {
  if (!check_process().ok()) return false;
  const Lock lock = house_->lock();
  return house_->gates().free(layer);
}

void GradientExchange::on_worker_done(Rank who, Iteration last) {
  Lock lock = house_->lock();
  house_->gates().on_worker_done(who, last);
  const Status together = house_->gates().check_together();
  lock.unlock();
  if (!together.ok()) house_->fail_alike(together);
}

void GradientExchange::cancel(const Status& reason) {
  if (check_process().ok()) house_->cancel(reason);
}

std::optional<scheduling::LiveProfile::Plan> GradientExchange::batches() {
  if (!check_process().ok()) return std::nullopt;
  const Lock lock = house_->lock();
  return carrier_->batches();
}

exchange::Account GradientExchange::take_account() {
  if (!check_process().ok()) return {};
  const Lock lock = house_->lock();
  return house_->account().take(house_->loop().now());
}

}  // namespace paceline::exchange
