#include "bench/schedules/grid.h"

#include <algorithm>
#include <cmath>

#include "job/loop_options.h"
#include "scheduling/schedule.h"

namespace paceline::bench {

std::optional<LoopContestant> loop_of(const std::string& contestant) {
  if (job::parse_loop(contestant).ok()) return LoopContestant{contestant, "best"};
  const std::size_t dash = contestant.rfind('-');
  if (dash == std::string::npos) return std::nullopt;
  LoopContestant found{contestant.substr(0, dash), contestant.substr(dash + 1)};
  const auto loop = job::parse_loop(found.loop);
  const auto algorithm = job::parse_algorithm(found.algorithm);
  if (!loop.ok() || !algorithm.ok() || !*algorithm) return std::nullopt;
  if (!job::validate({.loop = *loop, .algorithm = *algorithm}).ok()) return std::nullopt;
  return found;
}

std::vector<std::string> loop_names() {
  std::vector<std::string> names;
  for (const char* loop : {"loop1", "loop2", "loop3", "loop3-overlap"}) {
    names.emplace_back(loop);
    for (const char* algorithm : {"lp", "mst", "be", "ring", "direct"}) {
      const std::string name = fmt::format("{}-{}", loop, algorithm);
      if (loop_of(name)) names.push_back(name);
    }
  }
  return names;
}

ScheduleContestant schedule_of(const std::string& contestant) {
  const std::size_t dash = contestant.rfind('-');
  const std::string wire = dash == std::string::npos ? "" : contestant.substr(dash + 1);
  if (wire == "bfloat16" || wire == "float16") return {contestant.substr(0, dash), wire, 2};
  if (wire == "tls") return {.schedule = contestant.substr(0, dash), .wire = "float32", .element_bytes = 4, .encrypted = true};
  return {contestant, "float32", 4};
}

std::vector<std::string> schedule_variants() {
  std::vector<std::string> names;
  for (const std::string& schedule : scheduling::schedule_names()) {
    for (const char* wire : {"bfloat16", "float16", "tls"}) names.push_back(schedule + "-" + wire);
  }
  return names;
}

std::optional<PeerContestant> peer_of(const std::string& contestant) {
  using Interpreter = PeerContestant::Interpreter;
  for (const std::string name : {"ddp", "split", "attach"}) {
    if (contestant == name) return PeerContestant{name + "_replay.py", {}, Interpreter::kTorch};
    if (contestant == name + "-clip") return PeerContestant{name + "_replay.py", {"--clip"}, Interpreter::kTorch};
  }
  const std::string mxnet = "mxnet_replay.py";
  if (contestant == "mxnet") return PeerContestant{mxnet, {"--store", "dist_sync"}, Interpreter::kMxnet};
  if (contestant == "mxnet-p3") return PeerContestant{mxnet, {"--store", "p3store_dist"}, Interpreter::kMxnet};
  if (contestant == "mxnet-p3-bounded") return PeerContestant{mxnet, {"--store", "p3store_dist", "--bounded"}, Interpreter::kMxnet};
  return std::nullopt;
}

std::vector<std::string> torch_names() { return {"ddp", "ddp-clip", "split", "split-clip", "attach", "attach-clip"}; }

std::vector<std::string> mxnet_names() { return {"mxnet", "mxnet-p3", "mxnet-p3-bounded"}; }

std::string Cell::name() const { return slice.empty() ? contestant : fmt::format("{} --slice {}", contestant, slice); }

std::string Cell::key() const {
  return fmt::format("{} {:g}gbit/{:g} hosts={} {} iterations={} turn={}{}{}", model, stands_for / 1e9, scale, hosts, name(),
                     iterations, turn, setup.empty() ? "" : " ", setup);
}

double scale_for(double stands_for) { return stands_for > 20e9 ? 40 : stands_for > 10e9 ? 20 : 10; }

std::vector<Cell> grid(const GridOptions& options) {
  std::vector<Cell> contestants;
  for (const std::string& name : options.contestants) contestants.push_back({.contestant = name});
  for (const std::string& slice : options.slices) contestants.push_back({.contestant = "p3", .slice = slice});
  std::vector<Cell> cells;
  for (const int hosts : options.hosts) {
    for (const double stands_for : options.stands_for) {
      for (const std::string& model : options.models) {
        for (int turn = 0; turn < options.turns; ++turn) {
          for (std::size_t i = 0; i < contestants.size(); ++i) {
            Cell cell = contestants[(i + static_cast<std::size_t>(turn)) % contestants.size()];
            cell.model = model;
            cell.stands_for = stands_for;
            cell.scale = scale_for(stands_for);
            cell.hosts = hosts;
            cell.turn = turn;
            cell.setup = options.setup;
            cells.push_back(std::move(cell));
          }
        }
      }
    }
  }
  return cells;
}

std::int64_t iterations_for(double expected, double length) {
  return std::clamp<std::int64_t>(std::llround(length / std::max(expected, 1e-3)), 6, 60);
}

std::vector<cost::LayerLoad> loads_of(const replay::LayerTable& scaled, const std::string& contestant) {
  const std::int64_t each = schedule_of(contestant).element_bytes;
  std::vector<cost::LayerLoad> loads;
  for (const replay::LayerRow& layer : scaled.layers)
    loads.push_back({.size = Bytes{each * layer.parameters}, .forward = layer.forward, .backward = layer.backward});
  return loads;
}

}  // namespace paceline::bench
