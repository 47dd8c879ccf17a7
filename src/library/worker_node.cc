#include "library/worker_node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "transport/open/open.h"

namespace paceline::library {
namespace {

// Until a thread that waits looks whether the node is being closed.
constexpr Duration kSlice = std::chrono::milliseconds(50);

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

WorkerNode::WorkerNode(Job::Description job, exchange::OptimizerState state, wire::Roles roles)
    : job_(std::move(job)),
      role_(roles.hold(wire::Role::kServer) ? PACELINE_BOTH : PACELINE_WORKER),
      offsets_(job_.table.offsets()),
      values_(static_cast<std::size_t>(offsets_.back())),
      gradients_(values_.size()),
      state_(std::move(state)) {
  for (std::uint32_t place = 0; place < job_.given.size(); ++place) {
    if (job_.given[place].initial != nullptr) copy_given(place, job_.given[place].initial, span_in(values_, place));
  }
}

Result<std::shared_ptr<WorkerNode>> WorkerNode::begin(Job::Description job, runtime::MemberOptions member,
                                                      const std::optional<JobKey>& key) {
  exchange::OptimizerState state = std::exchange(job.state, {});
  const std::shared_ptr<WorkerNode> node(new WorkerNode(std::move(job), std::move(state), member.roles));
  member.table = node->job_.table;
  member.settings = to_settings(node->job_.spec);
  const SignalsBlocked quiet;
  const auto open = [key, at = member.coordinator] { return transport::open(at, {.key = key}); };
  PACELINE_ASSIGN_OR_RETURN(node->process_,
                            runtime::WorkerProcess::begin(open, std::move(member), node->values_, node->gradients_, &node->state_));
  return node;
}

// --- joining and ending ---

// Whoever closes the node waits for those who are inside.
template <typename Wait>
Result<bool> WorkerNode::in_slices(Duration limit, Wait wait) {
  const TimePoint began = now();
  for (;;) {
    const Duration left = limit - std::min<Duration>(limit, now() - began);
    PACELINE_ASSIGN_OR_RETURN(const bool over, wait(std::min(left, kSlice)));
    if (over) return true;
    if (closing_) return Status(ErrorKind::kCancelled, "the worker was closed");
    if (now() - began >= limit) return false;
  }
}

// Who comes while another thread joins or finishes waits no longer than it may. `call` gets what is left of the limit.
template <typename Call>
Result<bool> WorkerNode::one_at_a_time(Duration limit, Call call) {
  const TimePoint began = now();
  std::unique_lock lock(ends_);
  PACELINE_ASSIGN_OR_RETURN(const bool mine, in_slices(limit, [&](Duration slice) -> Result<bool> {
                              return left_.wait_until(lock, now() + slice, [this] { return !inside_; });
                            }));
  if (!mine) return false;
  inside_ = true;
  lock.unlock();
  const auto leave = [this](void*) {
    const std::lock_guard again(ends_);
    inside_ = false;
    left_.notify_one();
  };
  const std::unique_ptr<void, decltype(leave)> leaves(this, leave);
  return call(limit == Duration::max() ? limit : limit - std::min<Duration>(limit, now() - began));
}

Result<bool> WorkerNode::joined(Duration limit) {
  if (turn_ != Turn::kJoining) return true;
  return one_at_a_time(limit, [this](Duration left) -> Result<bool> {
    if (turn_ != Turn::kJoining) return true;
    PACELINE_ASSIGN_OR_RETURN(const bool over, in_slices(left, [this](Duration slice) { return process_->joined(slice); }));
    if (over) begin_training();
    return over;
  });
}

void WorkerNode::begin_training() {
  const std::lock_guard lock(steps_);
  report_.rank = process_->rank().value;
  stepped_ = saved_ = process_->first() - 1;
  mark_ = now();
  progress_ = std::make_unique<training::ProgressTeller>(*process_, job_.spec.task.iterations);
  state_ = {};  // what was given is with the servers
  turn_ = Turn::kTraining;
}

paceline_info WorkerNode::info() const {
  paceline_info info{};
  info.role = role_;
  info.rank = -1;
  info.elements = offsets_.back();
  if (turn_ == Turn::kJoining) return info;
  info.rank = process_->rank().value;
  info.workers = process_->workers();
  info.servers = process_->settings().has_servers() ? exchange().plan().options().servers : 0;
  info.first_iteration = process_->first();
  return info;
}

Result<bool> WorkerNode::finish(Duration limit) {
  if (turn_ == Turn::kJoining) PACELINE_RETURN_IF_ERROR(require_training("paceline_finish"));
  return one_at_a_time(limit, [this](Duration left) { return finish_alone(left); });
}

Result<bool> WorkerNode::finish_alone(Duration limit) {
  const TimePoint began = now();
  if (turn_ == Turn::kTraining) {
    PACELINE_ASSIGN_OR_RETURN(const bool over, settled(exchange().finish(exchange().current() - 1, limit)));
    if (!over) return false;
    hand_in();
    turn_ = Turn::kReporting;
  }
  if (limit != Duration::max()) limit -= std::min<Duration>(limit, now() - began);
  PACELINE_ASSIGN_OR_RETURN(const bool over, in_slices(limit, [this](Duration slice) { return process_->ended(slice); }));
  if (over) turn_ = Turn::kEnded;
  return over;
}

// What the program has besides its parameters it saves by itself.
void WorkerNode::save_if_due(bool last) {
  if (saved_ == stepped_ || !process_->checkpoint_due(stepped_, last)) return;
  saved_ = stepped_;
  process_->save_part(stepped_);
}

void WorkerNode::hand_in() {
  const std::lock_guard lock(steps_);
  save_if_due(/*last=*/true);
  training::add(exchange().take_account(), report_);
  Hash128 hash;
  hash.update(std::as_bytes(std::span(values_)));
  report_.parameters_hash = hash.hex();
  report_.peak_bytes = report::peak_memory();
  process_->hand_in(report_);
}

void WorkerNode::fail(const Status& reason) { static_cast<void>(process_->fail(reason)); }

void WorkerNode::stop() {
  closing_ = true;
  if (turn_ == Turn::kTraining) exchange().cancel(Status(ErrorKind::kCancelled, "the worker was closed"));
}

void WorkerNode::end(Duration limit) {
  process_->shorten_farewell(limit);
  process_.reset();
}

// --- turns ---

Status WorkerNode::require_training(const char* call) const {
  switch (turn_) {
    case Turn::kJoining:
      return refusal(kOrder, "node", "{} comes before the worker has joined; call paceline_wait_joined until it returns 0", call);
    case Turn::kTraining:
      return {};
    case Turn::kReporting:
    case Turn::kEnded:
      break;
  }
  return refusal(kOrder, "node", "{} comes after paceline_finish, which ends the worker's part", call);
}

Status WorkerNode::settled(const Status& status) {
  if (status.ok() || status.kind() == ErrorKind::kBadRequest || closing_) return status;
  return process_->fail(status);
}

Result<bool> WorkerNode::settled(const Result<bool>& over) {
  if (over.ok()) return over;
  return settled(over.status());
}

Status WorkerNode::check_tensor(std::uint32_t tensor) const {
  if (tensor < job_.table.tensors.size()) return {};
  return refusal("illegal", "tensor", "tensor {} does not exist; the job has {}", tensor, job_.table.tensors.size());
}

// Widening is exact.
void WorkerNode::copy_given(std::uint32_t place, const void* data, Span to) const {
  if (to.count == 0 || data == to.first) return;
  const auto count = static_cast<std::size_t>(to.count);
  if (job_.given[place].type == tensor::DType::kFloat32) {
    std::memcpy(to.first, data, count * sizeof(float));  // from any address
  } else {
    tensor::convert(std::span(to.first, count), {data, job_.given[place].type, count});
  }
}

WorkerNode::Span WorkerNode::span_in(std::vector<float>& arena, std::uint32_t place) const {
  return {arena.data() + offsets_[place], offsets_[place + 1] - offsets_[place]};
}

// Nothing: its gate is open for ever.
Result<std::optional<Layer>> WorkerNode::layer_of(std::int32_t layer) const {
  if (layer >= 0 && layer < job_.numbers.layers()) return job_.numbers.layer(layer);
  return refusal("illegal", "layer", "layer {} does not exist; the job has {}", layer, job_.numbers.layers());
}

Result<WorkerNode::Span> WorkerNode::value(std::uint32_t tensor) {
  if (turn_ == Turn::kJoining) PACELINE_RETURN_IF_ERROR(require_training("paceline_tensor_value"));
  PACELINE_RETURN_IF_ERROR(check_tensor(tensor));
  return span_in(values_, job_.numbers.place(tensor));
}

Result<WorkerNode::Span> WorkerNode::gradient(std::uint32_t tensor) {
  if (turn_ == Turn::kJoining) PACELINE_RETURN_IF_ERROR(require_training("paceline_tensor_gradient"));
  PACELINE_RETURN_IF_ERROR(check_tensor(tensor));
  return span_in(gradients_, job_.numbers.place(tensor));
}

}  // namespace paceline::library
