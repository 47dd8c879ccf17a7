// Compares every description of src/model with the torch module of the same name: tensors by name and shape, and then, from the
// operators that a real pass of one mini-batch runs, the order of the layers, their multiply-accumulates and the pooling between
// them.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include <gmock/gmock.h>

#include <ATen/record_function.h>
#include <torch/torch.h>

#include "model/description.h"
#include "trainer/models/network.h"

namespace paceline::trainer::models {
namespace {

using model::LayerDescription;
using model::LayerKind;
using model::ModelDescription;

// ---- what the operators of a pass say
// --------------------------------------------------------------------------------------------

struct Pooling {
  model::PoolingKind kind;
  model::FeatureMap input, output;
  std::vector<std::int64_t> kernel, stride, padding;  // empty for global pooling
};

struct SeenLayer {
  std::string name;
  std::int64_t multiply_accumulates = 0;  // of the whole mini-batch
  std::vector<std::int64_t> convolution_input, convolution_output;
  std::vector<Pooling> pooling;
};

// Layers in the order in which an operator first reads one of their parameters. Multiply-accumulates come from the operands' and
// results' shapes of matrix products and convolutions; they belong to the layer whose parameters were read last.
class Observation {
 public:
  explicit Observation(torch::nn::Module& module) {
    for (const auto& owner : module.named_modules("", /*include_self=*/false)) {
      for (const auto& parameter : owner.value()->parameters(/*recurse=*/false))
        owners_[parameter.storage().unsafeGetStorageImpl()] = owner.key();
    }
    active = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Observation::on_start, &Observation::on_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~Observation() {
    at::removeCallback(handle_);
    active = nullptr;
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  const std::vector<SeenLayer>& layers() const { return layers_; }

 private:
  struct Call : at::ObserverContext {  // operands are to be had at the start only, results at the end
    std::vector<c10::IValue> inputs;
    std::size_t layer = 0;
  };

  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& operation) {
    auto call = std::make_unique<Call>();
    const auto inputs = operation.inputs();
    call->inputs.assign(inputs.begin(), inputs.end());
    for (const c10::IValue& value : call->inputs) {
      if (value.isTensor()) active->look_at(value.toTensor());
      if (value.isTensorList()) {
        for (const torch::Tensor& tensor : value.toTensorVector()) active->look_at(tensor);
      }
    }
    call->layer = active->current_;
    return call;
  }

  static void on_end(const at::RecordFunction& operation, at::ObserverContext* context) {
    const Call& call = static_cast<const Call&>(*context);
    if (!active->layers_.empty()) count(operation, call, active->layers_[call.layer]);
  }

  void look_at(const torch::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    const auto owner = owners_.find(tensor.storage().unsafeGetStorageImpl());
    if (owner == owners_.end()) return;
    const auto [place, added] = places_.try_emplace(owner->second, layers_.size());
    if (added) layers_.push_back({owner->second, 0, {}, {}, {}});
    current_ = place->second;
  }

  static void count(const at::RecordFunction& operation, const Call& call, SeenLayer& layer) {
    const std::string name = operation.name();
    const auto size = [&](std::size_t operand, std::int64_t side) { return call.inputs[operand].toTensor().size(side); };
    if (name == "aten::mm") layer.multiply_accumulates += size(0, 0) * size(0, 1) * size(1, 1);
    if (name == "aten::addmm") layer.multiply_accumulates += size(1, 0) * size(1, 1) * size(2, 1);
    if (name == "aten::bmm") layer.multiply_accumulates += size(0, 0) * size(0, 1) * size(0, 2) * size(1, 2);
    if (name == "aten::convolution") {
      const torch::Tensor output = operation.outputs()[0].toTensor(), weight = call.inputs[1].toTensor();
      layer.multiply_accumulates += output.numel() * weight.numel() / weight.size(0);
      layer.convolution_input = call.inputs[0].toTensor().sizes().vec();
      layer.convolution_output = output.sizes().vec();
    }
    if (name == "aten::max_pool2d" || name == "aten::avg_pool2d" || name == "aten::adaptive_avg_pool2d") {
      layer.pooling.push_back(pooling(name, call.inputs, operation.outputs()[0].toTensor()));
    }
  }

  static Pooling pooling(const std::string& name, const std::vector<c10::IValue>& inputs, const torch::Tensor& output) {
    const auto map = [](const torch::Tensor& tensor) { return model::FeatureMap{tensor.size(1), tensor.size(2), tensor.size(3)}; };
    const auto kind = name == "aten::max_pool2d" ? model::PoolingKind::kMax : model::PoolingKind::kAverage;
    Pooling found{kind, map(inputs[0].toTensor()), map(output), {}, {}, {}};
    if (name == "aten::adaptive_avg_pool2d") return found;
    found.kernel = inputs[1].toIntVector();
    found.stride = inputs[2].toIntVector();
    found.padding = inputs[3].toIntVector();
    return found;
  }

  static thread_local Observation* active;

  at::CallbackHandle handle_;
  std::unordered_map<const c10::StorageImpl*, std::string> owners_;
  std::map<std::string, std::size_t> places_;
  std::vector<SeenLayer> layers_;
  std::size_t current_ = 0;
};

thread_local Observation* Observation::active = nullptr;

// ---- helpers
// ---------------------------------------------------------------------------------------------------------------------

ModelDescription described(const std::string& name) { return model::describe(name).value(); }

std::shared_ptr<Network> made(const std::string& name) {
  torch::manual_seed(1);
  at::set_num_threads(1);
  return make(name).value();
}

struct Batch {
  torch::Tensor input, target;
};

Batch batch_for(const ModelDescription& model, std::int64_t samples) {
  torch::manual_seed(2);
  if (model.name == "seq2seq") {
    const std::int64_t length = model.input[1];
    return {torch::randint(4, 17191, {samples, length}, torch::kInt64),
            torch::randint(4, model.classes, {samples, length + 1}, torch::kInt64)};
  }
  return {torch::randn({samples, model.input[0], model.input[1], model.input[2]}),
          torch::randint(model.classes, {samples}, torch::kInt64)};
}

std::vector<std::int64_t> sizes(const model::FeatureMap& map, std::int64_t samples) {
  return {samples, map.channels, map.height, map.width};
}

bool is(const std::vector<std::int64_t>& found, const model::Extent& extent) {
  return found == std::vector<std::int64_t>{extent.height, extent.width} ||
         (found.size() == 1 && extent == model::Extent{found[0], found[0]});
}

void compare_pooling(const std::string& where, const LayerDescription& layer, const SeenLayer& seen) {
  ASSERT_EQ(seen.pooling.size(), layer.pooling.size()) << where;
  for (std::size_t i = 0; i < seen.pooling.size(); ++i) {
    const Pooling& found = seen.pooling[i];
    const model::PoolingGeometry& expected = layer.pooling[i];
    EXPECT_EQ(found.kind, expected.kind) << where << " " << expected.name;
    EXPECT_EQ(found.input, expected.input) << where << " " << expected.name;
    EXPECT_EQ(found.output, expected.output) << where << " " << expected.name;
    if (found.kernel.empty()) {
      EXPECT_EQ(expected.kernel, (model::Extent{found.input.height, found.input.width})) << where << " " << expected.name;
    } else {
      EXPECT_TRUE(is(found.kernel, expected.kernel) && is(found.stride, expected.stride) && is(found.padding, expected.padding))
          << where << " " << expected.name;
    }
  }
}

// The pass that training runs; two samples, because normalisation cannot learn from one value.
void compare_with_a_pass(const std::string& name, Network& network) {
  constexpr std::int64_t kSamples = 2;
  const ModelDescription description = described(name);
  const Batch batch = batch_for(description, kSamples);
  torch::NoGradGuard no_gradients;
  Observation observation(network);
  const torch::Tensor loss = network.loss(batch.input, batch.target);
  EXPECT_TRUE(std::isfinite(loss.item<double>())) << name;

  ASSERT_EQ(observation.layers().size(), description.layers.size()) << name;
  for (std::size_t i = 0; i < description.layers.size(); ++i) {
    const LayerDescription& layer = description.layers[i];
    const SeenLayer& seen = observation.layers()[i];
    const std::string where = name + " layer " + std::to_string(i + 1) + " " + layer.name;
    ASSERT_EQ(seen.name, layer.name) << where;
    EXPECT_EQ(seen.multiply_accumulates, kSamples * layer.macs) << where;
    if (layer.convolution) {
      EXPECT_EQ(seen.convolution_input, sizes(layer.convolution->input, kSamples)) << where;
      EXPECT_EQ(seen.convolution_output, sizes(layer.convolution->output, kSamples)) << where;
    }
    compare_pooling(where, layer, seen);
  }
}

LayerKind kind_of(torch::nn::Module& module) {
  if (module.as<torch::nn::Conv2d>()) return LayerKind::kConvolution;
  if (module.as<torch::nn::BatchNorm2d>()) return LayerKind::kBatchNorm;
  if (module.as<torch::nn::Linear>()) return LayerKind::kLinear;
  if (module.as<torch::nn::Embedding>()) return LayerKind::kEmbedding;
  if (module.as<torch::nn::LSTM>()) return LayerKind::kLstm;
  return LayerKind::kAttention;
}

void compare_tensors(const ModelDescription& description, const torch::nn::Module& network) {
  std::map<std::string, std::shared_ptr<torch::nn::Module>> owners;
  for (const auto& item : network.named_modules("", /*include_self=*/false)) {
    if (!item.value()->parameters(/*recurse=*/false).empty()) owners[item.key()] = item.value();
  }
  EXPECT_TRUE(network.parameters(/*recurse=*/false).empty()) << "a parameter outside every layer";
  EXPECT_EQ(owners.size(), description.layers.size());

  std::int64_t total = 0;
  for (const LayerDescription& layer : description.layers) {
    ASSERT_TRUE(owners.contains(layer.name)) << layer.name;
    torch::nn::Module& module = *owners[layer.name];
    EXPECT_EQ(kind_of(module), layer.kind) << layer.name;
    const auto parameters = module.named_parameters(/*recurse=*/false);
    ASSERT_EQ(parameters.size(), layer.tensors.size()) << layer.name;
    std::int64_t of_layer = 0;
    for (std::size_t i = 0; i < layer.tensors.size(); ++i) {
      EXPECT_EQ(parameters[i].key(), layer.tensors[i].name) << layer.name;
      EXPECT_EQ(parameters[i].value().sizes().vec(), layer.tensors[i].shape) << layer.name << "." << layer.tensors[i].name;
      of_layer += parameters[i].value().numel();
    }
    EXPECT_EQ(of_layer, layer.parameters) << layer.name;
    total += of_layer;
  }
  EXPECT_EQ(total, description.parameters());
}

// ---- tests
// -----------------------------------------------------------------------------------------------------------------------

class EveryModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryModel, HasTheTensorsTheLayersAndTheWorkOfItsDescription) {
  const auto network = made(GetParam());
  compare_tensors(described(GetParam()), *network);
  // Without oneDNN an LSTM is made of matrix products that can be counted.
  const bool recurrent = GetParam() == "seq2seq";
  if (recurrent) at::globalContext().setUserEnabledMkldnn(false);
  compare_with_a_pass(GetParam(), *network);
  if (recurrent) at::globalContext().setUserEnabledMkldnn(true);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, ::testing::ValuesIn(model::names()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// The loss of one mini-batch, seen again and again, falls: gradients reach the layers and the initial values let them.
class SmallModel : public ::testing::TestWithParam<std::pair<std::string, double>> {};

TEST_P(SmallModel, LearnsAMiniBatchByHeart) {
  const auto& [name, rate] = GetParam();
  const auto network = made(name);
  const Batch batch = batch_for(described(name), name == "seq2seq" ? 2 : 8);  // each of its samples is many words
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(rate).momentum(0.9));
  network->eval();  // without dropout the loss may be compared
  const double first = network->loss(batch.input, batch.target).item<double>();
  for (int iteration = 0; iteration < 6; ++iteration) {
    optimizer.zero_grad();
    network->loss(batch.input, batch.target).backward();
    optimizer.step();
  }
  const double last = network->loss(batch.input, batch.target).item<double>();
  EXPECT_LT(last, 0.9 * first) << "from " << first;
  for (const auto& parameter : network->named_parameters()) EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
}

INSTANTIATE_TEST_SUITE_P(Models, SmallModel,
                         ::testing::Values(std::pair{"mlp", 0.05}, std::pair{"lenet", 0.05}, std::pair{"resnet-20", 0.05},
                                           std::pair{"alexnet-32", 0.01}, std::pair{"vgg-19-32", 0.02}, std::pair{"seq2seq", 3.0}),
                         [](const auto& instance) {
                           std::string name = instance.param.first;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Make, RefusesAnUnknownNameWithTheNearestOne) {
  const auto network = make("lenett");
  ASSERT_FALSE(network.ok());
  EXPECT_EQ(network.status().kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(network.status().message(), ::testing::HasSubstr("did you mean 'lenet'"));
}

TEST(Make, GivesTheSameValuesForTheSameSeed) {
  for (const char* name : {"lenet", "resnet-20", "seq2seq"}) {
    const auto one = made(name)->parameters(), two = made(name)->parameters();
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(two[i])) << name << " tensor " << i;
  }
}

TEST(Score, CountsTheLargestLogitAtTheRightClass) {
  const auto network = made("mlp");
  torch::NoGradGuard no_gradients;
  network->named_parameters()["fc3.weight"].zero_();
  network->named_parameters()["fc3.bias"].copy_(torch::tensor({0, 0, 5, 0, 0, 0, 0, 0, 0, 0}, torch::kFloat32));
  const Score score = network->score(torch::zeros({4, 1, 28, 28}), torch::tensor({2, 1, 2, 2}, torch::kInt64));
  EXPECT_EQ(score.correct, 3);
  EXPECT_EQ(score.total, 4);
}

TEST(Auxiliary, ClassifiersCountInTrainingOnly) {
  const auto network = made("googlenet-aux");
  const Batch batch = batch_for(described("googlenet-aux"), 1);
  torch::NoGradGuard no_gradients;
  network->eval();
  const double main = network->loss(batch.input, batch.target).item<double>();
  EXPECT_DOUBLE_EQ(main, torch::cross_entropy_loss(network->forward(batch.input, batch.target), batch.target).item<double>());
  // A head whose output is constant costs ln 1000, dropout or not; the main classifier is made constant as well.
  for (const char* layer : {"aux1.fc2", "aux2.fc2", "fc"}) network->named_parameters()[std::string(layer) + ".weight"].zero_();
  EXPECT_NEAR(network->loss(batch.input, batch.target).item<double>(), std::log(1000.0), 1e-4);
  network->train();
  EXPECT_NEAR(network->loss(batch.input, batch.target).item<double>(), 1.6 * std::log(1000.0), 1e-4);
}

TEST(Seq2seq, IgnoresPadding) {
  const auto network = made("seq2seq");
  torch::NoGradGuard no_gradients;
  // Begin, two words, end; the same with padding behind it, in a mini-batch with a longer sentence.
  const auto source = torch::tensor({{5, 6, 7}}, torch::kInt64), target = torch::tensor({{2, 8, 9, 3}}, torch::kInt64);
  const auto padded = torch::tensor({{2, 8, 9, 3, 0, 0}}, torch::kInt64);
  EXPECT_NEAR(network->loss(source, target).item<double>(), network->loss(source, padded).item<double>(), 1e-5);
  EXPECT_EQ(network->score(source, target).total, 3);
  EXPECT_EQ(network->score(source, padded).total, 3);
  EXPECT_EQ(network->answers(padded).numel(), 5);
}

TEST(Seq2seq, StaysFiniteForASentenceWithoutWords) {
  const auto network = made("seq2seq");
  torch::NoGradGuard no_gradients;
  const auto loss = network->loss(torch::zeros({1, 3}, torch::kInt64), torch::tensor({{2, 3}}, torch::kInt64));
  EXPECT_TRUE(std::isfinite(loss.item<double>()));
}

TEST(Seq2seq, DoesNotSeeTheTokenThatItPredicts) {
  const auto network = made("seq2seq");
  torch::NoGradGuard no_gradients;
  const auto source = torch::tensor({{5, 6, 7}}, torch::kInt64);
  const auto one = network->forward(source, torch::tensor({{2, 8, 9, 3}}, torch::kInt64));
  const auto two = network->forward(source, torch::tensor({{2, 8, 10, 3}}, torch::kInt64));
  EXPECT_TRUE(one.slice(0, 0, 2).equal(two.slice(0, 0, 2)));   // answers to "begin" and "8"
  EXPECT_FALSE(one.slice(0, 2, 3).equal(two.slice(0, 2, 3)));  // the answer to what differs
}

}  // namespace
}  // namespace paceline::trainer::models
