#include "job/loop_options.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::job {

using collectives::Algorithm;
using collectives::Operation;

namespace {

constexpr std::array<const char*, 4> kLoops = {"loop1", "loop2", "loop3", "loop3-overlap"};
constexpr std::array<Algorithm, 5> kAlgorithms = {Algorithm::kLinearPipeline, Algorithm::kRing, Algorithm::kDirect,
                                                  Algorithm::kMinimumSpanningTree, Algorithm::kBidirectionalExchange};

Operation reduction_of(Loop loop) { return updates_everywhere(loop) ? Operation::kAllreduce : Operation::kReduce; }

bool can(Operation operation, Algorithm algorithm) {
  const auto legal = algorithms_for(operation);
  return std::find(legal.begin(), legal.end(), algorithm) != legal.end();
}

std::vector<std::string> names_for(Operation operation) {
  std::vector<std::string> names = {"best"};
  for (const Algorithm algorithm : algorithms_for(operation)) names.emplace_back(to_string(algorithm));
  return names;
}

}  // namespace

const char* to_string(Loop loop) { return kLoops[static_cast<std::size_t>(loop)]; }

Result<Loop> parse_loop(std::string_view name) {
  for (std::size_t i = 0; i < kLoops.size(); ++i) {
    if (name == kLoops[i]) return static_cast<Loop>(i);
  }
  std::vector<std::string> names = {"none"};
  names.insert(names.end(), kLoops.begin(), kLoops.end());
  return error(ErrorKind::kBadRequest, "'{}' is no loop; legal are {}{}", name, fmt::join(names, ", "), suggestion(name, names));
}

Result<std::optional<Algorithm>> parse_algorithm(std::string_view name) {
  if (name == "best") return std::optional<Algorithm>();
  std::vector<std::string> names = {"best"};
  for (const Algorithm algorithm : kAlgorithms) {
    if (name == to_string(algorithm)) return std::optional(algorithm);
    names.emplace_back(to_string(algorithm));
  }
  return error(ErrorKind::kBadRequest, "'{}' is no algorithm; legal are {}{}", name, fmt::join(names, ", "),
               suggestion(name, names));
}

Result<Bytes> parse_block(std::string_view text) {
  const auto block = parse_bytes(text);
  if (block.ok() && block->count > 0 && block->count % static_cast<std::int64_t>(sizeof(float)) == 0) return *block;
  return error(ErrorKind::kBadRequest, "--block {} is illegal; legal: {}", text, kLegalBlocks);
}

std::string block_text(Bytes block) { return fmt::format("{}B", block.count); }

Status validate(const TrainingOptions& options) {
  const Operation operation = reduction_of(options.loop);
  if (options.algorithm && !can(operation, *options.algorithm)) {
    return error(ErrorKind::kBadRequest, "--algorithm {} cannot run the {} of --collective {}; legal: {}",
                 to_string(*options.algorithm), to_string(operation), to_string(options.loop),
                 fmt::join(names_for(operation), ", "));
  }
  if (options.broadcast_every != 0 && !updates_everywhere(options.loop)) {
    return error(ErrorKind::kBadRequest,
                 "--broadcast-every {} contradicts --collective {}, which broadcasts the weights in every iteration; legal with "
                 "loop3 and loop3-overlap",
                 options.broadcast_every, to_string(options.loop));
  }
  return {};
}

}  // namespace paceline::job
