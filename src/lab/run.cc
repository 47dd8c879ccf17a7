#include "lab/run.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <unistd.h>

namespace paceline::lab {
namespace {

struct Reader {
  int descriptor = -1;  // -1: over
  std::string rest;

  template <typename OnLine>
  void read_lines(const OnLine& on_line) {
    char buffer[16384];
    while (descriptor >= 0) {
      const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        descriptor = -1;
        if (!rest.empty()) on_line(std::exchange(rest, {}));
        return;
      }
      rest.append(buffer, static_cast<std::size_t>(count));
      std::size_t begin = 0;
      for (std::size_t end = 0; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1)
        on_line(rest.substr(begin, end - begin));
      rest.erase(0, begin);
    }
  }
};

struct Running {
  std::unique_ptr<HostProcess> process;
  Reader output, errors;
  bool helper = false;
  bool ended = false;
};

class Runner {
 public:
  Runner(const RunHooks& hooks) : hooks_(hooks), start_(clock_.now()) {}

  Status start(const Lab& lab, const std::vector<HostCommand>& commands) {
    outcome_.endings.resize(commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i) {
      PACELINE_ASSIGN_OR_RETURN(auto process, lab.start(commands[i]));
      const bool helper = std::ranges::find(hooks_.helpers, i) != hooks_.helpers.end();
      running_.push_back({.output = {process->output(), {}}, .errors = {process->errors(), {}}, .helper = helper});
      running_.back().process = std::move(process);
    }
    return {};
  }

  RunOutcome wait() {
    while (std::ranges::any_of(running_, [](const Running& one) { return !one.ended; })) {
      wait_for_event();
      const TimePoint now = clock_.now();
      for (std::size_t i = 0; i < running_.size(); ++i) look_at(i, now);
      if (hooks_.limit && now - start_ > *hooks_.limit && !std::exchange(outcome_.out_of_time, true)) ask_to_end();
      const bool only_helpers = std::ranges::all_of(running_, [](const Running& one) { return one.ended || one.helper; });
      if (only_helpers && !killing_at_) ask_to_end();
      if (killing_at_ && now >= *killing_at_) signal(SIGKILL);
      if (hooks_.on_tick && now >= next_tick_) {
        next_tick_ = now + hooks_.tick;
        hooks_.on_tick();
      }
    }
    return outcome_;
  }

 private:
  void wait_for_event() {
    std::vector<pollfd> waits;
    if (hooks_.interrupt >= 0) waits.push_back({hooks_.interrupt, POLLIN, 0});
    for (const Running& one : running_) {
      for (const int descriptor : {one.output.descriptor, one.errors.descriptor, one.ended ? -1 : one.process->ending()}) {
        if (descriptor >= 0) waits.push_back({descriptor, POLLIN, 0});
      }
    }
    const auto tick = std::chrono::duration_cast<std::chrono::milliseconds>(hooks_.tick).count();
    poll(waits.data(), waits.size(), static_cast<int>(std::max<std::int64_t>(1, tick)));
    if (hooks_.interrupt < 0 || (waits[0].revents & POLLIN) == 0) return;
    std::uint64_t requests = 0;
    if (::read(hooks_.interrupt, &requests, sizeof requests) != sizeof requests) return;
    if (std::exchange(outcome_.interrupted, true) || requests > 1) {
      killing_at_ = clock_.now();
    } else {
      ask_to_end();
    }
  }

  void look_at(std::size_t index, TimePoint now) {
    Running& one = running_[index];
    if (one.ended) return;
    const bool over = one.process->try_wait();  // before reading: what it wrote is then all there
    const auto pass_on = [&](Output output) {
      return [this, index, output](const std::string& line) {
        if (hooks_.on_line) hooks_.on_line(index, output, line);
      };
    };
    one.output.read_lines(pass_on(Output::kStandard));
    one.errors.read_lines(pass_on(Output::kError));
    if (!over) return;
    one.ended = true;
    outcome_.endings[index] = {
        .exit_code = one.process->exit_code(), .seconds = seconds(now - start_), .cpu_seconds = one.process->cpu_seconds()};
    if (one.process->exit_code() == 0 || outcome_.first_failure || one.helper) return;
    outcome_.first_failure = index;
    if (hooks_.on_failure == OnFailure::kEndOthers && !killing_at_) ask_to_end();
  }

  void ask_to_end() {
    signal(SIGINT);
    killing_at_ = clock_.now() + hooks_.grace;
  }
  void signal(int number) {
    for (const Running& one : running_) {
      if (!one.ended) one.process->signal(number);
    }
  }

  const RunHooks& hooks_;
  const SystemClock clock_;
  TimePoint start_;
  TimePoint next_tick_{};
  std::optional<TimePoint> killing_at_;
  std::vector<Running> running_;
  RunOutcome outcome_;
};

}  // namespace

Result<RunOutcome> run(const Lab& lab, const std::vector<HostCommand>& commands, const RunHooks& hooks) {
  Runner runner(hooks);
  PACELINE_RETURN_IF_ERROR(runner.start(lab, commands));
  return runner.wait();
}

}  // namespace paceline::lab
