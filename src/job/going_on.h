// What a job that goes on from a checkpoint takes from the one that wrote it, so that nobody has to type its options again. Plain
// functions, any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "job/spec.h"

namespace paceline::job {

// Whether a person gave the option of this name, "mini-batch". "servers", which is no row of the table, stands for a wish for some.
using Said = std::function<bool(std::string_view name)>;

// `wanted` with the value in `saved` of every option that nobody has said. Not taken: what belongs to one run (the directory, its
// key, --resume), and --export, for whoever may write checkpoints must not choose which other file is written. What refines an
// option that is said otherwise now goes with it: with another --schedule the --slice, with --epochs the --iterations.
JobSpec with_saved(JobSpec wanted, const JobSpec& saved, const Said& said);

// What `job` has from `saved` in this way, as a person would type it: " --mini-batch 16 --optimizer momentum". Usual values are
// left out.
std::string taken_text(const JobSpec& job, const JobSpec& saved, const Said& said);

}  // namespace paceline::job
