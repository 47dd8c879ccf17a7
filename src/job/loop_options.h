// Training without servers: which of the loops of Linear Pipeline (algorithms 1 to 3) a job runs, and by which algorithms. Plain
// data, any thread.
//
//   name           gradients                        update      new weights
//   loop1          reduced layer by layer under     by the      broadcast layer by layer under the next forward
//                  backward                         root
//   loop2          reduced after backward           by the      broadcast at once; the next forward begins when all is there
//                                                   root
//   loop3          allreduced after backward        everywhere  are there; the next forward begins when all is updated
//   loop3-overlap  allreduced layer by layer under  everywhere  are there; a layer's forward begins when it is updated
//                  backward
//
// The root is the last rank, because the pipeline along the chain of ranks then adds in rank order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/quantity.h"
#include "base/status.h"
#include "collectives/plan/cost.h"
#include "cost/link_cost.h"

namespace paceline::job {

enum class Loop { kOne, kTwo, kThree, kThreeOverlap };

const char* to_string(Loop loop);  // "loop1"
// kBadRequest with the legal names and the nearest one. "none" is none of them.
Result<Loop> parse_loop(std::string_view name);
// "best" is none. kBadRequest as above.
Result<std::optional<collectives::Algorithm>> parse_algorithm(std::string_view name);
// Into which the linear pipeline cuts its messages: whole parameters of 4 bytes. kBadRequest with the option and what is legal.
Result<Bytes> parse_block(std::string_view text);
std::string block_text(Bytes block);
inline constexpr const char* kLegalBlocks = "a size of whole parameters of 4 bytes: 64KB, 256KiB";

// Whether the update is made on every rank from the sum that all get.
constexpr bool updates_everywhere(Loop loop) { return loop == Loop::kThree || loop == Loop::kThreeOverlap; }
// Whether gradients leave while backward still runs, and a layer's forward waits only for the layer.
constexpr bool overlaps(Loop loop) { return loop == Loop::kOne || loop == Loop::kThreeOverlap; }

struct TrainingOptions {
  Loop loop = Loop::kThreeOverlap;
  std::optional<collectives::Algorithm>
      algorithm;                  // of every operation that it can carry out; absent: of each the one predicted fastest
  std::optional<Bytes> block;     // of operations by the linear pipeline; absent: of each the one predicted fastest
  Iteration broadcast_every = 0;  // loop3: rank 0's weights overwrite the others' after so many iterations; 0: never
  cost::LinkCost link = collectives::kUnmeasuredLink;  // what the choice is made for
};

// Errors: kBadRequest for an algorithm that no operation of the loop can run, and for a period with a loop whose weights come from
// the root anyway.
Status validate(const TrainingOptions& options);

}  // namespace paceline::job
