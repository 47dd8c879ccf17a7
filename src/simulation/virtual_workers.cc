// Of VirtualCluster: its workers.
#include <algorithm>

#include "base/check.h"
#include "simulation/virtual_cluster.h"

namespace paceline::simulation {

void VirtualCluster::on_message(Worker& to, const Parcel& parcel) {
  if (const auto* handed_out = std::get_if<wire::MiniBatch>(&parcel.message)) {
    to.handed_out.push_back(handed_out->number);
  } else {
    const Status status = wire::deliver(to.core, parcel.from, parcel.message, now(), sends_).value();
    PACELINE_CHECK(status.ok(), "{}", status.message());
  }
  send_all(to);
  go_on(to);
}

void VirtualCluster::send_all(const Worker& of) {
  for (const paramserver::Send& leaving : sends_)
    send({of.core.rank(), leaving.to, leaving.message, payload_bytes(leaving.message)});
  sends_.clear();
}

// Starts what the worker may compute next.
void VirtualCluster::go_on(Worker& of) {
  if (of.computing || !in_iteration(of)) return;
  double seconds = 0;
  if (of.phase == Worker::Phase::kForward && of.layer < plan_->layers()) {
    if (!of.gates->open(Layer{of.layer}, of.gates->current())) return;
    seconds = job_.forward[static_cast<std::size_t>(of.layer)];
  } else {
    if (of.phase == Worker::Phase::kForward) {
      if (!of.gates->free()) return;
      of.phase = Worker::Phase::kBackward;
    }
    seconds = job_.backward[static_cast<std::size_t>(of.layer - 1)];
  }
  of.computing = true;
  network_.wake(static_cast<std::uint32_t>(of.core.rank().value), seconds * of.slowness);
}

// Between two iterations it begins the next one or finishes, where it may.
bool VirtualCluster::in_iteration(Worker& of) {
  const Iteration iteration = of.gates->current();
  if (of.begun == iteration) return true;
  if (of.phase == Worker::Phase::kFinishing && of.gates->all_open(iteration)) {
    of.phase = Worker::Phase::kDone;
    ++workers_done_;
  }
  if (of.phase != Worker::Phase::kForward || !may_begin(of)) return false;
  of.begun = iteration;
  of.slowness = job::slowness(job_.speed, of.core.rank(), iteration);
  return true;
}

// Where workers do different numbers of iterations one is begun with a mini-batch. When none is left for it, it waits for the
// values of what it has done and tells the servers.
bool VirtualCluster::may_begin(Worker& of) {
  if (!plan_->uneven()) {
    if (of.gates->current() <= last_) return true;
    if (to_the_end_) finish(of);
    return false;
  }
  if (of.handed_out.empty()) return false;
  if (to_the_end_ && of.handed_out.front() > last_ * cluster_.workers) {
    finish(of);
    return false;
  }
  of.handed_out.erase(of.handed_out.begin());
  return true;
}

void VirtualCluster::finish(Worker& of) {
  const Iteration last = of.gates->current() - 1;
  if (!of.gates->all_open(last + 1)) return;
  if (!plan_->uneven()) {
    of.phase = Worker::Phase::kDone;
    ++workers_done_;
    return;
  }
  of.phase = Worker::Phase::kFinishing;
  of.gates->next_iteration();
  of.core.on_finished();
  for (const Server& server : servers_) {
    if (server.ledger.books().units().empty()) continue;
    send({.from = of.core.rank(), .to = server.ledger.books().server(), .message = wire::Done{last}});
  }
}

void VirtualCluster::on_computed(Worker& of) {
  of.computing = false;
  if (of.phase == Worker::Phase::kForward) {
    ++of.layer;
    return go_on(of);
  }
  --of.layer;
  const auto& tensors = tensors_[static_cast<std::size_t>(of.layer)];
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    complete_.clear();
    const Status known = of.gates->on_gradient(*tensor, complete_);
    PACELINE_CHECK(known.ok(), "{}", known.message());
    of.core.on_complete(complete_, now(), sends_);
  }
  if (of.layer == 0) end_iteration(of);
  send_all(of);
  go_on(of);
}

void VirtualCluster::end_iteration(Worker& of) {
  complete_.clear();
  const Status over = of.gates->on_backward_done(of.gates->current(), {}, complete_);
  PACELINE_CHECK(over.ok(), "{}", over.message());
  of.core.on_complete(complete_, now(), sends_);
  of.core.on_backward_done(now(), sends_);
  of.gates->next_iteration();
  of.phase = Worker::Phase::kForward;
  of.ends.push_back(network_.now());
  ++iterations_ended_;
  const bool marks = plan_->uneven() ? iterations_ended_ % cluster_.workers == 0 : of.core.rank() == Rank{0};
  if (marks) marks_.push_back({network_.now(), network_.sent()});
}

}  // namespace paceline::simulation
