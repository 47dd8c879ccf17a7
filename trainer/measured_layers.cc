#include "trainer/measured_layers.h"

#include "base/median.h"
#include "trainer/layer_profile.h"

namespace paceline::trainer {
namespace {

constexpr std::int64_t kWarmUp = 1, kRounds = 3;

bool is_worth_it(const job::JobSpec& settings) {
  const bool is_long = settings.task.iterations == 0 || settings.task.iterations >= kWorthMeasuring;
  return settings.schedule.name == "tuned" && settings.has_servers() && is_long;
}

}  // namespace

Result<wire::LayerSeconds> measure_layers(const job::JobSpec& settings) {
  wire::LayerSeconds seconds;
  if (!is_worth_it(settings)) return seconds;
  LayerProfileOptions options{.model = settings.task.model,
                              .mini_batch = settings.task.mini_batch,
                              .rounds = kRounds,
                              .warm_up = kWarmUp,
                              .convolutions = settings.task.convolutions};
  PACELINE_ASSIGN_OR_RETURN(const LayerProfile profile, profile_layers(options, [](std::int64_t, std::int64_t) {}));
  for (const LayerProfile::Layer& layer : profile.layers) {
    seconds.forward.push_back(median(layer.forward));
    seconds.backward.push_back(median(layer.backward));
  }
  return seconds;
}

}  // namespace paceline::trainer
