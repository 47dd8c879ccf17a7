// What a worker tells the coordinator of its network before it joins, so that `--schedule tuned` can predict the job.
#pragma once

#include "base/status.h"
#include "job/option.h"
#include "wire/control.h"

namespace paceline::trainer {

// With fewer iterations than that the steps that are measured would cost more than a better schedule saves.
inline constexpr std::int64_t kWorthMeasuring = 100;

// How long each layer of the network computes: medians of some steps on a random mini-batch, with a network of its own, which is
// gone afterwards (layer_profile.h). Empty where nobody asks: another schedule than tuned, no servers, or a job of a given number
// of iterations below kWorthMeasuring. Call it before the job's own network is made: it seeds torch. Errors: kBadRequest for an
// unknown model or convolution.
Result<wire::LayerSeconds> measure_layers(const job::JobSpec& settings);

}  // namespace paceline::trainer
