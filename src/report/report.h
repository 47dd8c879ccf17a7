// What a worker tells about its part of a job, and the report of the whole job that people and scripts read (docs/cli.md).
// Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "job/option.h"
#include "report/iteration_times.h"
#include "scheduling/live_profile.h"

namespace paceline::report {

using Json = nlohmann::ordered_json;

// Where the seconds of an iteration go, as the training thread sees them. kPush, kPull, kUpdate and kWait count only what was not
// hidden behind computing, so that the phases add up to the iteration.
enum class Phase { kLoad, kPreprocess, kTransfer, kForward, kBackward, kPush, kPull, kUpdate, kWait };
inline constexpr std::size_t kPhases = 9;
const char* to_string(Phase phase);

struct PhaseSeconds {
  std::array<double, kPhases> seconds{};
  double& operator[](Phase phase) { return seconds[static_cast<std::size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<std::size_t>(phase)]; }
  double total() const;
};

// What an endpoint tells of the link of its process, and of the order in which messages left over it.
struct LinkReport {
  std::int64_t window = 0;           // bytes, at the end
  double bandwidth = 0;              // bytes/s; 0: the link was never busy for long enough
  double round_trip = 0;             // seconds
  std::int64_t overtakes = 0;        // chunks of gradients that left before a less urgent message that was ready first
  std::int64_t reply_overtakes = 0;  // the same of values
  std::int64_t turns = 0;            // chunks that left because it was the turn of gradients, or of values
  std::int64_t window_full = 0;      // times that something waited for an acknowledgement only
  std::int64_t strangers = 0;        // connections that were turned away
  // Of the ways to processes on other hosts: to whom the slowest one leads, its rate while something was on it, and the fastest
  // one's. "", 0: none carried enough.
  std::string slowest;
  double slowest_bandwidth = 0, fastest_bandwidth = 0;

  bool operator==(const LinkReport&) const = default;
};

struct WorkerReport {
  std::int32_t rank = 0;
  std::int64_t iterations = 0;
  std::int64_t samples = 0;
  PhaseSeconds phases;  // sums over the iterations; their total is the time trained, start-up and evaluation excluded
  double overlapped_push = 0, overlapped_pull = 0;
  std::int64_t bytes_pushed = 0, bytes_pulled = 0;
  double loss_first = 0, loss_last = 0;
  double accuracy = -1;  // of rank 0, 0..1; -1: not evaluated, or there is no test set
  std::string parameters_hash;
  IterationTimes iteration_seconds;
  std::int64_t peak_bytes = 0;  // of the process
  // Of rank 0: what --evaluate-every found, at most 10 000 (add_evaluation). `seconds`: trained until then, evaluation excluded.
  // `accuracy` as above.
  struct Evaluation {
    Iteration iteration = 0;
    double seconds = 0, accuracy = 0;
  };
  std::vector<Evaluation> evaluations;
  Json batching;  // ibatch: the newest batches and what they were planned from; null: none
  LinkReport link;
};

// Of more than 10 000 every second one is left out, again and again, so that old ones lie further apart. The first stays.
void add_evaluation(std::vector<WorkerReport::Evaluation>& evaluations, const WorkerReport::Evaluation& next);

// What the report says of batches.
Json batching_json(scheduling::BatchingAlgorithm algorithm, const scheduling::LiveProfile::Plan& plan);

struct ServerReport {
  std::int32_t rank = 0;
  std::int64_t peak_bytes = 0;           // of the process
  std::int64_t gradient_bytes_high = 0;  // most memory that early gradients took
  std::int64_t updates = 0;
  std::int64_t reorderings = 0;  // gradients that were worked off before one that had arrived earlier
  LinkReport link;
  double values_wait = 0;           // seconds that a value was ready before it began to leave, mean
  std::int64_t shares_process = 0;  // 1: with a worker, so that its link is in the worker's report too
  Json pace;                        // of the pacing server, report/pace_record.h; null: another one, or bsp
};

// How they travel: metrics.cc has a row for each member.
std::string encode(const WorkerReport& report);
std::string encode(const ServerReport& report);
Result<WorkerReport> decode_worker_report(const std::string& text);
Result<ServerReport> decode_server_report(const std::string& text);

struct JobShape {
  std::int32_t workers = 1;
  std::int32_t servers = 0;  // 0: the reference, or workers that train by collective operations
  std::int32_t both = 0;     // processes that are a worker and a server; they count in both
  enum class Processes { kMany, kOne } processes = Processes::kMany;  // kOne: the reference, whose workers take turns
  std::map<Rank, std::string> addresses;                              // of servers, as far as they are known
};

// `by_rank`: every worker's report. In BSP all workers must hold the same parameters: kCorrupt naming the ranks when they do not.
// "checkpoint", "tuned" and "collective" are null: the coordinator's process knows the newest, and what it chose. It also adds to
// "strangers" whom it has turned away itself.
Result<Json> job_report(const job::JobSpec& settings, const JobShape& shape, const std::vector<WorkerReport>& by_rank,
                        const std::vector<ServerReport>& servers);

// The same for people: what came out, how fast, and who waited, before all else. kAll: at its end also what was chosen and why,
// and what the links and the order of messages were like.
enum class Detail { kUsual, kAll };
std::string report_text(const Json& report, Detail detail = Detail::kUsual);

// High-water mark of this process's memory.
std::int64_t peak_memory();

}  // namespace paceline::report
