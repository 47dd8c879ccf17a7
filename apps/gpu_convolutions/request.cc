#include "gpu_convolutions/request.h"

#include <algorithm>

#include "base/text.h"
#include "base/wrong.h"
#include "planner/sizing/memory.h"

namespace paceline::gpu_convolutions {
namespace {

Status check_numbers(const Options& options) {
  std::vector<std::int64_t> seen;
  for (const std::int64_t size : options.mini_batches) {
    if (size < 1 || size > 1'000'000) return wrong("--mini-batch has {}; legal: 1 to 1000000", size);
    if (std::ranges::find(seen, size) != seen.end()) return wrong("--mini-batch has {} twice", size);
    seen.push_back(size);
  }
  if (options.rounds < 1 || options.rounds > 1000) return wrong("--rounds is {}; legal: 1 to 1000", options.rounds);
  if (options.samples && *options.samples < 1) return wrong("--samples is {}; legal: 1 or more", *options.samples);
  return {};
}

// --samples and --memory make the case, which --case prints alone and --json beside everything else.
Status check_together(const Options& options) {
  if (options.json && options.as_case) return wrong("--case and --json exclude each other; --json holds the case too");
  if (options.as_case && !(options.samples && options.memory)) return wrong("--case needs --samples and --memory");
  if (options.samples.has_value() != options.memory.has_value())
    return wrong("{} is given without {}", options.samples ? "--samples" : "--memory", options.samples ? "--memory" : "--samples");
  if (options.samples && !options.json && !options.as_case) return wrong("--samples and --memory are for --case and --json");
  return {};
}

// The mini-batches that leave something of the memory; of the others it is told.
Status bound(Work& work, Bytes memory) {
  if (const std::string why = planner::no_formula_reason(work.model); !why.empty()) return wrong("--memory: {}", why);
  std::vector<MiniBatch> fitting;
  std::optional<std::int64_t> fewest_missing;  // bytes
  for (const MiniBatch& one : work.mini_batches) {
    const auto need = planner::memory_need(work.model, one.size, memory);
    if (!need.ok()) return wrong("--mini-batch {}: {}", one.size, need.status().message());
    if (need->bound_bits >= 0) {
      fitting.push_back({.size = one.size, .bound = Bytes{need->bound_bits / 8}});
      continue;
    }
    const std::int64_t missing = (7 - need->bound_bits) / 8;
    fewest_missing = std::min(missing, fewest_missing.value_or(missing));
    work.notices.push_back(fmt::format("mini-batch {} is left out: beside workspaces it needs {} more than --memory {}", one.size,
                                       to_text(Bytes{missing}), to_text(memory)));
  }
  if (fitting.empty())
    return wrong("--memory {}: no --mini-batch fits; even the smallest needs {} more beside workspaces", to_text(memory),
                 to_text(Bytes{*fewest_missing}));
  work.mini_batches = std::move(fitting);
  return {};
}

}  // namespace

void add_options(CLI::App& app, Options& options) {
  app.add_option("--model", options.model, "Network; 'paceline models' lists them")->required()->option_text("NAME");
  app.add_option("--mini-batch", options.mini_batches, "Sizes to measure, separated by commas")
      ->delimiter(',')
      ->required()
      ->option_text("N[,N...]");
  app.add_option("--rounds", options.rounds, "How often each pass is timed; the median counts")->capture_default_str();
  app.add_option("--samples", options.samples, "With --case or --json: of the data set")->option_text("N");
  app.add_option("--memory", options.memory, "With --case or --json: of the device, as 16GB")->option_text("SIZE");
  app.add_flag("--case", options.as_case, "Print precisely what 'paceline plan mini-batch --input -' reads");
  app.add_flag("--json", options.json,
               "One JSON document: names by layer and index, every pass; times in seconds, memory in bytes");
}

Result<Work> work_for(const Options& options) {
  PACELINE_RETURN_IF_ERROR(check_numbers(options));
  PACELINE_RETURN_IF_ERROR(check_together(options));
  Work work;
  auto model = model::describe(options.model);
  if (!model.ok()) return wrong("--model: {}", model.status().message());
  work.model = std::move(model).value();
  std::ranges::copy_if(work.model.layers, std::back_inserter(work.convolutions),
                       [](const model::LayerDescription& layer) { return layer.convolution.has_value(); });
  if (work.convolutions.empty()) return wrong("--model {}: the network has no convolutions", work.model.name);
  for (const std::int64_t size : options.mini_batches) work.mini_batches.push_back({.size = size});
  if (!options.memory) return work;
  const auto memory = parse_bytes(*options.memory);
  if (!memory.ok()) return wrong("--memory: {}", memory.status().message());
  PACELINE_RETURN_IF_ERROR(bound(work, *memory));
  return work;
}

}  // namespace paceline::gpu_convolutions
