#include "trainer/step_profile.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include <torch/torch.h>

#include "report/report.h"
#include "trainer/memory_watch.h"
#include "trainer/models/convolution.h"
#include "trainer/models/network.h"
#include "trainer/module_adapter.h"
#include "trainer/random_batch.h"

namespace paceline::trainer {
namespace {

using model::ConvolutionAlgorithm;
using models::ConvolutionProbe;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// A step shorter than this finds the caches as the contestant before it left them, which in training is itself: it is timed behind
// another one of its own. In a longer one that is lost.
constexpr double kShort = 0.25;

// What the passes of one layer with one algorithm took.
struct Record {
  std::vector<double> forward, backward;
  std::int64_t workspace = 0;
};

class LayerProbe final : public ConvolutionProbe {
 public:
  LayerProbe(const Clock& clock, MemoryWatch& watch) : clock_(clock), watch_(watch) {}

  // Into which record what follows belongs; nullptr: it is not kept.
  void set_record(Record* record) { record_ = record; }
  double seconds_of_step() const { return seconds_; }
  void begin_step() { seconds_ = 0; }

  void before(Pass) override {
    allocated_ = watch_.current();
    highest_ = std::max(highest_, watch_.peak());
    watch_.reset_peak();
    mark_ = clock_.now();
  }

  void after(Pass pass, std::int64_t results) override {
    const double took = seconds(clock_.now() - mark_);
    seconds_ += took;
    if (record_ != nullptr) {
      (pass == Pass::kForward ? record_->forward : record_->backward).push_back(took);
      record_->workspace = std::max(record_->workspace, watch_.peak() - allocated_ - results);
    }
    highest_ = std::max(highest_, watch_.peak());
  }

  // The watch's peak over everything, which measuring workspaces resets.
  std::int64_t highest() const { return std::max(highest_, watch_.peak()); }

 private:
  const Clock& clock_;
  MemoryWatch& watch_;
  Record* record_ = nullptr;
  TimePoint mark_{};
  double seconds_ = 0;
  std::int64_t allocated_ = 0, highest_ = 0;
};

// About what an algorithm allocates for a layer: so that one is not tried which would take the machine down.
double rough_workspace(ConvolutionAlgorithm algorithm, const model::ConvolutionGeometry& g, std::int64_t samples) {
  const auto channels = static_cast<double>(g.input.channels), filters = static_cast<double>(g.output.channels);
  const auto n = static_cast<double>(samples);
  const auto places = static_cast<double>(g.output.height * g.output.width);
  if (algorithm == ConvolutionAlgorithm::kGemm)
    return 4 * n * channels * static_cast<double>(g.kernel.height * g.kernel.width) * places;
  if (algorithm == ConvolutionAlgorithm::kWinograd) {
    const std::int64_t tiles = ((g.output.height + 3) / 4) * ((g.output.width + 3) / 4);
    return 4 * 36.0 * (2 * n * static_cast<double>(tiles) * (channels + filters) + channels * filters);
  }
  if (algorithm == ConvolutionAlgorithm::kFft) {
    const auto circle = static_cast<double>((g.input.height + 2 * g.padding.height) * (g.input.width + 2 * g.padding.width));
    return 4 * 2.5 * circle * (n * channels + n * filters + channels * filters);
  }
  return 0;
}

class StepProfiler {
 public:
  StepProfiler(const StepProfileOptions& options, model::ModelDescription description)
      : options_(options), description_(std::move(description)), probe_(clock_, watch_) {}

  Result<StepProfile> run(const std::function<void(std::int64_t, std::int64_t)>& on_step) {
    profile_.process_before = Bytes{report::peak_memory()};
    PACELINE_RETURN_IF_ERROR(prepare());
    watch_.reset_peak();  // making the network is no part of a step
    const auto contestants = contestants_of_job();
    const auto total = static_cast<std::int64_t>(contestants.size()) * (options_.rounds + 1);
    std::int64_t done = 0;
    std::vector<double> whole, rest, chosen;
    double fastest = 0;
    std::vector<char> slow(contestants.size(), 0);
    for (std::int64_t round = 0; round <= options_.rounds; ++round) {
      for (std::size_t i = 0; i < contestants.size(); ++i) {
        on_step(++done, total);
        if (slow[i] != 0 && round > 1) continue;  // what is that slow will not be chosen; two looks are enough
        if (round > 0 && fastest < kShort) step(contestants[i], Counts::kNo);
        const double took = step(contestants[i], Counts::kYes);
        if (round == 0) {  // warms up caches; its times count for nothing
          if (i == 0) first_step_done(took, fastest);
          slow[i] = took > 4 * fastest ? 1 : 0;
          forget_times();
          continue;
        }
        if (i == 0) {
          whole.push_back(took);
          rest.push_back(took - probe_.seconds_of_step());
        } else if (!options_.choice.empty()) {
          chosen.push_back(took);
        }
      }
    }
    profile_.seconds = median(whole);
    profile_.rest_seconds = median(rest);
    profile_.chosen_seconds = median(chosen);
    collect();
    return profile_;
  }

 private:
  // One algorithm for every layer that can run it; or, with a choice to be measured, that choice.
  using Contestant = std::map<std::string, ConvolutionAlgorithm>;

  Status prepare() {
    at::set_num_threads(1);
    torch::manual_seed(1);
    PACELINE_ASSIGN_OR_RETURN(network_, models::make(options_.model));
    network_->train();
    batch_ = random_batch(description_, options_.mini_batch);
    convolutions_ = models::convolutions_of(*network_);
    PACELINE_RETURN_IF_ERROR(check_convolutions(options_.choice, description_));
    PACELINE_ASSIGN_OR_RETURN(adapter_, ModuleAdapter::make(*network_, {}));
    for (const auto& [name, layer] : convolutions_) layer->set_probe(&probe_of(name));
    return {};
  }

  // Each layer has a probe of its own, which knows its record, and all of them add to one account.
  class Forward final : public ConvolutionProbe {
   public:
    Forward(LayerProbe& probe) : probe_(probe) {}
    void before(Pass pass) override {
      probe_.set_record(record);
      probe_.before(pass);
    }
    void after(Pass pass, std::int64_t results) override { probe_.after(pass, results); }
    Record* record = nullptr;

   private:
    LayerProbe& probe_;
  };
  Forward& probe_of(const std::string& layer) { return probes_.try_emplace(layer, probe_).first->second; }

  const model::ConvolutionGeometry* geometry_of(const std::string& name) const {
    for (const auto& layer : description_.layers) {
      if (layer.name == name && layer.convolution) return &*layer.convolution;
    }
    return nullptr;
  }

  bool can_run(const std::string& layer, ConvolutionAlgorithm algorithm) const {
    const model::ConvolutionGeometry* geometry = geometry_of(layer);
    if (geometry == nullptr || !refusal(algorithm, *geometry).empty()) return false;
    return options_.memory.count == 0 ||
           rough_workspace(algorithm, *geometry, options_.mini_batch) <= static_cast<double>(options_.memory.count);
  }

  // What the default is anyway would only be measured twice, and the luckier measurement chosen.
  bool is_default(const models::ConvolutionImpl& layer, const std::string& name, ConvolutionAlgorithm algorithm) const {
    const model::FeatureMap& input = geometry_of(name)->input;
    return algorithm == ConvolutionAlgorithm::kOnednn &&
           layer.default_is_onednn({options_.mini_batch, input.channels, input.height, input.width});
  }

  std::vector<Contestant> contestants_of_job() const {
    std::vector<Contestant> contestants = {{}};
    if (options_.rounds == 0) return contestants;
    if (!options_.choice.empty()) {
      contestants.push_back(options_.choice);
      return contestants;
    }
    for (const ConvolutionAlgorithm algorithm : model::convolution_algorithms()) {
      if (algorithm == ConvolutionAlgorithm::kDefault) continue;
      Contestant contestant;
      for (const auto& [name, layer] : convolutions_) {
        if (can_run(name, algorithm) && !is_default(*layer, name, algorithm)) contestant[name] = algorithm;
      }
      if (!contestant.empty()) contestants.push_back(contestant);
    }
    return contestants;
  }

  enum class Counts { kNo, kYes };

  double step(const Contestant& contestant, Counts counted) {
    for (const auto& [name, layer] : convolutions_) {
      const auto chosen = contestant.find(name);
      const auto algorithm = chosen == contestant.end() ? ConvolutionAlgorithm::kDefault : chosen->second;
      layer->run_with(algorithm);
      // With other layers' algorithms around it, a default layer's time is not the default's.
      const bool counts = counted == Counts::kYes && (contestant.empty() || chosen != contestant.end());
      probe_of(name).record = counts ? &records_[name][algorithm] : nullptr;
    }
    probe_.begin_step();
    NoObserver observer;
    torch::Tensor loss;
    torch::manual_seed(2);
    const TimePoint began = clock_.now();
    const Status gates = adapter_->run_forward(observer, [&] { loss = network_->loss(batch_.input, batch_.target); });
    PACELINE_CHECK(gates.ok(), "a gate without a reason: {}", gates.message());
    loss.item<double>();
    adapter_->run_backward(observer, [&] { loss.backward(); });
    return seconds(clock_.now() - began);
  }

  void first_step_done(double took, double& fastest) {
    fastest = took;
    profile_.process_peak = Bytes{report::peak_memory()};
    profile_.tensors_peak = Bytes{probe_.highest()};
  }

  void forget_times() {
    for (auto& [layer, by_algorithm] : records_) {
      for (auto& [algorithm, record] : by_algorithm) {
        record.forward.clear();
        record.backward.clear();
      }
    }
  }

  void collect() {
    for (const auto& [name, layer] : convolutions_) {
      LayerMeasurement measured{name, {}};
      for (const auto& [algorithm, record] : records_[name]) {
        if (record.forward.empty()) continue;
        measured.algorithms.push_back({algorithm, median(record.forward), median(record.backward), Bytes{record.workspace}});
      }
      profile_.layers.push_back(std::move(measured));
    }
  }

  const StepProfileOptions& options_;
  const model::ModelDescription description_;
  const SystemClock clock_;
  MemoryWatch watch_;
  LayerProbe probe_;
  std::map<std::string, Forward> probes_;
  std::map<std::string, std::map<ConvolutionAlgorithm, Record>> records_;
  std::shared_ptr<models::Network> network_;
  std::unique_ptr<ModuleAdapter> adapter_;
  std::vector<std::pair<std::string, models::ConvolutionImpl*>> convolutions_;
  RandomBatch batch_;
  StepProfile profile_;
};

}  // namespace

Result<StepProfile> profile_step(const StepProfileOptions& options,
                                 const std::function<void(std::int64_t, std::int64_t)>& on_step) {
  PACELINE_ASSIGN_OR_RETURN(model::ModelDescription description, model::describe(options.model));
  PACELINE_RETURN_IF_ERROR(description.check_mini_batch(options.mini_batch));
  StepProfiler profiler(options, std::move(description));
  return profiler.run(on_step);
}

}  // namespace paceline::trainer
