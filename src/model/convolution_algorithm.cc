#include "model/convolution_algorithm.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::model {
namespace {

constexpr std::array<std::pair<ConvolutionAlgorithm, const char*>, 5> kNames = {{{ConvolutionAlgorithm::kDefault, "default"},
                                                                                 {ConvolutionAlgorithm::kOnednn, "onednn"},
                                                                                 {ConvolutionAlgorithm::kGemm, "gemm"},
                                                                                 {ConvolutionAlgorithm::kWinograd, "winograd"},
                                                                                 {ConvolutionAlgorithm::kFft, "fft"}}};

}  // namespace

const std::vector<ConvolutionAlgorithm>& convolution_algorithms() {
  static const std::vector<ConvolutionAlgorithm> all = [] {
    std::vector<ConvolutionAlgorithm> algorithms;
    for (const auto& [algorithm, name] : kNames) algorithms.push_back(algorithm);
    return algorithms;
  }();
  return all;
}

const char* to_string(ConvolutionAlgorithm algorithm) {
  for (const auto& [known, name] : kNames) {
    if (known == algorithm) return name;
  }
  return "?";
}

Result<ConvolutionAlgorithm> parse_algorithm(const std::string& name) {
  std::vector<std::string> legal;
  for (const auto& [algorithm, known] : kNames) {
    if (name == known) return algorithm;
    legal.emplace_back(known);
  }
  return error(ErrorKind::kBadRequest, "'{}' is no convolution algorithm{}; legal: {}", name, suggestion(name, legal),
               fmt::join(legal, ", "))
      .because({"unknown", ""});
}

// Winograd's transforms add and subtract multiples up to 8 of the values, which costs digits.
double tolerance(ConvolutionAlgorithm algorithm) { return algorithm == ConvolutionAlgorithm::kWinograd ? 2e-4 : 2e-5; }

std::string refusal(ConvolutionAlgorithm algorithm, const ConvolutionGeometry& geometry) {
  if (algorithm == ConvolutionAlgorithm::kDefault || algorithm == ConvolutionAlgorithm::kOnednn) return "";
  if (geometry.groups != 1)
    return fmt::format("{} computes convolutions without groups, this one has {}", to_string(algorithm), geometry.groups);
  if (algorithm != ConvolutionAlgorithm::kWinograd) return "";
  const bool fits = geometry.kernel == Extent{3, 3} && geometry.stride == Extent{1, 1} &&
                    std::max(geometry.padding.height, geometry.padding.width) <= 2;
  if (fits) return "";
  return fmt::format(
      "winograd computes 3x3 kernels with stride 1x1 and padding up to 2, this one is {}x{} with stride {}x{}, padding {}x{}",
      geometry.kernel.height, geometry.kernel.width, geometry.stride.height, geometry.stride.width, geometry.padding.height,
      geometry.padding.width);
}

std::string to_text(const ConvolutionChoice& choice) {
  std::string text;
  for (const auto& [layer, algorithm] : choice) {
    if (algorithm == ConvolutionAlgorithm::kDefault) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", layer, to_string(algorithm));
  }
  return text;
}

Result<ConvolutionChoice> parse_convolutions(const std::string& text) {
  ConvolutionChoice choice;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos) return error(ErrorKind::kBadRequest, "'{}' is not LAYER=ALGORITHM", part);
    auto algorithm = parse_algorithm(part.substr(equals + 1));
    if (!algorithm.ok())
      return error(ErrorKind::kBadRequest, "layer '{}': {}", part.substr(0, equals), algorithm.status().message());
    if (!choice.emplace(part.substr(0, equals), *algorithm).second)
      return error(ErrorKind::kBadRequest, "layer '{}' is named twice", part.substr(0, equals));
    begin = end + 1;
  }
  return choice;
}

Status check_convolutions(const ConvolutionChoice& choice, const ModelDescription& model) {
  std::vector<std::string> names;
  for (const LayerDescription& layer : model.layers) {
    if (layer.convolution) names.push_back(layer.name);
  }
  for (const auto& [name, algorithm] : choice) {
    const auto named = [&wanted = name](const LayerDescription& layer) { return layer.name == wanted && layer.convolution; };
    const auto layer = std::find_if(model.layers.begin(), model.layers.end(), named);
    if (layer == model.layers.end()) {
      return error(ErrorKind::kBadRequest, "layer '{}' is no convolution of model '{}'{}; {}", name, model.name,
                   suggestion(name, names),
                   names.empty() ? "it has none" : fmt::format("its convolutions: {}", fmt::join(names, ", ")))
          .because({"unknown", ""});
    }
    if (const std::string why = refusal(algorithm, *layer->convolution); !why.empty())
      return error(ErrorKind::kBadRequest, "layer '{}' cannot run '{}': {}", name, to_string(algorithm), why);
  }
  return {};
}

}  // namespace paceline::model
