// What the loops of a job without servers (job/loop_options.h) are made of: the rules and the calls of their operations. Pure.
//
// The root is the last rank, because the pipeline along the chain of ranks then adds in rank order.
#pragma once

#include <cstdint>

#include "job/loop_options.h"
#include "scheduling/unit_plan.h"

namespace paceline::collectives {

struct Call;   // exec/operation.h
struct Rules;  // likewise

using job::Loop;
using job::overlaps;
using job::parse_algorithm;
using job::parse_loop;
using job::TrainingOptions;
using job::updates_everywhere;

// The rules of all operations of a job with so many workers. Sums are taken in rank order unless an algorithm was asked for that
// cannot: the bits then depend on the algorithm (and are the same on all ranks).
Rules rules_of(const TrainingOptions& options, std::int32_t workers);
// The root of the loop's reduce; broadcasts of a loop that updates everywhere come from rank 0.
Rank root_of(const TrainingOptions& options, std::int32_t workers);

// A unit's operation, without its buffers. `algorithm` is set where the asked one can carry it out.
enum class TrainingStep { kReduce, kBroadcast };
Call call_of(const TrainingOptions& options, std::int32_t workers, TrainingStep step, std::int64_t elements);

}  // namespace paceline::collectives
