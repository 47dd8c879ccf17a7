#include "trainer/layer_profile.h"

#include <torch/torch.h>

#include "base/clock.h"
#include "model/description.h"
#include "scheduling/layer_times.h"
#include "trainer/models/convolution.h"
#include "trainer/models/network.h"
#include "trainer/module_adapter.h"
#include "trainer/random_batch.h"

namespace paceline::trainer {
namespace {

class Timer final : public LayerObserver {
 public:
  Timer(const Clock& clock, const wire::TensorTable& table) : clock_(clock), table_(table), times_(table.layers.size()) {}

  Status before_layer(Layer layer) override {
    const TimePoint now = clock_.now();
    times_.on_gate(layer, now, now);
    return {};
  }
  void on_gradient(int tensor) override {
    times_.on_gradient(table_.tensors[static_cast<std::size_t>(tensor)].layer, clock_.now());
  }
  scheduling::LayerTimes& times() { return times_; }

 private:
  const Clock& clock_;
  const wire::TensorTable& table_;
  scheduling::LayerTimes times_;
};

// Seconds of one step; the layers' shares of it stand in the timer.
double step(models::Network& network, ModuleAdapter& adapter, const RandomBatch& batch, Timer& timer) {
  const SystemClock clock;
  timer.times().clear_forward();
  timer.times().clear_backward();
  torch::manual_seed(2);  // dropout, alike in all steps
  torch::Tensor loss;
  const TimePoint began = clock.now();
  const Status gates = adapter.run_forward(timer, [&] { loss = network.loss(batch.input, batch.target); });
  PACELINE_CHECK(gates.ok(), "a gate without a reason: {}", gates.message());
  loss.item<double>();
  const TimePoint between = clock.now();
  timer.times().on_forward_done(between);
  timer.times().on_backward_begun(between);
  adapter.run_backward(timer, [&] { loss.backward(); });
  const TimePoint ended = clock.now();
  timer.times().on_backward_done(ended);
  return seconds(ended - began);
}

LayerProfile empty_profile(const wire::TensorTable& table) {
  LayerProfile profile;
  for (const std::string& name : table.layers) profile.layers.push_back({name, 0, {}, {}});
  for (const wire::TensorInfo& tensor : table.tensors)
    profile.layers[static_cast<std::size_t>(tensor.layer.index)].parameters += tensor.elements();
  return profile;
}

}  // namespace

Result<LayerProfile> profile_layers(const LayerProfileOptions& options,
                                    const std::function<void(std::int64_t, std::int64_t)>& on_step) {
  PACELINE_ASSIGN_OR_RETURN(const model::ModelDescription description, model::describe(options.model));
  PACELINE_RETURN_IF_ERROR(description.check_mini_batch(options.mini_batch));
  at::set_num_threads(1);  // as a worker
  torch::manual_seed(1);
  PACELINE_ASSIGN_OR_RETURN(const auto network, models::make(options.model));
  PACELINE_RETURN_IF_ERROR(models::run_convolutions(*network, options.convolutions));
  network->train();
  const RandomBatch few = random_batch(description, 2);
  PACELINE_ASSIGN_OR_RETURN(const auto adapter, ModuleAdapter::make(*network, [&] { network->loss(few.input, few.target); }));
  const RandomBatch batch = random_batch(description, options.mini_batch);

  LayerProfile profile = empty_profile(adapter->table());
  const SystemClock clock;
  Timer timer(clock, adapter->table());
  const std::int64_t total = options.warm_up + options.rounds;
  const TimePoint began = clock.now();
  for (std::int64_t done = 0; done < total; ++done) {
    const double seconds_of_step = step(*network, *adapter, batch, timer);
    on_step(done + 1, total);
    // Whether the time allows no other step like this one.
    const bool last = options.limit > 0 && seconds(clock.now() - began) + seconds_of_step > options.limit;
    if (done < options.warm_up && !last) continue;
    if (profile.steps.empty()) profile.warm_up = done;
    profile.steps.push_back(seconds_of_step);
    for (std::size_t layer = 0; layer < profile.layers.size(); ++layer) {
      profile.layers[layer].forward.push_back(timer.times().forward()[layer]);
      profile.layers[layer].backward.push_back(timer.times().backward()[layer]);
    }
    if (last) break;
  }
  return profile;
}

}  // namespace paceline::trainer
