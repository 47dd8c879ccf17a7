// Processes on all hosts of a lab that do what one driver tells them, in step: ours, Open MPI's or gloo's. They are started once
// and wait without using a processor, so that contestants can take turns within a second.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/collectives/line_socket.h"
#include "lab/run.h"

namespace paceline::bench {

struct ContestantOptions {
  std::string name;                        // for people
  std::vector<lab::HostCommand> commands;  // all that belongs to it
  std::string control;                     // the path at which its members connect (member.h)
  int ranks = 0;
  Duration start_deadline = std::chrono::seconds(90);
  int interrupt = -1;  // readable: give up; never read here
};

struct Trial {
  std::string operation;  // a name of operation_names() (grid.h)
  std::string algorithm;  // ours: "best" or a name of collectives::Algorithm; others ignore it
  std::int64_t elements = 0;
  int repetitions = 1, warm_up = 0;
  Duration rest{0};            // before each repetition
  std::optional<Bytes> block;  // ours: of the linear pipeline; absent: the one predicted fastest
  Duration deadline = std::chrono::minutes(2);
};

struct TrialResult {
  std::vector<double> seconds;  // of each repetition: the time of the slowest rank
  nlohmann::ordered_json said;  // by rank 0
};

class Contestant {
 public:
  // Returns when all members are ready. Errors: kIo with what the first process that failed said last, kDeadline, kCancelled.
  static Result<std::unique_ptr<Contestant>> start(const lab::Lab& lab, ContestantOptions options);
  ~Contestant();  // hangs up and waits for the processes to end, at most some seconds

  const std::string& name() const { return options_.name; }
  // What rank 0 said of itself when it was ready.
  const nlohmann::ordered_json& introduction() const { return introductions_.front(); }
  // Errors: as above; kCorrupt when a result was wrong. After an error the contestant is of no use.
  Result<TrialResult> run(const Trial& trial);

 private:
  using Json = nlohmann::ordered_json;

  Contestant(const lab::Lab& lab, ContestantOptions options) : lab_(lab), options_(std::move(options)) {}
  Status listen();
  void run_processes();
  Status accept_all();
  // One line of every member, by rank.
  Result<std::vector<Json>> collect(Duration limit, const std::string& doing);
  Status wait_readable(const std::vector<int>& descriptors, TimePoint until, const std::string& doing);
  std::string last_words();

  const lab::Lab& lab_;
  ContestantOptions options_;
  const SystemClock clock_;
  lab::Descriptor listener_, kill_;
  std::vector<std::unique_ptr<LineSocket>> members_;  // by rank
  std::vector<Json> introductions_;                   // by rank
  std::mutex mutex_;                                  // guards words_
  std::string words_;                                 // of a process that failed, or the last ones of any
  std::atomic<bool> ended_ = false;
  std::thread processes_;
};

}  // namespace paceline::bench
