// A process of a job: its membership, and who works in each of its seats. What the seats share stands here once: the job's settings
// and plan, the recorder of --trace, the way out. The node makes its server. It is given its worker, which owns the training thread
// (runtime/worker_process.h).
//
// Threads: belongs to the transport's loop.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "job/plan.h"
#include "job/spec.h"
#include "runtime/member.h"
#include "timeline/recorder.h"

namespace paceline::runtime {

// A job that has begun, as its members derive it alike from their welcome.
struct BegunJob {
  Rank rank;
  std::int32_t workers = 0;
  job::JobSpec settings;
  checkpoint::CheckpointSeal seal;
  std::shared_ptr<const job::Plan> plan;
};

// What a process does in one of its seats.
class SeatHandler {
 public:
  virtual ~SeatHandler() = default;
  virtual wire::Role role() const = 0;
  // The job has begun: from here on the end takes messages. An error fails the job: what is wrong with the plan.
  virtual Result<session::ChannelEnd*> begin(const BegunJob& job) = 0;
  // Of a job that goes on from a checkpoint, which this reads. On a thread of its own, behind begin(); meanwhile nothing else is
  // called but end(), and the end gets no message. An error fails the job.
  virtual Status restore() { return {}; }
  virtual void on_connected() {}                   // as in MemberEvents
  virtual void on_park() {}                        // likewise
  virtual void on_finish_at(Iteration) {}          // likewise
  virtual void on_worker_done(Rank, Iteration) {}  // likewise
  virtual void on_reached(Rank, Iteration) {}      // likewise
  // The job is over, perhaps before it began. Calls `done` once, when nothing is left to do in this seat.
  virtual void end(const wire::Stop& stop, std::function<void()> done) = 0;
};

class Node final : public Member {
 public:
  // With the seats in `options`, and the given worker; null: it has no seat. Transport and worker outlive the node. `ended`: once,
  // last: the job is over for all seats.
  using Ended = std::function<void(Node& node, const wire::Stop& stop)>;
  Node(transport::Transport& transport, MemberOptions options, SeatHandler* worker, Ended ended);
  ~Node() override;

  // Says goodbye when all is delivered, which may take so long if that is shorter than otherwise; then `done`.
  void say_goodbye(std::function<void()> done, Duration at_most = Duration::max());

  // For the seats.
  transport::Loop& loop() { return own_loop(); }
  session::Sender& sender() { return channels(); }                    // what they send with
  timeline::TimelineRecorder* recorder() { return recorder_.get(); }  // null without --trace
  void tell_timeline();  // nothing without --trace. Before the report of the seat that records last

 private:
  // MemberEvents
  Result<JobStart> on_welcome(const wire::Welcome& welcome) override;
  void on_connected() override;
  void on_park() override;
  void on_finish_at(Iteration last) override;
  void on_worker_done(Rank worker, Iteration last) override;
  void on_reached(Rank who, Iteration reached) override;
  void on_end(const wire::Stop& stop) override;

  void end_seats(std::size_t left, const wire::Stop& stop);

  Ended ended_;
  std::unique_ptr<timeline::TimelineRecorder> recorder_;
  std::unique_ptr<SeatHandler> server_;
  std::vector<SeatHandler*> seats_;  // in the order in which they begin; they end the other way round
  Duration farewell_ = session::Endpoint::kFarewell;
};

// A process that is only a server: `ended` is called when its goodbyes are said too.
std::unique_ptr<Node> make_server(transport::Transport& transport, MemberOptions options,
                                  std::function<void(const wire::Stop&)> ended);

}  // namespace paceline::runtime
