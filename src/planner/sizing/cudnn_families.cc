#include "planner/sizing/cudnn_families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace paceline::planner {
namespace {

// Tried in this order where a family's own member of a backward pass is missing or refused.
constexpr std::array<CudnnAlgorithm, 2> kFallbacks = {CudnnAlgorithm::kAlgo1, CudnnAlgorithm::kAlgo0};

std::optional<CudnnAlgorithm> own_member(const CudnnFamily& family, CudnnPass pass) {
  switch (pass) {
    case CudnnPass::kForward:
      return family.forward;
    case CudnnPass::kBackwardData:
      return family.backward_data;
    case CudnnPass::kBackwardFilter:
      return family.backward_filter;
  }
  return std::nullopt;
}

const CudnnMeasurement& measurement(const MeasuredCudnnLayer& layer, CudnnPass pass, CudnnAlgorithm algorithm) {
  const auto found = layer.measured.find({pass, algorithm});
  PACELINE_CHECK(found != layer.measured.end(), "layer '{}': {} by {} was not measured", layer.name, to_string(pass),
                 to_string(algorithm));
  return found->second;
}

// The first of the family's members that computes the pass, or why there is none.
Result<CudnnPassChoice> choose(const CudnnFamily& family, const MeasuredCudnnLayer& layer, CudnnPass pass) {
  std::string refusals;
  for (const CudnnAlgorithm algorithm : members_to_try(family, pass)) {
    const CudnnMeasurement& one = measurement(layer, pass, algorithm);
    if (one.refusal.empty()) return CudnnPassChoice{pass, algorithm, one.seconds, one.workspace_bytes};
    refusals += fmt::format("{}{} by {}: {}", refusals.empty() ? "" : "; ", to_string(pass), to_string(algorithm), one.refusal);
  }
  return Status(ErrorKind::kBadRequest, refusals);
}

Result<CudnnCandidate> candidate(const CudnnFamily& family, const MeasuredCudnnLayer& layer) {
  CudnnCandidate result{.family = family.name};
  for (const CudnnPass pass : layer.passes) {
    PACELINE_ASSIGN_OR_RETURN(const CudnnPassChoice chosen, choose(family, layer, pass));
    result.seconds += chosen.seconds;
    result.workspace_bytes = std::max(result.workspace_bytes, chosen.workspace_bytes);
    result.passes.push_back(chosen);
  }
  result.difference = measurement(layer, CudnnPass::kForward, family.forward).difference;
  const double tolerated = model::tolerance(family.like);
  if (result.difference <= tolerated) return result;
  return error(ErrorKind::kBadRequest, "its result is {:.1e} of the largest value away from {}'s; tolerated: {:.0e}",
               result.difference, cudnn_families().front().name, tolerated);
}

}  // namespace

const char* to_string(CudnnPass pass) {
  switch (pass) {
    case CudnnPass::kForward:
      return "forward";
    case CudnnPass::kBackwardData:
      return "backward_data";
    case CudnnPass::kBackwardFilter:
      return "backward_filter";
  }
  return "?";
}

const char* to_string(CudnnAlgorithm algorithm) {
  switch (algorithm) {
    case CudnnAlgorithm::kImplicitGemm:
      return "IMPLICIT_GEMM";
    case CudnnAlgorithm::kPrecompGemm:
      return "IMPLICIT_PRECOMP_GEMM";
    case CudnnAlgorithm::kGemm:
      return "GEMM";
    case CudnnAlgorithm::kDirect:
      return "DIRECT";
    case CudnnAlgorithm::kFft:
      return "FFT";
    case CudnnAlgorithm::kFftTiling:
      return "FFT_TILING";
    case CudnnAlgorithm::kWinograd:
      return "WINOGRAD";
    case CudnnAlgorithm::kWinogradNonfused:
      return "WINOGRAD_NONFUSED";
    case CudnnAlgorithm::kAlgo0:
      return "ALGO_0";
    case CudnnAlgorithm::kAlgo1:
      return "ALGO_1";
  }
  return "?";
}

const std::vector<CudnnFamily>& cudnn_families() {
  using enum CudnnAlgorithm;
  constexpr auto kLikeGemm = model::ConvolutionAlgorithm::kGemm;
  constexpr auto kLikeFft = model::ConvolutionAlgorithm::kFft;
  constexpr auto kLikeWinograd = model::ConvolutionAlgorithm::kWinograd;
  static const std::vector<CudnnFamily> families = {
      {"cudnn-implicit-gemm", kImplicitGemm, std::nullopt, std::nullopt, kLikeGemm},
      {"cudnn-precomp-gemm", kPrecompGemm, std::nullopt, std::nullopt, kLikeGemm},
      {"cudnn-gemm", kGemm, std::nullopt, std::nullopt, kLikeGemm},
      {"cudnn-direct", kDirect, std::nullopt, std::nullopt, kLikeGemm},
      {"cudnn-fft", kFft, kFft, kFft, kLikeFft},
      {"cudnn-fft-tiling", kFftTiling, kFftTiling, kFftTiling, kLikeFft},
      // cuDNN's header names a WINOGRAD of the backward pass for filters too, and says that it is not implemented.
      {"cudnn-winograd", kWinograd, kWinograd, std::nullopt, kLikeWinograd},
      {"cudnn-winograd-nonfused", kWinogradNonfused, kWinogradNonfused, kWinogradNonfused, kLikeWinograd}};
  return families;
}

std::vector<CudnnAlgorithm> members_to_try(const CudnnFamily& family, CudnnPass pass) {
  std::vector<CudnnAlgorithm> members;
  if (const auto own = own_member(family, pass)) members.push_back(*own);
  if (pass != CudnnPass::kForward) members.insert(members.end(), kFallbacks.begin(), kFallbacks.end());
  return members;
}

std::vector<CudnnAlgorithm> algorithms_to_measure(CudnnPass pass) {
  std::vector<CudnnAlgorithm> algorithms;
  for (const CudnnFamily& family : cudnn_families()) {
    for (const CudnnAlgorithm algorithm : members_to_try(family, pass)) {
      if (std::ranges::find(algorithms, algorithm) == algorithms.end()) algorithms.push_back(algorithm);
    }
  }
  return algorithms;
}

std::vector<CudnnPass> passes_of_convolution(std::size_t index) {
  if (index == 0) return {CudnnPass::kForward, CudnnPass::kBackwardFilter};
  return {CudnnPass::kForward, CudnnPass::kBackwardData, CudnnPass::kBackwardFilter};
}

CudnnLayerCandidates candidates_of(const MeasuredCudnnLayer& layer) {
  CudnnLayerCandidates result{.name = layer.name};
  for (const CudnnFamily& family : cudnn_families()) {
    auto made = candidate(family, layer);
    if (made.ok())
      result.candidates.push_back(std::move(made).value());
    else
      result.left_out.push_back({family.name, made.status().message()});
  }
  return result;
}

std::vector<std::vector<AlgorithmCost>> costs_of(const std::vector<CudnnLayerCandidates>& layers) {
  std::vector<std::vector<AlgorithmCost>> costs;
  for (const CudnnLayerCandidates& layer : layers) {
    costs.emplace_back();
    for (const CudnnCandidate& candidate : layer.candidates)
      costs.back().push_back({candidate.seconds, static_cast<double>(candidate.workspace_bytes)});
  }
  return costs;
}

void LargestDifference::add(std::span<const float> expected, std::span<const float> found) {
  PACELINE_CHECK(expected.size() == found.size(), "{} values beside {}", expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double one = expected[i], other = found[i];
    // A maximum would pass over what is not a number.
    const double difference =
        std::isfinite(one) && std::isfinite(other) ? std::abs(one - other) : std::numeric_limits<double>::infinity();
    difference_ = std::max(difference_, difference);
    if (std::isfinite(one)) largest_ = std::max(largest_, std::abs(one));
  }
}

double LargestDifference::relative() const {
  if (difference_ == 0) return 0;
  return largest_ == 0 ? std::numeric_limits<double>::infinity() : difference_ / largest_;
}

std::int64_t repetitions(double seconds) {
  constexpr double kWanted = 1e-3, kMost = 100;
  if (!(seconds > kWanted / kMost)) return static_cast<std::int64_t>(kMost);
  return static_cast<std::int64_t>(std::ceil(std::min(kMost, kWanted / seconds)));
}

}  // namespace paceline::planner
