#include "bench/collectives/contestant.h"

#include <algorithm>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error_line.h"

namespace paceline::bench {

Result<std::unique_ptr<Contestant>> Contestant::start(const lab::Lab& lab, ContestantOptions options) {
  std::unique_ptr<Contestant> contestant(new Contestant(lab, std::move(options)));
  PACELINE_RETURN_IF_ERROR(contestant->listen());
  contestant->processes_ = std::thread([raw = contestant.get()] { raw->run_processes(); });
  PACELINE_RETURN_IF_ERROR(contestant->accept_all());
  return contestant;
}

Contestant::~Contestant() {
  members_.clear();
  if (processes_.joinable()) {
    const TimePoint until = clock_.now() + std::chrono::seconds(5);
    while (!ended_ && clock_.now() < until) poll(nullptr, 0, 10);
    if (!ended_) eventfd_write(kill_.get(), 2);
    processes_.join();
  }
  unlink(options_.control.c_str());
}

Status Contestant::listen() {
  PACELINE_ASSIGN_OR_RETURN(const sockaddr_un address, path_address(options_.control));
  unlink(options_.control.c_str());
  listener_ = lab::Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  kill_ = lab::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), options_.ranks) != 0)
    return error(ErrorKind::kIo, "cannot listen at {}", options_.control);
  return {};
}

// On a thread of its own, which must live as long as the processes.
void Contestant::run_processes() {
  lab::RunHooks hooks;
  hooks.interrupt = kill_.get();
  hooks.on_failure = lab::OnFailure::kEndOthers;
  hooks.on_line = [this](std::size_t, lab::Output, const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (!line.empty() && words_.rfind("paceline: error: ", 0) != 0) words_ = line;
  };
  const auto outcome = lab::run(lab_, options_.commands, hooks);
  {
    const std::lock_guard lock(mutex_);
    if (!outcome.ok()) words_ = outcome.status().message();
  }
  ended_ = true;
}

std::string Contestant::last_words() {
  const std::lock_guard lock(mutex_);
  return words_.empty() ? "it said nothing" : without_code(words_);
}

Status Contestant::wait_readable(const std::vector<int>& descriptors, TimePoint until, const std::string& doing) {
  std::vector<pollfd> waits;
  for (const int descriptor : descriptors) waits.push_back({descriptor, POLLIN, 0});
  if (options_.interrupt >= 0) waits.push_back({options_.interrupt, POLLIN, 0});
  for (;;) {
    const TimePoint now = clock_.now();
    if (ended_) return error(ErrorKind::kIo, "{} ended while {}: {}", options_.name, doing, last_words());
    if (now >= until)
      return error(ErrorKind::kDeadline, "{} was not done in time while {}: {}", options_.name, doing, last_words());
    poll(waits.data(), waits.size(), 100);
    if (options_.interrupt >= 0 && waits.back().revents != 0) return error(ErrorKind::kCancelled, "interrupted by the user");
    for (std::size_t i = 0; i < descriptors.size(); ++i)
      if (waits[i].revents != 0) return {};
  }
}

Status Contestant::accept_all() {
  const TimePoint until = clock_.now() + options_.start_deadline;
  members_.resize(static_cast<std::size_t>(options_.ranks));
  introductions_.resize(members_.size());
  for (int accepted = 0; accepted < options_.ranks; ++accepted) {
    PACELINE_RETURN_IF_ERROR(wait_readable({listener_.get()}, until, "it started"));
    auto member = std::make_unique<LineSocket>(lab::Descriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    std::optional<std::string> line;
    while (!(line = member->take())) {
      PACELINE_RETURN_IF_ERROR(wait_readable({member->descriptor()}, until, "it started"));
      if (!member->read()) return error(ErrorKind::kIo, "{} hung up while it started: {}", options_.name, last_words());
    }
    const Json said = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
    const int rank = said.is_object() ? said.value("rank", -1) : -1;
    if (rank < 0 || rank >= options_.ranks || members_[static_cast<std::size_t>(rank)] != nullptr)
      return error(ErrorKind::kIo, "{} said '{}'", options_.name, *line);
    members_[static_cast<std::size_t>(rank)] = std::move(member);
    introductions_[static_cast<std::size_t>(rank)] = said;
  }
  return {};
}

Result<std::vector<Contestant::Json>> Contestant::collect(Duration limit, const std::string& doing) {
  const TimePoint until = clock_.now() + limit;
  std::vector<Json> answers(members_.size());
  std::size_t missing = members_.size();
  while (missing > 0) {
    std::vector<int> descriptors;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (answers[rank].is_null()) descriptors.push_back(members_[rank]->descriptor());
    }
    PACELINE_RETURN_IF_ERROR(wait_readable(descriptors, until, doing));
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      pollfd one{members_[rank]->descriptor(), POLLIN, 0};
      if (!answers[rank].is_null() || poll(&one, 1, 0) != 1) continue;
      if (!members_[rank]->read()) return error(ErrorKind::kIo, "{} hung up while {}: {}", options_.name, doing, last_words());
      const auto line = members_[rank]->take();
      if (!line) continue;
      answers[rank] = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
      if (!answers[rank].is_object()) return error(ErrorKind::kIo, "{} said '{}'", options_.name, *line);
      if (answers[rank].contains("error"))
        return error(ErrorKind::kCorrupt, "{} while {}: rank {}: {}", options_.name, doing, rank, answers[rank]["error"].dump());
      --missing;
    }
  }
  return answers;
}

Result<TrialResult> Contestant::run(const Trial& trial) {
  const std::string doing = fmt::format("{} of {} elements by {}", trial.operation, trial.elements, trial.algorithm);
  const std::string block = trial.block ? fmt::format(" {}", trial.block->count) : "";
  for (const auto& member : members_) {
    if (!member->send(fmt::format("run {} {} {} {} {} {}{}", trial.operation, trial.algorithm, trial.elements, trial.repetitions,
                                  trial.warm_up, std::chrono::duration_cast<std::chrono::microseconds>(trial.rest).count(), block)))
      return error(ErrorKind::kIo, "{} hung up before {}: {}", options_.name, doing, last_words());
  }
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Json> answers, collect(trial.deadline, doing));
  TrialResult result;
  result.seconds.assign(static_cast<std::size_t>(trial.repetitions), 0);
  for (const Json& answer : answers) {
    const auto times = answer.value("seconds", std::vector<double>());
    if (times.size() != result.seconds.size()) return error(ErrorKind::kIo, "{} said '{}'", options_.name, answer.dump());
    for (std::size_t i = 0; i < times.size(); ++i) result.seconds[i] = std::max(result.seconds[i], times[i]);
  }
  result.said = answers.front();
  return result;
}

}  // namespace paceline::bench
