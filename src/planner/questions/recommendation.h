// Puts the planner's answers together into one recommendation for a job, a value with its reasons. Pure; any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "planner/questions/measurements.h"
#include "planner/questions/step_time.h"
#include "planner/sizing/servers.h"

namespace paceline::planner {

inline constexpr std::int64_t kMostProcesses = 100'000;  // of one kind in a job, as `train` allows

struct JobQuestion {
  std::string model;
  std::int64_t samples = 0;                 // of the data set, 1 or more
  Bytes memory;                             // of one worker
  std::string dataset;                      // whose measured overhead counts, and that is trained on; "": any
  std::vector<std::int64_t> mini_batches;   // candidates; empty: all that were measured
  std::optional<std::int64_t> workers;      // exactly one of these two, or none: 1 worker
  std::optional<double> speedup;            // over one worker
  std::optional<double> efficiency;         // alone: the most workers that reach it; with speedup or workers: a condition
  std::optional<double> overhead;           // R_O; nothing: as it was measured with the nearest mini-batch
  std::optional<BytesPerSecond> bandwidth;  // of a server's link; nothing: the servers are not asked for
  std::optional<BytesPerSecond> worker_bandwidth;
  Duplex duplex = Duplex::kFull;
};

// How whoever asks calls a key of the question in sentences: "--dataset-size", "key 'dataset_size'".
using Called = std::function<std::string(const std::string& key)>;

// That every number is in its range, the model is known and no two contradict each other. kBadRequest with the key as its subject.
Status validate(const JobQuestion& question, const Called& called);

struct Recommendation {
  struct Run {  // of one worker, which only computes
    double iteration_seconds = 0;
    StepTime::By by = StepTime::By::kLayers;
    double epoch_seconds = 0;
    double workspace_bytes = 0;
    model::ConvolutionChoice convolutions;
  };
  struct Candidate {
    std::int64_t mini_batch = 1;
    double bound_bytes = 0;  // left for workspaces; negative: the step does not fit
    double default_step_seconds = 0;
    std::optional<Run> run;  // nothing: it does not fit
    std::string reason;      // why
  };
  struct Chosen {
    std::size_t candidate = 0;
    std::int64_t iterations = 0;                          // of a data epoch
    std::optional<double> formula_bytes, measured_bytes;  // what a step needs beside the workspaces; at least one is known
    std::int32_t prefetch = 0, loader_threads = 0;        // with which loading hides, as measured; 0: not known
  };
  struct Speedup {
    std::int64_t workers = 1;
    double speedup = 1;
  };
  struct Scaling {  // Lemma 3.1 with an overhead R_O that is known
    double overhead = 0, efficiency = 0, speedup = 0, epoch_seconds = 0;
    std::vector<Speedup> curve;  // up to twice the workers
  };
  struct Servers {  // Lemma 3.2
    std::int64_t servers = 1;
    BytesPerSecond worker_link_shortfall;  // above 0: no number of servers hides the traffic
  };
  struct Check {  // the paper's advice
    std::string check;
    bool well = true;
    std::string text;
  };

  std::string model, dataset;  // dataset "": not said
  std::int64_t samples = 0;
  Bytes memory;
  std::string no_answer;  // why nothing fits, or no number of workers reaches what is wanted; "": all is well
  std::vector<Candidate> candidates;
  std::optional<Chosen> chosen;
  std::optional<std::int64_t> workers;
  std::optional<double> limit;  // of the speed-up, however many workers
  std::optional<Scaling> scaling;
  std::optional<Servers> servers;
  double missing_bytes = 0;     // when nothing fits
  std::string layer_to_shrink;  // when nothing fits, the one to begin with
  std::vector<Check> checks;
  std::vector<std::string> reasons;

  // Both require that one was chosen.
  const Candidate& best() const { return candidates[chosen->candidate]; }
  const Run& run() const { return *best().run; }
};

// Of a valid question. kBadRequest: measurements that are missing (how to make them is told), or conditions that contradict them.
Result<Recommendation> recommend(const JobQuestion& question, const Measurements& measurements);

// The keys stand in docs/cli.md.
Json to_json(const Recommendation& recommendation);
// The same for people.
std::string to_text(const Recommendation& recommendation);

}  // namespace paceline::planner
