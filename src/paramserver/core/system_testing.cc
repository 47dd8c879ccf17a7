// The workers of a stepped job, and how it is run.
#include "paramserver/core/system_testing.h"

namespace paceline::paramserver::testing {

Case random_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](std::uint64_t from, std::uint64_t to) { return from + random() % (to - from + 1); };
  Case job;
  job.seed = seed;
  std::vector<std::vector<std::int64_t>> sizes(draw(1, 4));
  for (auto& layer : sizes) {
    layer.resize(draw(1, 3));
    for (auto& size : layer) size = static_cast<std::int64_t>(draw(0, 8) == 0 ? draw(0, 1) : draw(1, 40));
  }
  sizes[0][0] += 1;
  job::PlanOptions& options = job.options;
  const auto groups = static_cast<std::int32_t>(draw(1, 2));
  job.table = job::testing::table_of(sizes, groups);
  if (groups == 2) options.update.groups = {{1.0, 0.0}, {0.5, 0.01}};
  options.workers = static_cast<std::int32_t>(draw(1, 4));
  options.servers = static_cast<std::int32_t>(draw(1, 3));
  const auto name = scheduling::schedule_names()[draw(0, scheduling::schedule_names().size() - 1)];
  options.schedule = *scheduling::parse_schedule_name(name);
  const scheduling::Cut cuts[] = {scheduling::whole_tensors(), scheduling::balanced_tensors(), scheduling::split_large_tensors(16),
                                  scheduling::slices_of(7)};
  options.schedule.cut = cuts[draw(0, 3)];
  options.schedule.cut.merge = draw(0, 1) == 0 ? 0 : static_cast<std::int64_t>(draw(1, 60));
  if (draw(0, 1) == 0) options.schedule.back = static_cast<scheduling::Return>(draw(0, 4));
  if (draw(0, 2) == 0) options.schedule.push = static_cast<scheduling::PushWhen>(draw(0, 1));
  if (options.schedule.back == scheduling::Return::kPullInBatches && seed % 2 == 0)
    options.schedule.push = scheduling::PushWhen::kInBatches;
  options.update.optimizer.kind = static_cast<tensor::OptimizerKind>(draw(0, 4));
  options.update.optimizer.weight_decay = draw(0, 1) == 0 ? 0 : 0.1;
  options.update.learning_rate = *tensor::parse_schedule("step:0.1,every=2,factor=0.5");
  if (draw(0, 2) == 0) options.update.clip_norm = draw(0, 1) == 0 ? 0.5 : 1e6;
  options.update.non_finite = static_cast<job::NonFinitePolicy>(draw(0, 2));
  options.first = draw(0, 3) == 0 ? 17 : 1;
  job.unused_per_cent = static_cast<unsigned>(draw(0, 2) * 25);
  job.iterations = static_cast<Iteration>(draw(1, 4));
  return job;
}

System::System(const Case& job)
    : job_(job),
      random_(job.seed),
      plan_(*job::Plan::make(job.table, job.options)),
      elements_(static_cast<std::size_t>(plan_->units().elements)) {
  for (std::int32_t s = 0; s < job.options.servers; ++s) {
    servers_.push_back(std::move(Server::make(plan_, Rank{s})).value());
  }
  servers_[static_cast<std::size_t>(plan_->pacing_server().value)]->observe(*this);
  for (std::int32_t w = 0; w < job.options.workers; ++w) {
    workers_.push_back(std::make_unique<Worker>(plan_, Rank{w}, elements_));
    if (job.options.schedule.back == scheduling::Return::kPullInBatches) workers_.back()->core.set_batches(random_batches());
    if (job.options.schedule.push == scheduling::PushWhen::kInBatches) workers_.back()->core.set_push_batches(random_batches());
  }
  auto initial = job::testing::initial_values(job.seed, plan_->units().elements);
  if (job.zero_initial) std::ranges::fill(initial, 0.0F);
  workers_[0]->parameters = initial;
  history_.push_back(initial);
}

void System::run() {
  for (const scheduling::Unit& unit : plan_->units().units) {
    post({Rank{0}, unit.server, wire::Initial{unit.id, job_.options.first - 1}, bytes_of(workers_[0]->parameters, unit.id)});
  }
  const std::int64_t limit = 1000 + 200 * job_.iterations * static_cast<std::int64_t>(plan_->units().units.size() + 5) *
                                        job_.options.workers * (1 + job_.options.servers);
  for (std::int64_t steps = 0; !finished(); ++steps) {
    ASSERT_LT(steps, limit) << "the job hangs";
    now_ += std::chrono::microseconds(1);
    if (!messages_.empty() && random_() % 3 != 0) {
      step_message(random_() % messages_.size());
    } else {
      step_worker(*workers_[random_() % workers_.size()]);
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  while (!messages_.empty()) step_message(random_() % messages_.size());
}

scheduling::Bounds System::random_batches() {
  scheduling::Bounds bounds;
  for (std::int32_t layer = 1; layer < plan_->layers(); ++layer) {
    if (random_() % 3 == 0) bounds.push_back(layer);
  }
  bounds.push_back(plan_->layers());
  return bounds;
}

std::span<std::byte> System::place_of(std::vector<float>& arena, std::uint32_t unit) {
  const auto& planned = plan_->units().units[unit];
  return std::as_writable_bytes(
      std::span<float>(arena).subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements)));
}

void System::step_worker(Worker& worker) {
  const auto rank = static_cast<std::size_t>(worker.core.rank().value);
  if (!job_.slowness.empty() && random_() % job_.slowness[rank] != 0) return;
  switch (worker.phase) {
    case Worker::Phase::kForward:
      return step_forward(worker);
    case Worker::Phase::kBackward:
      return step_backward(worker);
    case Worker::Phase::kFinishing:
      if (!worker.gates.all_open(worker.gates.current())) return;
      copy_staged(worker, worker.gates.awaited(std::nullopt));
      worker.phase = Worker::Phase::kDone;
      return;
    case Worker::Phase::kDone:
      return;
  }
}

bool System::takes_mini_batch(Worker& worker) {
  if (worker.handed_out.empty()) return false;
  if (worker.handed_out.front() > job_.iterations * job_.options.workers) {
    if (!worker.gates.all_open(worker.gates.current())) return false;
    copy_staged(worker, worker.gates.awaited(std::nullopt));
    const Iteration last = worker.gates.current() - 1;
    worker.gates.next_iteration();
    worker.core.on_finished();
    for (Rank server{0}; server.value < job_.options.servers; ++server.value) {
      if (plan_->units().of_server[static_cast<std::size_t>(server.value)].empty()) continue;
      post({worker.core.rank(), server, wire::Done{last}});
    }
    worker.phase = Worker::Phase::kFinishing;
    return false;
  }
  worker.mini_batches.push_back(worker.handed_out.front());
  worker.handed_out.pop_front();
  return true;
}

void System::copy_staged(Worker& worker, scheduling::UnitRange units) {
  while (const auto unit = worker.core.take_staged(units))
    std::ranges::copy(bytes_of(worker.staging, *unit), place_of(worker.parameters, *unit).begin());
}

void System::step_forward(Worker& worker) {
  const Iteration iteration = worker.gates.current();
  const std::int32_t rank = worker.core.rank().value;
  if (!verdict_checked(worker, iteration)) return;
  if (plan_->uneven() && worker.next_layer == 0 && static_cast<Iteration>(worker.mini_batches.size()) < iteration &&
      !takes_mini_batch(worker))
    return;
  if (!plan_->uneven() && iteration > last()) {
    if (!worker.gates.all_open(iteration)) return;
    copy_staged(worker, worker.gates.awaited(std::nullopt));
    worker.phase = Worker::Phase::kDone;
    return;
  }
  const Layer layer{worker.next_layer};
  if (layer.index < plan_->layers()) {
    // A layer none of whose tensors is used is not run: its gate is not passed.
    if (used_in(layer, rank, iteration)) {
      if (!worker.gates.open(layer, iteration)) return;
      copy_staged(worker, worker.gates.awaited(layer));
      check_values(worker, layer, iteration);
    }
    ++worker.next_layer;
    return;
  }
  if (!worker.gates.free()) return;
  for (const auto& other : workers_) {
    if (other->phase == Worker::Phase::kFinishing || other->phase == Worker::Phase::kDone) continue;
    const bool all_pushed =
        other->phase == Worker::Phase::kBackward &&
        std::ranges::all_of(other->order, [&](std::uint32_t tensor) { return job_.table.tensors[tensor].elements() == 0; });
    largest_lead = std::max(largest_lead, iteration - other->core.current() - (all_pushed ? 1 : 0));
  }
  worker.seen = worker.parameters;
  if (job_.options.sync.kind == sync::SyncKind::kElasticBsp) worker.began_with[iteration] = worker.parameters;
  worker.order.clear();
  worker.unused.clear();
  for (std::uint32_t tensor = 0; tensor < job_.table.tensors.size(); ++tensor) {
    if (job_.table.tensors[tensor].frozen && iteration % 2 == 0) continue;  // it may be called unused, or not
    (is_unused(rank, iteration, tensor) ? worker.unused : worker.order).push_back(tensor);
  }
  std::ranges::shuffle(worker.order, random_);
  for (std::size_t i = 0; i < elements_; ++i) worker.gradients[i] = gradient(rank, iteration, static_cast<std::int64_t>(i));
  worker.phase = Worker::Phase::kBackward;
}

bool System::used_in(Layer layer, std::int32_t rank, Iteration iteration) const {
  for (std::uint32_t tensor = 0; tensor < job_.table.tensors.size(); ++tensor) {
    if (job_.table.tensors[tensor].layer == layer &&
        !job::testing::is_unused(job_.seed, rank, iteration, tensor, job_.unused_per_cent))
      return true;
  }
  return false;
}

void System::check_values(const Worker& worker, Layer layer, Iteration iteration) {
  if (job_.options.sync.kind != sync::SyncKind::kBsp) return;
  const auto& expected = parameters_after(iteration - 1);
  const scheduling::UnitRange units = plan_->units().of_layer[static_cast<std::size_t>(layer.index)];
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    ASSERT_TRUE(same_bits(bytes_of(worker.parameters, unit), bytes_of(expected, unit)))
        << "seed " << job_.seed << ": worker " << worker.core.rank().value << " runs layer " << layer.index << " of iteration "
        << iteration << " with other values";
  }
}

const std::vector<float>& System::parameters_after(Iteration iteration) {
  const auto index = static_cast<std::size_t>(iteration - (job_.options.first - 1));
  if (!reference_) reference_ = std::make_unique<Reference>(job_.table, job_.options.update, history_[0]);
  while (history_.size() <= index) {
    const Iteration next = job_.options.first - 1 + static_cast<Iteration>(history_.size());
    std::vector<std::vector<float>> gradients;
    std::vector<std::vector<bool>> unused;
    for (std::int32_t w = 0; w < job_.options.workers; ++w) {
      gradients.emplace_back();
      for (std::size_t i = 0; i < elements_; ++i) gradients.back().push_back(gradient(w, next, static_cast<std::int64_t>(i)));
      unused.emplace_back();
      for (std::uint32_t t = 0; t < job_.table.tensors.size(); ++t) unused.back().push_back(is_unused(w, next, t));
    }
    reference_->train(next, gradients, unused);
    history_.push_back(reference_->parameters);
  }
  return history_[index];
}

void System::step_backward(Worker& worker) {
  const Iteration iteration = worker.gates.current();
  if (!worker.order.empty()) {
    complete_.clear();
    const Status status = worker.gates.on_gradient(worker.order.back(), complete_);
    ASSERT_TRUE(status.ok()) << status.message();
    worker.core.on_complete(complete_, now_, sends_);
    worker.order.pop_back();
  } else {
    if (!worker.gates.all_open(iteration)) return;
    // Backward may read all parameters until now.
    for (std::int32_t layer = 0; layer < plan_->layers(); ++layer) {
      if (!used_in(Layer{layer}, worker.core.rank().value, iteration)) continue;
      const scheduling::UnitRange units = plan_->units().of_layer[static_cast<std::size_t>(layer)];
      for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
        ASSERT_TRUE(same_bits(bytes_of(worker.parameters, unit), bytes_of(worker.seen, unit)))
            << "seed " << job_.seed << ": parameters changed under backward";
      }
    }
    complete_.clear();
    const Status status = worker.gates.on_backward_done(iteration, worker.unused, complete_);
    ASSERT_TRUE(status.ok()) << status.message();
    worker.core.on_complete(complete_, now_, sends_);
    worker.core.on_backward_done(now_, sends_);
    worker.gates.next_iteration();
    worker.phase = Worker::Phase::kForward;
    worker.next_layer = 0;
  }
  send_all(worker);
}

void System::send_all(Worker& worker) {
  for (const Send& send : sends_) {
    Transit transit{worker.core.rank(), send.to, send.message};
    if (const auto* push = std::get_if<wire::Push>(&send.message)) {
      if (push->unused_parts != scheduling::all_parts(plan_->units().units[push->unit]))
        transit.payload = bytes_of(worker.gradients, push->unit);
    } else if (const auto* pushes = std::get_if<wire::Pushes>(&send.message)) {
      transit.payload = bytes_of(worker.gradients, pushes->unit);  // of the first unit; receiving takes the others' too
      ++batched_pushes;
    }
    post(transit);
  }
  sends_.clear();
}

}  // namespace paceline::paramserver::testing
