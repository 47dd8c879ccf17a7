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
#include <vector>

#include "collectives/plan/cost.h"
#include "scheduling/unit_plan.h"

namespace paceline::collectives {

struct Call;   // exec/operation.h
struct Rules;  // likewise

enum class Loop { kOne, kTwo, kThree, kThreeOverlap };

const char* to_string(Loop loop);  // "loop1"
// kBadRequest with the legal names and the nearest one. "none" is none of them.
Result<Loop> parse_loop(std::string_view name);
// "best" is none. kBadRequest as above.
Result<std::optional<Algorithm>> parse_algorithm(std::string_view name);

// Whether the update is made on every rank from the sum that all get.
constexpr bool updates_everywhere(Loop loop) { return loop == Loop::kThree || loop == Loop::kThreeOverlap; }
// Whether gradients leave while backward still runs, and a layer's forward waits only for the layer.
constexpr bool overlaps(Loop loop) { return loop == Loop::kOne || loop == Loop::kThreeOverlap; }

struct TrainingOptions {
  Loop loop = Loop::kThreeOverlap;
  std::optional<Algorithm> algorithm;     // of every operation that it can carry out; absent: of each the one predicted fastest
  Iteration broadcast_every = 0;          // loop3: rank 0's weights overwrite the others' after so many iterations; 0: never
  cost::LinkCost link = kUnmeasuredLink;  // what the choice is made for
};

// Errors: kBadRequest for an algorithm that no operation of the loop can run, and for a period with a loop whose weights come from
// the root anyway.
Status validate(const TrainingOptions& options);

// The rules of all operations of a job with so many workers. Sums are taken in rank order unless an algorithm was asked for that
// cannot: the bits then depend on the algorithm (and are the same on all ranks).
Rules rules_of(const TrainingOptions& options, std::int32_t workers);
// The root of the loop's reduce; broadcasts of a loop that updates everywhere come from rank 0.
Rank root_of(const TrainingOptions& options, std::int32_t workers);

// How many numbers of a unit are added up: its gradient, and behind it of each of its tensors whether (how often) it was used.
constexpr std::int64_t staged_elements(const scheduling::Unit& unit) { return unit.elements + unit.parts; }

// A unit's operation, without its buffers. `algorithm` is set where the asked one can carry it out.
enum class TrainingStep { kReduce, kBroadcast };
Call call_of(const TrainingOptions& options, std::int32_t workers, TrainingStep step, std::int64_t elements);

}  // namespace paceline::collectives
