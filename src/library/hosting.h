// How the calls begin that start a node on a thread of the library.
#pragma once

#include "library/job.h"
#include "library/node.h"
#include "library/structs.h"

namespace paceline::library {

// Of a coordinator's or server's job only the limits count, so that it may be left out: NULL, one with the defaults.
inline Result<job::JobSpec> spec_of(const paceline_job* job) {
  if (job == nullptr) return job::JobSpec();
  PACELINE_ASSIGN_OR_RETURN(const auto used, use<Job>(job));
  return used->spec();
}

// `Hosted::make(place, spec)` starts it.
template <typename Hosted>
std::int32_t host(const paceline_job* job, const paceline_place* place, paceline_node** node, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(check_given(node, "node"));
    PACELINE_ASSIGN_OR_RETURN(const paceline_place known, read_place(place));
    PACELINE_ASSIGN_OR_RETURN(const job::JobSpec spec, spec_of(job));
    PACELINE_ASSIGN_OR_RETURN(auto made, Hosted::make(known, spec));
    give_handle(std::move(made), node);
    return {};
  });
}

}  // namespace paceline::library
