// A whole job: a coordinator on this machine, servers and workers here too or on --hosts, as processes of their own. This process
// starts them, shows how far they are, prints the report, and leaves nothing running.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <map>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error_line.h"
#include "base/text.h"
#include "paceline/progress.h"
#include "paceline/train/endings.h"
#include "paceline/train/going_on.h"
#include "paceline/train/hosts.h"
#include "paceline/train/metrics.h"
#include "paceline/train/roles.h"
#include "paceline/train/signals.h"
#include "paceline/train/trainer_program.h"
#include "paceline/train/worker_program.h"
#include "process/child.h"
#include "report/report.h"
#include "session/endpoint.h"
#include "transport/open/open.h"

namespace paceline::cli {
namespace {

using report::Json;
// How long children may take to end by themselves once one of them has said why, or the user has asked twice; and how long what
// they print is read when they have ended and somebody else still holds the other end.
constexpr Duration kGrace = std::chrono::milliseconds(800), kLastWords = std::chrono::milliseconds(1500);
constexpr Duration kLastReading = std::chrono::seconds(5);  // of who reads --metrics

int report_said(ErrorKind kind, const SaidError& said) { return report_error(Status(kind, said.sentence, {said.code, ""})); }

class WholeJob {
 public:
  explicit WholeJob(const TrainRequest& request) : request_(request) {}

  int run() {
    signals_ = take_signals_by_descriptor();
    if (const Status status = start(); !status.ok()) return report_error(status);
    while (!over()) {
      if (const Status status = serve(); !status.ok()) return report_error(status);
    }
    bar_.reset();
    return conclude();
  }

 private:
  Status start() {
    PACELINE_ASSIGN_OR_RETURN(metrics_, open_metrics(request_));
    PACELINE_ASSIGN_OR_RETURN(pace_, open_pace(request_));
    if (needs_trainer(request_) && !on_hosts()) PACELINE_RETURN_IF_ERROR(trainer_exists());
    PACELINE_ASSIGN_OR_RETURN(key_, HandedKey::make(request_.key));
    if (request_.reference) return add({.label = "the reference", .worker = worker_request(request_, "", -1, "reference")});
    std::vector<std::string> coordinator = coordinator_command(request_);
    const auto security = key_.options();
    coordinator.insert(coordinator.end(), security.begin(), security.end());
    PACELINE_ASSIGN_OR_RETURN(auto child, Child::start("coordinator", coordinator, {}, key_.kept()));
    children_.push_back(std::move(child));
    return {};
  }

  bool on_hosts() const { return !request_.hosts.names.empty(); }

  // `number`: of its kind, by which machines take turns.
  Status add(const JobProcess& process, std::size_t number = 0) {
    PACELINE_ASSIGN_OR_RETURN(auto child, on_hosts() ? start_on_host(request_.hosts, number, process, request_.key)
                                                     : cli::start(process, key_, request_.bind));
    children_.push_back(std::move(child));
    return {};
  }

  Status start_members(const std::string& coordinator) {
    const bool both = request_.role == "both";
    for (std::int32_t rank = 0; rank < request_.servers && !both; ++rank) {
      PACELINE_RETURN_IF_ERROR(add({.label = fmt::format("server {}", rank),
                                    .coordinator = coordinator,
                                    .server = ServerProcess{rank, request_.settings.limits.deadline}},
                                   static_cast<std::size_t>(rank)));
    }
    return start_workers(coordinator, both ? wire::Role::kWorker | wire::Role::kServer : wire::Role::kWorker);
  }

  Status start_workers(const std::string& coordinator, wire::Roles roles) {
    const std::int32_t workers_here = request_.ranks_elsewhere ? 1 : request_.workers;
    std::vector<ForkingTrainer::NamedRequest> forked;
    for (std::int32_t rank = 0; rank < workers_here; ++rank) {
      JobProcess process{.label = wire::PeerName{roles, Rank{rank}}.text(), .coordinator = coordinator};
      process.environment = request_.variables;
      if (!request_.program.empty())
        process.program = {request_.program, rank, request_.workers, request_.servers, ranks_beside(request_, rank)};
      else
        process.worker = worker_request(request_, coordinator, rank, process.label);
      if (!needs_trainer(request_) || workers_here == 1 || on_hosts()) {
        PACELINE_RETURN_IF_ERROR(add(process, static_cast<std::size_t>(rank)));
        continue;
      }
      forked.emplace_back(process.label, Json::parse(encode(listening(*process.worker, key_, request_.bind))));
    }
    if (forked.empty()) return {};
    PACELINE_ASSIGN_OR_RETURN(trainer_, ForkingTrainer::start(forked, key_.kept()));
    children_.push_back(trainer_->take_process());
    forking_ = children_.back().get();
    return {};
  }

  // Waits for signals, lines and deadlines, and deals with what there is.
  Status serve() {
    std::vector<pollfd> ends = {{signals_, POLLIN, 0}};
    for (const auto& child : children_) {
      if (child->output() >= 0) ends.push_back({child->output(), POLLIN, 0});
      if (child->errors() >= 0) ends.push_back({child->errors(), POLLIN, 0});
    }
    if (poll(ends.data(), ends.size(), patience()) < 0 && errno != EINTR)
      return error(ErrorKind::kIo, "cannot wait for processes: errno {}", errno);
    take_signals();
    PACELINE_RETURN_IF_ERROR(read_children());
    notice_endings();
    notice_silence();
    if (kill_at_ && clock_.now() >= *kill_at_) {
      if (programs_go_on_ && interrupts_ == 0) blame_who_runs_on();
      killed_ = true;
      for (const auto& child : children_) child->signal(SIGKILL);
      kill_at_.reset();
    }
    return {};
  }

  // Milliseconds until the next deadline; -1: there is none.
  int patience() const {
    int least = -1;
    for (const auto& deadline : {kill_at_, speaks_by_, read_until_}) {
      if (!deadline) continue;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - clock_.now()).count() + 1;
      const int bounded = static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
      if (least < 0 || bounded < least) least = bounded;
    }
    return least;
  }

  static void keep(std::optional<TimePoint>& deadline, const bool wanted, TimePoint at) {
    if (!wanted) deadline.reset();
    if (wanted && !deadline) deadline = at;
  }

  // What nobody else watches over: the coordinator has to say where it listens, and to end when all others have.
  void notice_silence() {
    const bool ended = children_[0]->ended(), waits_for_end = members_ended();
    keep(read_until_, ended && waits_for_end, clock_.now() + kGrace);
    keep(speaks_by_, !ended && !request_.reference && (!listens_ || waits_for_end),
         clock_.now() + from_seconds(request_.settings.limits.stall_deadline));
    if (!speaks_by_ || clock_.now() < *speaks_by_) return;
    if (blamed_.sentence.empty()) {
      blamed_.sentence = fmt::format("{} (process {}) {} for {}", children_[0]->label(), children_[0]->pid(),
                                     listens_ ? "did not end though all others had" : "did not say where it listens",
                                     to_text(from_seconds(request_.settings.limits.stall_deadline)));
    }
    kill_no_later_than(Duration(0));
  }

  // The process that forks says whom it has forked before it ends.
  bool members_ended() const {
    return std::all_of(children_.begin() + 1, children_.end(),
                       [this](const auto& child) { return child->ended() && (child.get() != forking_ || child->output() < 0); });
  }

  void take_signals() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGCHLD) continue;
      if (++interrupts_ == 1 && (request_.reference || has_gathered()))
        say(stderr, "paceline: stopping after this iteration; again: at once\n");
      children_[0]->signal(SIGTERM);  // the coordinator, or the reference, ends the job in order
      if (interrupts_ >= 2) kill_no_later_than(kGrace);
    }
  }

  Status read_children() {
    // Lines may start children, so the list can grow while it is read.
    for (std::size_t i = 0; i < children_.size(); ++i) {
      Status status;
      children_[i]->read_output([&](const std::string& line) {
        if (children_[i].get() == forking_)
          children_.push_back(trainer_->adopt(line));
        else if (i > 0)
          on_program_line(*children_[i], line);
        else if (status.ok())
          status = on_event(line);
      });
      PACELINE_RETURN_IF_ERROR(status);
      children_[i]->read_errors([&](const std::string& line) { on_error_line(*children_[i], line); });
    }
    return {};
  }

  Status on_event(const std::string& line) {
    const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) return {};
    if (event.contains("listening")) {
      listens_ = true;
      return children_[0]->ended() ? Status() : start_members(event["listening"]);
    }
    if (event.contains("gathered")) gathered_ = true;
    if (event.contains("report")) report_ = event["report"];
    if (event.contains("progress")) on_progress(event["progress"]);
    return {};
  }

  // What a program of the user's own prints.
  void on_program_line(const Child& child, const std::string& line) {
    say(request_.json ? stderr : stdout, prefix(child) + line + "\n");
  }

  std::string prefix(const Child& child) const { return on_hosts() ? fmt::format("[{}] ", child.label()) : ""; }

  void on_progress(const Json& progress) {
    if (progress.contains("pace")) {
      if (pace_) pace_->write(progress["pace"]);
      if (metrics_ && request_.settings.sync.kind != sync::SyncKind::kBsp && progress["pace"].contains("superstep"))
        metrics_->write(progress["pace"]);
      return;
    }
    if (metrics_) metrics_->on_progress(progress);
    const auto last = progress.value("last", std::int64_t{0});
    if (progress.value("rank", 0) != 0 || last == 0) return;  // a program need not say how long it trains
    if (bar_ == nullptr) {
      const auto show = request_.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal;
      bar_ = std::make_unique<ProgressBar>("training", last, show, clock_);
    }
    if (progress.contains("accuracy")) accuracy_ = fmt::format(", accuracy {:.1f} %", 100 * progress["accuracy"].get<double>());
    const Json loss = progress.value("loss", Json());
    bar_->update(progress.value("done", progress.value("iteration", std::int64_t{0})),
                 (loss.is_number() ? fmt::format("loss {:.3f}", loss.get<double>()) : "loss -") + accuracy_);
  }

  void on_error_line(const Child& child, const std::string& line) {
    auto said = read_error_line(line);
    if (!said) return say(stderr, prefix(child) + line + "\n");
    // The coordinator's verdict counts most; else what was said first.
    if (first_error_.sentence.empty() || &child == children_[0].get()) first_error_ = std::move(*said);
  }

  void notice_endings() {
    std::vector<Ending> noticed;
    // The coordinator last: if it has ended before one of the others, its end is noticed too.
    for (std::size_t i = children_.size(); i-- > 0;) {
      Child& child = *children_[i];
      if (child.ended() || !child.try_wait()) continue;
      // Whom this process has killed is not to blame.
      noticed.push_back({.process = i, .killed = killing_signal(child) > 0, .well = child.wait_status() == 0 || killed_});
    }
    for (const Ending& ending : by_cause(std::move(noticed))) on_ending(ending, *children_[ending.process]);
  }

  void on_ending(const Ending& ending, const Child& child) {
    if (!ending.well && ending.killed && how_lost_.empty()) how_lost_ = fmt::format(". {}", how_it_ended(child).sentence);
    if (ending.process == 0) {
      // The job is over; who does not end by itself is ended, and nobody is blamed. A user's program may have more to do.
      if (!ending.well && blamed_.sentence.empty()) blamed_ = how_it_ended(child);
      programs_go_on_ = !request_.program.empty() && has_gathered() && ended_in_order(child);
      kill_no_later_than(programs_go_on_ ? from_seconds(request_.settings.limits.stall_deadline) : kGrace);
    } else if (ending.well && !joined_before_it_ended(child)) {
      blamed_ = {fmt::format("{} ended without joining the job", named(child)), "never-joined"};
      first_error_ = blamed_;
      first_error_.sentence +=
          "; a program that 'paceline run' starts joins by paceline::Worker (paceline/torch.h) or paceline.torch.attach";
      kill_no_later_than(kGrace);
    } else if (!ending.well && blamed_.sentence.empty()) {
      // In a job that has begun the others find out by themselves within the deadline, and know more.
      const bool others_know = ending.killed && joined_before_it_ended(child);
      blamed_ = how_it_ended(child);
      kill_no_later_than(others_know ? from_seconds(request_.settings.limits.deadline) + kLastWords : kGrace);
    }
  }

  bool is_remote(const Child& child) const { return on_hosts() && &child != children_[0].get(); }
  std::string named(const Child& child) const {
    return is_remote(child) ? child.label() : fmt::format("{} (process {})", child.label(), child.pid());
  }

  int killing_signal(const Child& child) const { return signal_that_killed(child.wait_status(), is_remote(child)); }

  SaidError how_it_ended(const Child& child) const {
    constexpr int kOfSsh = 255, kNotFound = 127;
    const int code = is_remote(child) && WIFEXITED(child.wait_status()) ? WEXITSTATUS(child.wait_status()) : 0;
    // A program may end with these codes as well.
    const std::string exited = fmt::format("{} exited with code {}", named(child), code);
    if (code == kOfSsh) return {exited + ", which is ssh's when it does not reach a machine, or not any more", "ssh"};
    if (code == kNotFound) return {exited + ": no such program there; --remote says where paceline lies", "not-installed"};
    if (const int signal = killing_signal(child); signal > 0)
      return {fmt::format("{} was killed by signal {}", named(child), signal), ""};
    return {fmt::format("{} {}", named(child), child.ending()), "program-failed"};
  }

  static bool ended_in_order(const Child& child) {
    return WIFEXITED(child.wait_status()) &&
           (WEXITSTATUS(child.wait_status()) == 0 || WEXITSTATUS(child.wait_status()) == kInterrupted);
  }

  void blame_who_runs_on() {
    const auto runs_on = std::ranges::find_if(children_, [](const auto& child) { return !child->ended(); });
    if (runs_on == children_.end() || !blamed_.sentence.empty()) return;
    blamed_.sentence =
        fmt::format("{} still ran {} after the end of the job, and was killed; --stall-deadline says how long it may",
                    named(**runs_on), to_text(from_seconds(request_.settings.limits.stall_deadline)));
  }

  bool joined_before_it_ended(const Child& child) {
    return killed_ || interrupts_ > 0 || request_.reference || &child == forking_ || !blamed_.sentence.empty() ||
           children_[0]->ended() || has_gathered();
  }

  // The coordinator's line was in the pipe before it welcomed anybody, but may not have been read yet.
  bool has_gathered() {
    if (!gathered_) children_[0]->read_output([&](const std::string& line) { (void)on_event(line); });
    return gathered_;
  }

  void kill_no_later_than(Duration from_now) {
    const TimePoint at = clock_.now() + from_now;
    if (!kill_at_ || at < *kill_at_) kill_at_ = at;
  }

  bool over() const {
    if (!std::ranges::all_of(children_, [](const auto& child) { return child->ended(); })) return false;
    return std::ranges::all_of(children_, [](const auto& child) { return child->output() < 0 && child->errors() < 0; }) ||
           (read_until_ && clock_.now() >= *read_until_);
  }

  int conclude() {
    // Whoever was killed has removed nothing.
    if (const auto meeting = transport::place_at(request_.bind, request_.coordinator_port); meeting.ok())
      transport::remove_left_behind(*meeting);
    if (report_) {
      if (request_.json)
        std::cout << report_->dump(2) << "\n";
      else
        std::cout << report::report_text(*report_, request_.verbose ? report::Detail::kAll : report::Detail::kUsual);
      std::cout.flush();
    }
    const int status = children_[0]->wait_status();
    const bool job_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    // Whether a process could not do its last work, such as writing what was asked for, though the job went well.
    for (MetricsFile* lines : {metrics_.get(), pace_.get()})
      if (lines != nullptr && !lines->finish(job_well ? kLastReading : kGrace).ok() && job_well)
        return report_error(lines->finish({}));
    const bool said = !first_error_.sentence.empty();
    if (job_well && report_) return blamed_.sentence.empty() ? kDone : report_said(ErrorKind::kIo, said ? first_error_ : blamed_);
    const bool worker_interrupted = WIFEXITED(status) && WEXITSTATUS(status) == kInterrupted;  // somebody asked its process to end
    if (interrupts_ > 0 || worker_interrupted)
      return report_said(ErrorKind::kCancelled, said ? first_error_ : SaidError{"interrupted by the user", ""});
    if (blamed_.sentence.empty()) blamed_.sentence = fmt::format("{} {}", children_[0]->label(), children_[0]->ending());
    // What only this process knows.
    if (said) first_error_.sentence += how_lost_;
    SaidError& error = said ? first_error_ : blamed_;
    // Which the coordinator says otherwise, once the job has begun.
    if (WIFSIGNALED(status) && gathered_) error.sentence += way_on(request_.settings);
    report_said(ErrorKind::kPeerLost, error);
    return exit_code_of_children();
  }

  // 2 when any child says that the request was wrong, else 1.
  int exit_code_of_children() const {
    for (const auto& child : children_)
      if (WIFEXITED(child->wait_status()) && WEXITSTATUS(child->wait_status()) == kWrongRequest) return kWrongRequest;
    return kFailed;
  }

  const TrainRequest& request_;
  HandedKey key_;
  const SystemClock clock_;
  std::vector<std::unique_ptr<Child>> children_;  // the first is the coordinator or the reference
  std::optional<ForkingTrainer> trainer_;         // of several workers,
  const Child* forking_ = nullptr;                // and its process, one of the children
  int signals_ = -1;
  int interrupts_ = 0;
  bool listens_ = false;         // the coordinator
  bool gathered_ = false;        // everybody has joined
  bool killed_ = false;          // every child, since kill_at_ had come
  bool programs_go_on_ = false;  // the job has ended in order, and the user's programs may do more
  std::optional<TimePoint> kill_at_;
  std::optional<TimePoint> speaks_by_;   // the coordinator; where nothing is expected of it: none
  std::optional<TimePoint> read_until_;  // what children print, once all have ended
  std::optional<Json> report_;
  SaidError first_error_;
  SaidError blamed_;      // the first child that ended badly
  std::string how_lost_;  // the first one that a signal killed, as one more sentence
  std::unique_ptr<ProgressBar> bar_;
  std::string accuracy_;
  std::unique_ptr<MetricsFile> metrics_, pace_;
};

}  // namespace

int run_whole_job(const TrainRequest& request) { return WholeJob(request).run(); }

}  // namespace paceline::cli
