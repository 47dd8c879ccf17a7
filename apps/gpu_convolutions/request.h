// What `cudnn_convolutions` was asked for, and what it has to measure for that. Pure: no GPU, clock or file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/quantity.h"
#include "base/status.h"
#include "model/description.h"

namespace paceline::gpu_convolutions {

// As the command line has it.
struct Options {
  std::string model;
  std::vector<std::int64_t> mini_batches;
  std::optional<std::int64_t> samples;  // of the data set
  std::optional<std::string> memory;    // of the device
  int rounds = 9;
  bool json = false, as_case = false;
};

// `app` writes into `options` when it parses.
void add_options(CLI::App& app, Options& options);

struct MiniBatch {
  std::int64_t size = 1;
  std::optional<Bytes> bound;  // what the memory formula leaves for workspaces; only with --memory
};

struct Work {
  model::ModelDescription model;
  std::vector<model::LayerDescription> convolutions;  // in forward order, never empty
  std::vector<MiniBatch> mini_batches;                // in the order that was given, never empty
  std::vector<std::string> notices;                   // what a person should know: mini-batches that are left out, and why
};

// kBadRequest names the option: an unknown model or one without convolutions, sizes out of range or given twice, options that need
// or exclude each other, no mini-batch that fits the memory.
Result<Work> work_for(const Options& options);

}  // namespace paceline::gpu_convolutions
