// Which runs `paceline bench schedules` consists of, and what a finished one is called. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "cost/lower_bound.h"
#include "replay/table.h"

namespace paceline::bench {

// One job: a contestant on one model, link and number of hosts, once.
struct Cell {
  std::string model;      // name of a table, or of a network
  double stands_for = 0;  // bits/s of the link that the shaped one stands for
  double scale = 1;       // by which bytes and link are divided
  int hosts = 4;
  std::string contestant;       // name of a schedule (schedule_of), of a loop (loop_of) or of a peer (peer_of)
  std::string slice;            // --slice; "": the schedule's own
  std::int64_t iterations = 0;  // timed; the warm-up comes before
  int turn = 0;
  std::string setup = {};  // of GridOptions

  BytesPerSecond link() const { return {stands_for / 8 / scale}; }
  std::string name() const;  // of the contestant with its slice
  std::string key() const;   // different for all cells of all grids
};

struct GridOptions {
  std::vector<std::string> models;
  std::vector<double> stands_for;  // bits/s
  std::vector<int> hosts = {4};
  std::vector<std::string> contestants;
  std::vector<std::string> slices;  // each adds the schedule p3 with --slice
  int turns = 3;
  std::string setup = {};  // what else is the same for all cells and unlike the usual: the lab's links, options of jobs
};

// A loop of --collective, and by which algorithm its operations run.
struct LoopContestant {
  std::string loop, algorithm;  // as --collective and --algorithm take them
};
// "loop1": by the best; "loop1-mst": by one that it can have. Nothing for any other name.
std::optional<LoopContestant> loop_of(const std::string& contestant);
std::vector<std::string> loop_names();  // all that loop_of knows

// A schedule, and as what its gradients and values cross the wire.
struct ScheduleContestant {
  std::string schedule, wire;  // as --schedule and --wire take them
  std::int64_t element_bytes;
  bool encrypted = false;
};
// "p3": with float32; "p3-bfloat16", "p3-float16": with fewer bytes; "p3-tls": with a job key. Of any other name, that name.
ScheduleContestant schedule_of(const std::string& contestant);
std::vector<std::string> schedule_variants();  // of all schedules: narrow, and encrypted

// What replays the tables beside `paceline train`: a program of bench/peers.
struct PeerContestant {
  enum class Interpreter { kTorch, kMxnet };
  std::string script;
  std::vector<std::string> arguments;
  Interpreter interpreter;
};
// "ddp": PyTorch's DistributedDataParallel over gloo; "split": whole layers reduced and gathered over gloo, as FSDP2 and Megatron
// do; "attach": paceline.torch.attach; each also with "-clip", a norm that is never reached; "mxnet": MXNet's KVStore; "mxnet-p3":
// its P3; "mxnet-p3-bounded": that with a bound on what a socket is handed ahead of something more urgent. Nothing for any other
// name.
std::optional<PeerContestant> peer_of(const std::string& contestant);
std::vector<std::string> torch_names();
std::vector<std::string> mxnet_names();

// By how much a replayed table is divided, so that a link that stands for one of up to 40 Gb/s is one of at most 1 Gb/s.
double scale_for(double stands_for);

// In the order in which they run: contestants take turns, each turn beginning with another one. Iterations are left open.
std::vector<Cell> grid(const GridOptions& options);

// As many iterations of about `expected` seconds as take about `length` seconds, within 6 and 60.
std::int64_t iterations_for(double expected, double length);

// The loads of a scaled table for the lower bound, with what the contestant sends of each parameter.
std::vector<cost::LayerLoad> loads_of(const replay::LayerTable& scaled, const std::string& contestant);

}  // namespace paceline::bench
