#include "runtime/node.h"

#include <algorithm>

#include "job/make_plan.h"
#include "job/option.h"
#include "runtime/server_seat.h"

namespace paceline::runtime {
namespace {

Result<BegunJob> begun_job(const wire::Welcome& welcome) {
  BegunJob job{.rank = Rank{welcome.rank}, .workers = welcome.workers, .settings = {}, .seal = {}, .plan = {}};
  PACELINE_ASSIGN_OR_RETURN(job.settings, job::from_settings(welcome.settings));
  PACELINE_ASSIGN_OR_RETURN(job.seal, checkpoint::CheckpointSeal::from_file(job.settings.saving.key_file));
  const auto servers = static_cast<std::int32_t>(welcome.servers.size());
  PACELINE_ASSIGN_OR_RETURN(job.plan,
                            make_plan(job.settings, welcome.table, welcome.workers, servers, job.settings.saving.iteration + 1));
  return job;
}

}  // namespace

Node::Node(transport::Transport& transport, MemberOptions options, SeatHandler* worker, Ended ended)
    : Member(transport, std::move(options)), ended_(std::move(ended)) {
  if (holds(wire::Role::kServer)) {
    server_ = std::make_unique<ServerSeat>(*this);
    seats_.push_back(server_.get());
  }
  if (worker != nullptr) seats_.push_back(worker);
}

Node::~Node() { wait_prepared(); }

std::unique_ptr<Node> make_server(transport::Transport& transport, MemberOptions options,
                                  std::function<void(const wire::Stop&)> ended) {
  options.roles = options.hub;
  return std::make_unique<Node>(
      transport, std::move(options), nullptr,
      [ended = std::move(ended)](Node& node, const wire::Stop& stop) { node.say_goodbye([ended, stop] { ended(stop); }); });
}

void Node::say_goodbye(std::function<void()> done, Duration at_most) { leave(std::min(farewell_, at_most), std::move(done)); }

void Node::tell_timeline() {
  if (recorder_ != nullptr) send_timeline(recorder_->parts([this](TimePoint at) { return reading(at); }));
}

Result<JobStart> Node::on_welcome(const wire::Welcome& welcome) {
  PACELINE_ASSIGN_OR_RETURN(const BegunJob job, begun_job(welcome));
  if (job.settings.watching.trace) recorder_ = std::make_unique<timeline::TimelineRecorder>();
  JobStart start{.egress = job.plan->egress_rules(), .events = recorder_.get()};
  for (SeatHandler* seat : seats_) {
    PACELINE_ASSIGN_OR_RETURN(start.ends[seat->role()], seat->begin(job));
  }
  if (!job.settings.saving.from.empty()) {
    start.prepare = [this]() -> Status {
      for (SeatHandler* seat : seats_) PACELINE_RETURN_IF_ERROR(seat->restore());
      return {};
    };
  }
  return start;
}

void Node::on_connected() {
  for (SeatHandler* seat : seats_) seat->on_connected();
}

void Node::on_park() {
  for (SeatHandler* seat : seats_) seat->on_park();
}

void Node::on_finish_at(Iteration last) {
  for (SeatHandler* seat : seats_) seat->on_finish_at(last);
}

void Node::on_worker_done(Rank worker, Iteration last) {
  for (SeatHandler* seat : seats_) seat->on_worker_done(worker, last);
}

void Node::on_reached(Rank who, Iteration reached) {
  for (SeatHandler* seat : seats_) seat->on_reached(who, reached);
}

// The record is large, and a job that failed has none.
void Node::on_end(const wire::Stop& stop) {
  if (recorder_ != nullptr && stop.kind != wire::StopKind::kFailed) farewell_ = timeline::TimelineRecorder::kFarewellLimit;
  end_seats(seats_.size(), stop);
}

void Node::end_seats(std::size_t left, const wire::Stop& stop) {
  if (left == 0) return ended_(*this, stop);
  seats_[left - 1]->end(stop, [this, left, stop] { end_seats(left - 1, stop); });
}

}  // namespace paceline::runtime
