// `paceline bench preemption`.
#pragma once

namespace paceline::cli {

struct PreemptionRequest {
  bool quick = false, json = false;
};
int run_preemption(const PreemptionRequest& request);

}  // namespace paceline::cli
