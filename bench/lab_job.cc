#include "bench/lab_job.h"

#include <array>
#include <cstdio>

#include <unistd.h>

#include "base/error_line.h"

namespace paceline::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPort = "4170";  // every lab has its own ports

// Processor time that the machine has spent, in all its processors together.
double busy_seconds() {
  std::FILE* const file = std::fopen("/proc/stat", "r");
  if (file == nullptr) return 0;
  unsigned long long user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, softirqs = 0;
  const int found =
      std::fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &waiting, &interrupts, &softirqs);
  std::fclose(file);
  return found == 7 ? static_cast<double>(user + nice + system + interrupts + softirqs) / static_cast<double>(sysconf(_SC_CLK_TCK))
                    : 0;
}

Bytes sent_by_all(const std::vector<lab::Traffic>& traffic) {
  Bytes all;
  for (const lab::Traffic& one : traffic) all += one.sent;
  return all;
}

class Watch {
 public:
  Watch(const lab::Lab& lab, const LabJob& job) : lab_(lab), job_(job), last_words_(job.commands.size()) {}

  void on_line(std::size_t command, lab::Output output, const std::string& line) {
    if (output == lab::Output::kError) {
      if (last_words_[command].rfind("paceline: error: ", 0) != 0) last_words_[command] = line;
      return;
    }
    const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) return;
    if (event.contains("report")) run.report = event["report"];
    if (!event.contains("progress")) return;
    const Json& progress = event["progress"];
    const auto iteration = progress.value("iteration", std::int64_t{0});
    if (iteration > job_.warm_up) run.iteration_seconds.push_back(progress.value("seconds", 0.0));
    if (progress.value("rank", 0) == 0 && iteration >= job_.warm_up) mark();
  }

  void on_tick() {
    if (!job_.sampled || !began_) return;
    if (const auto traffic = lab_.traffic(); traffic.ok()) run.samples.push_back({seconds(clock_.now() - *began_), (*traffic)[0]});
  }

  const std::string& last_words(std::size_t command) const { return last_words_[command]; }

  LabJobRun run;

 private:
  // Rank 0 has finished an iteration: the first mark begins the window, every later one may be its end.
  void mark() {
    const auto traffic = lab_.traffic();
    if (!traffic.ok()) return;
    if (!began_) {
      began_ = clock_.now();
      busy_before_ = busy_seconds();
      sent_before_ = sent_by_all(*traffic);
      return;
    }
    run.window_seconds = seconds(clock_.now() - *began_);
    run.window_bytes = sent_by_all(*traffic) - sent_before_;
    run.busy_seconds = busy_seconds() - busy_before_;
  }

  const lab::Lab& lab_;
  const LabJob& job_;
  const SystemClock clock_;
  std::optional<TimePoint> began_;
  double busy_before_ = 0;
  Bytes sent_before_;
  std::vector<std::string> last_words_;
};

}  // namespace

std::vector<lab::HostCommand> paceline_commands(const std::string& program, int hosts, HostRole role,
                                                const std::vector<std::string>& options, const std::string& key) {
  const std::array<std::string, 2> security =
      key.empty() ? std::array<std::string, 2>{"--security", "none"} : std::array<std::string, 2>{"--job-key-file", key};
  const bool apart = role == HostRole::kApart;
  const std::string workers = std::to_string(apart ? hosts - 1 : hosts);
  const std::string servers = role == HostRole::kWorker ? "0" : apart ? "1" : workers;
  std::vector<lab::HostCommand> commands = {
      {.host = 0,
       .arguments = {program, "coordinator", "--workers", workers, "--servers", servers, "--bind", lab::address(0), "--port", kPort,
                     "--events", security[0], security[1]}}};
  for (int host = 0; host < hosts; ++host) {
    const bool only_serves = apart && host == 0;
    lab::HostCommand member{.host = host,
                            .arguments = {program, "train", "--join", fmt::format("{}:{}", lab::address(0), kPort), "--role",
                                          only_serves                          ? "server"
                                          : role == HostRole::kWorkerAndServer ? "both"
                                                                               : "worker",
                                          "--bind", lab::address(host), security[0], security[1]}};
    if (!only_serves) {
      member.arguments.insert(member.arguments.end(), {"--rank", std::to_string(apart ? host - 1 : host), "--workers", workers});
      // Its only use here is that every iteration is told.
      member.arguments.insert(member.arguments.end(), {"--metrics", "/dev/null"});
      member.arguments.insert(member.arguments.end(), options.begin(), options.end());
    }
    commands.push_back(std::move(member));
  }
  return commands;
}

Result<LabJobRun> run_lab_job(const lab::Lab& lab, const LabJob& job) {
  Watch watch(lab, job);
  lab::RunHooks hooks;
  hooks.on_line = [&](std::size_t command, lab::Output output, const std::string& line) { watch.on_line(command, output, line); };
  hooks.on_tick = [&] { watch.on_tick(); };
  hooks.tick = std::chrono::milliseconds(10);
  hooks.interrupt = job.interrupt;
  hooks.limit = job.limit;
  hooks.on_failure = lab::OnFailure::kEndOthers;  // the others would wait for it until their deadlines
  PACELINE_ASSIGN_OR_RETURN(const auto before, lab.traffic());
  PACELINE_ASSIGN_OR_RETURN(const lab::RunOutcome outcome, lab::run(lab, job.commands, hooks));
  PACELINE_ASSIGN_OR_RETURN(const auto after, lab.traffic());
  if (outcome.interrupted) return error(ErrorKind::kCancelled, "interrupted by the user");
  if (outcome.out_of_time) return error(ErrorKind::kDeadline, "a job was not over after {:.0f} s", seconds(job.limit));
  if (outcome.first_failure) {
    const std::size_t failed = *outcome.first_failure;
    return error(ErrorKind::kIo, "{} on host {} exited with code {}: {}", job.commands[failed].arguments[0],
                 job.commands[failed].host, outcome.endings[failed].exit_code, without_code(watch.last_words(failed)));
  }
  if (watch.run.iteration_seconds.empty()) return error(ErrorKind::kIo, "a job told of no iteration behind its warm-up");
  for (const lab::Ending& ending : outcome.endings) watch.run.cpu_seconds += ending.cpu_seconds;
  watch.run.bytes = sent_by_all(after) - sent_by_all(before);
  std::erase_if(watch.run.samples, [&](const Sample& sample) { return sample.seconds > watch.run.window_seconds; });
  return std::move(watch.run);
}

}  // namespace paceline::bench
