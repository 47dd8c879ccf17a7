#include "library/worker_node.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checksum.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::library {
namespace {

using runtime::Phase;

// Until a thread that waits looks whether the node is being closed.
constexpr Duration kSlice = std::chrono::milliseconds(50);

TimePoint now() { return std::chrono::steady_clock::now(); }

void copy_initial(const Job::Description& job, std::span<const std::int64_t> offsets, std::vector<float>& values) {
  for (std::size_t tensor = 0; tensor < job.initial.size(); ++tensor) {
    const auto count = static_cast<std::size_t>(offsets[tensor + 1] - offsets[tensor]);
    if (job.initial[tensor] != nullptr && count > 0)
      std::memcpy(values.data() + offsets[tensor], job.initial[tensor], count * sizeof(float));
  }
}

}  // namespace

WorkerNode::WorkerNode(Job::Description job, session::Role role)
    : job_(std::move(job)),
      role_(role == session::Role::kBoth ? PACELINE_BOTH : PACELINE_WORKER),
      offsets_(job_.table.offsets()),
      values_(static_cast<std::size_t>(offsets_.back())),
      gradients_(values_.size()),
      passed_(job_.table.layers.size()),
      announced_(job_.table.tensors.size()) {
  copy_initial(job_, offsets_, values_);
}

Result<std::shared_ptr<WorkerNode>> WorkerNode::begin(Job::Description job, runtime::MemberOptions member) {
  const std::shared_ptr<WorkerNode> node(new WorkerNode(std::move(job), member.role));
  member.table = node->job_.table;
  member.settings = to_settings(node->job_.spec);
  const SignalsBlocked quiet;
  PACELINE_ASSIGN_OR_RETURN(node->process_, runtime::WorkerProcess::begin([] { return transport::try_make_tcp_transport({}); },
                                                                          std::move(member), node->values_, node->gradients_));
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

Result<bool> WorkerNode::joined(Duration limit) {
  const std::lock_guard lock(ends_);
  if (turn_ != Turn::kJoining) return true;
  PACELINE_ASSIGN_OR_RETURN(const bool over, in_slices(limit, [this](Duration slice) { return process_->joined(slice); }));
  if (over) begin_training();
  return over;
}

void WorkerNode::begin_training() {
  const std::lock_guard lock(steps_);
  report_.rank = process_->rank().value;
  stepped_ = process_->first() - 1;
  mark_ = now();
  progress_ = std::make_unique<runtime::ProgressTeller>(*process_, job_.spec.task.iterations);
  current_ = process_->first();
  for (auto& passed : passed_) passed = process_->first();  // the values are there
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
  const std::lock_guard lock(ends_);
  if (turn_ == Turn::kJoining) return require_training("paceline_finish");
  const TimePoint began = now();
  if (turn_ == Turn::kTraining) {
    PACELINE_ASSIGN_OR_RETURN(const bool over, settled(exchange().finish(current_ - 1, limit)));
    if (!over) return false;
    hand_in();
    turn_ = Turn::kReporting;
  }
  if (limit != Duration::max()) limit -= std::min<Duration>(limit, now() - began);
  PACELINE_ASSIGN_OR_RETURN(const bool over, in_slices(limit, [this](Duration slice) { return process_->ended(slice); }));
  if (over) turn_ = Turn::kEnded;
  return over;
}

void WorkerNode::hand_in() {
  const std::lock_guard lock(steps_);
  runtime::add(exchange().take_account(), report_);
  Hash128 hash;
  hash.update(std::as_bytes(std::span(values_)));
  report_.parameters_hash = hash.hex();
  report_.peak_bytes = runtime::peak_memory();
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

WorkerNode::Span WorkerNode::place_in(std::vector<float>& arena, std::uint32_t tensor) const {
  return {arena.data() + offsets_[tensor], offsets_[tensor + 1] - offsets_[tensor]};
}

Result<WorkerNode::Span> WorkerNode::value(std::uint32_t tensor) {
  if (turn_ == Turn::kJoining) return require_training("paceline_tensor_value");
  PACELINE_RETURN_IF_ERROR(check_tensor(tensor));
  return place_in(values_, tensor);
}

Result<WorkerNode::Span> WorkerNode::gradient(std::uint32_t tensor) {
  if (turn_ == Turn::kJoining) return require_training("paceline_tensor_gradient");
  PACELINE_RETURN_IF_ERROR(check_tensor(tensor));
  return place_in(gradients_, tensor);
}

// --- an iteration ---

Result<bool> WorkerNode::wait_layer(std::int32_t layer, Iteration iteration, Duration limit) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_wait_layer"));
  PACELINE_ASSIGN_OR_RETURN(const bool over, settled(exchange().wait_layer(Layer{layer}, iteration, limit)));
  if (over) passed_[static_cast<std::size_t>(layer)] = iteration;
  return over;
}

Result<bool> WorkerNode::wait_all(Iteration iteration, Duration limit) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_wait_all"));
  if (iteration < 0 || iteration >= current_)
    return refusal(kOrder, "iteration", "iteration {} is not over; the last one is {}", iteration, current_ - 1);
  PACELINE_ASSIGN_OR_RETURN(const bool over, settled(exchange().wait_all(iteration, limit)));
  if (over) {
    for (auto& passed : passed_) passed = iteration + 1;
  }
  return over;
}

Result<bool> WorkerNode::wait_free(std::int32_t layer, Duration limit) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_wait_free"));
  if (layer == -1) return settled(exchange().wait_free(std::nullopt, limit));
  return settled(exchange().wait_free(Layer{layer}, limit));
}

// The tensor's gradient may come now, and has not come yet.
Status WorkerNode::in_turn(std::uint32_t tensor) {
  PACELINE_RETURN_IF_ERROR(check_tensor(tensor));
  const Iteration current = current_;
  const auto& info = job_.table.tensors[tensor];
  if (passed_[static_cast<std::size_t>(info.layer.index)] != current) {
    return refusal(kOrder, "tensor",
                   "the gradient of \"{}\" in iteration {} comes before its values were waited for; call paceline_wait_layer for "
                   "layer {} first",
                   info.name, current, info.layer.index);
  }
  if (announced_[tensor].exchange(current) != current) return {};
  return refusal(kOrder, "tensor", "the gradient of \"{}\" came twice in iteration {}; one backward per iteration", info.name,
                 current);
}

void WorkerNode::begin_backward() {
  if (!in_backward_.exchange(true)) exchange().forward_done();
}

Status WorkerNode::gradient_ready(std::uint32_t tensor, const void* data) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_gradient_ready"));
  PACELINE_RETURN_IF_ERROR(in_turn(tensor));
  begin_backward();
  if (data != nullptr) {
    PACELINE_RETURN_IF_ERROR(settled(exchange().wait_gradients_free(job_.table.tensors[tensor].layer)));
    const Span place = place_in(gradients_, tensor);
    if (place.count > 0 && data != place.first)
      std::memcpy(place.first, data, static_cast<std::size_t>(place.count) * sizeof(float));
  }
  return settled(exchange().gradient_ready(tensor));
}

Status WorkerNode::backward_done(Iteration iteration, std::span<const std::uint32_t> unused) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_backward_done"));
  const std::lock_guard lock(steps_);
  if (stepped_ + 1 != current_)
    return refusal(kOrder, "node", "iteration {} is over, but paceline_step_done was not called for it", current_ - 1);
  begin_backward();
  PACELINE_RETURN_IF_ERROR(settled(exchange().backward_done(iteration, unused)));
  in_backward_ = false;
  ++current_;
  return {};
}

Result<bool> WorkerNode::step_done(const paceline_step& step) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_step_done"));
  const std::lock_guard lock(steps_);
  if (stepped_ + 2 != current_)
    return refusal(kOrder, "node", "iteration {} is not over; call paceline_backward_done first, once for each step",
                   current_.load());
  const double before = report_.phases.total();
  const TimePoint ended = now();
  const double waited = runtime::add(exchange().take_account(), report_);
  if (step.phases == 0) report_.phases[Phase::kForward] += std::max(0.0, seconds(ended - mark_) - waited);
  for (std::size_t phase = 0; phase < step.phases; ++phase) report_.phases.seconds[phase] += step.phase_seconds[phase];
  mark_ = ended;
  if (report_.iterations++ == 0) report_.loss_first = step.loss;
  report_.loss_last = step.loss;
  report_.samples += step.samples;
  report_.iteration_seconds.add(report_.phases.total() - before);
  ++stepped_;
  const Result<bool> last = process_->end_iteration(stepped_);
  if (!last.ok()) return settled(last);
  progress_->tell(report_, stepped_, stepped_, -1,
                  *last ? runtime::ProgressTeller::Importance::kLast : runtime::ProgressTeller::Importance::kUsual);
  return last;
}

}  // namespace paceline::library
