#include "model/description.h"

#include <functional>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "model/networks.h"

namespace paceline::model {

const char* to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::kConvolution:
      return "convolution";
    case LayerKind::kBatchNorm:
      return "batch-norm";
    case LayerKind::kLinear:
      return "linear";
    case LayerKind::kEmbedding:
      return "embedding";
    case LayerKind::kLstm:
      return "lstm";
    case LayerKind::kAttention:
      return "attention";
  }
  PACELINE_CHECK(false, "layer kind {}", static_cast<int>(kind));
}

const char* to_string(PoolingKind kind) { return kind == PoolingKind::kMax ? "max" : "average"; }

std::int64_t TensorDescription::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t ModelDescription::parameters() const {
  std::int64_t sum = 0;
  for (const LayerDescription& layer : layers) sum += layer.parameters;
  return sum;
}

std::int64_t ModelDescription::macs() const {
  std::int64_t sum = 0;
  for (const LayerDescription& layer : layers) sum += layer.macs;
  return sum;
}

Status ModelDescription::check_mini_batch(std::int64_t samples) const {
  if (samples >= smallest_mini_batch) return {};
  return error(ErrorKind::kBadRequest,
               "{} needs a --mini-batch of at least {}: BatchNorm of its auxiliary classifier sees one position of each sample",
               name, smallest_mini_batch)
      .because({"illegal", "--mini-batch"});
}

std::vector<FeatureMap> ModelDescription::feature_maps() const {
  std::vector<FeatureMap> maps;
  for (const LayerDescription& layer : layers) {
    if (layer.convolution) {
      if (maps.empty()) maps.push_back(layer.convolution->input);
      maps.push_back(layer.convolution->output);
    }
    for (const PoolingGeometry& pool : layer.pooling) maps.push_back(pool.output);
  }
  return maps;
}

std::vector<std::vector<std::int64_t>> ModelDescription::classifiers() const {
  std::vector<std::vector<std::int64_t>> chains;
  const LinearGeometry* previous = nullptr;
  for (const LayerDescription& layer : layers) {
    const LinearGeometry* linear = layer.linear ? &*layer.linear : nullptr;
    if (linear) {
      if (!previous || previous->out_features != linear->in_features) chains.push_back({linear->in_features});
      chains.back().push_back(linear->out_features);
    }
    previous = linear;
  }
  return chains;
}

namespace {

struct Entry {
  const char* name;
  std::function<ModelDescription()> describe;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {"mlp", mlp},
      {"lenet", lenet},
      {"resnet-20", [] { return residual_cifar(20); }},
      {"resnet-110", [] { return residual_cifar(110); }},
      {"alexnet", alexnet},
      {"alexnet-32", alexnet_32},
      {"googlenet", [] { return googlenet(Auxiliary::kWithout); }},
      {"googlenet-aux", [] { return googlenet(Auxiliary::kWith); }},
      {"inception-v3", [] { return inception_v3(Auxiliary::kWithout); }},
      {"inception-v3-aux", [] { return inception_v3(Auxiliary::kWith); }},
      {"vgg-19", [] { return vgg_19(1000); }},
      {"vgg-19-22k", [] { return vgg_19(21841); }},
      {"vgg-19-32", vgg_19_32},
      {"resnet-50", residual_50},
      {"seq2seq", seq2seq},
  };
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> found;
    for (const Entry& entry : entries()) found.emplace_back(entry.name);
    return found;
  }();
  return all;
}

Result<ModelDescription> describe(const std::string& name) {
  for (const Entry& entry : entries()) {
    if (name != entry.name) continue;
    ModelDescription model = entry.describe();
    model.name = name;
    return model;
  }
  return error(ErrorKind::kBadRequest, "there is no model '{}'{}; the models are {}", name, suggestion(name, names()),
               joined(names()))
      .because({"unknown", ""});
}

}  // namespace paceline::model
