// Checkpoints of a small model whose every number tells its iteration and place, for tests.
#pragma once

#include <optional>
#include <vector>

#include "base/files_testing.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/saved_model.h"
#include "job/option.h"

namespace paceline::checkpoint::testing {

using paceline::testing::MemoryFiles;

inline constexpr const char* kDirectory = "/runs/a";
inline constexpr std::int64_t kElements = 60;  // of the arena, below

inline wire::TensorTable table() {
  wire::TensorTable table;
  table.layers = {"conv", "fc"};
  table.tensors = {{"conv.weight", "float32", {2, 10}, Layer{0}, 0},
                   {"fc.weight", "float32", {4, 9}, Layer{1}, 0},
                   {"fc.bias", "float32", {4}, Layer{1}, 0}};
  return table;
}

inline job::JobSpec spec() {
  job::JobSpec job;
  job.update.optimizer.kind = tensor::OptimizerKind::kAdam;
  job.saving.directory = kDirectory;
  return job;
}

// What the model is after `iteration`: plane 0 the values, 1 and 2 the optimizer state.
inline float number_at(Iteration iteration, std::int64_t plane, std::int64_t element) {
  return static_cast<float>(iteration * 1000 + plane * 100 + element) + 0.25F;
}

struct Range {
  std::int64_t offset, elements;
  std::optional<std::int64_t> steps = {};  // the iteration's, if not given
};

inline Result<PartSummary> write_server(Files& files, std::int32_t rank, Iteration iteration, const std::vector<Range>& ranges,
                                        const CheckpointSeal& seal = {}) {
  PartHead head{"server", rank, iteration, "", {}};
  std::vector<std::vector<float>> numbers;
  std::vector<std::span<const std::byte>> contents;
  for (const Range& range : ranges) {
    std::vector<float> all;
    for (std::int64_t plane = 0; plane < 3; ++plane) {
      for (std::int64_t i = 0; i < range.elements; ++i) all.push_back(number_at(iteration, plane, range.offset + i));
    }
    numbers.push_back(std::move(all));
    head.arrays.push_back({.name = fmt::format("at{}", range.offset),
                           .offset = range.offset,
                           .elements = range.elements,
                           .planes = 2,
                           .steps = range.steps.value_or(iteration)});
  }
  for (const auto& all : numbers) contents.push_back(std::as_bytes(std::span(all)));
  return write_part(files, kDirectory, head, contents, seal);
}

inline Result<PartSummary> write_worker(Files& files, std::int32_t rank, Iteration iteration, const CheckpointSeal& seal = {}) {
  const std::int64_t count = 7 * iteration + rank;
  PartHead head{
      "worker", rank, iteration, "torch 2.13", {{.name = "bn.num_batches_tracked", .dtype = "int64", .shape = {}, .elements = 1}}};
  return write_part(files, kDirectory, head, {std::as_bytes(std::span(&count, 1))}, seal);
}

inline const std::vector<std::vector<Range>> kTwoServers = {{{0, 20}, {56, 4}}, {{20, 36}}};

// What servers and workers and the coordinator do for one checkpoint; stops at the first failure, as a job would void it.
inline Status save(Files& files, Iteration iteration, std::int32_t workers = 2,
                   const std::vector<std::vector<Range>>& servers = kTwoServers, const CheckpointSeal& seal = {}) {
  Manifest manifest{iteration, "0.1.0", workers, static_cast<std::int32_t>(servers.size()), to_settings(spec()), table(), {}};
  for (std::size_t rank = 0; rank < servers.size(); ++rank) {
    PACELINE_ASSIGN_OR_RETURN(PartSummary part,
                              write_server(files, static_cast<std::int32_t>(rank), iteration, servers[rank], seal));
    manifest.parts.push_back(std::move(part));
  }
  for (std::int32_t rank = 0; rank < workers; ++rank) {
    PACELINE_ASSIGN_OR_RETURN(PartSummary part, write_worker(files, rank, iteration, seal));
    manifest.parts.push_back(std::move(part));
  }
  PACELINE_RETURN_IF_ERROR(write_manifest(files, kDirectory, manifest, seal));
  return prune_checkpoints(files, kDirectory, 2);
}

// The iteration whose checkpoint would be resumed, after checking that it loads with exactly its values; 0 for none.
inline Iteration loadable(Files& files) {
  const auto found = newest_good_checkpoint(files, kDirectory);
  if (!found.ok()) return 0;
  auto model = SavedModel::open(files, found->folder);
  if (!model.ok()) return -1;
  std::vector<float> value(kElements), state(2 * kElements);
  const auto steps = model->read(0, value, state);
  const Iteration iteration = found->manifest.iteration;
  if (!steps.ok() || *steps != iteration) return -1;
  for (std::int64_t i = 0; i < kElements; ++i) {
    for (std::int64_t plane = 0; plane < 3; ++plane) {
      const float got =
          plane == 0 ? value[static_cast<std::size_t>(i)] : state[static_cast<std::size_t>((plane - 1) * kElements + i)];
      if (got != number_at(iteration, plane, i)) return -1;
    }
  }
  return iteration;
}

}  // namespace paceline::checkpoint::testing
