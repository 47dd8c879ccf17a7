// cuDNN's convolution algorithms as candidates for the choice of one algorithm per layer (S.-X. Zou et al., Eq 6). A family is what
// a layer can be told to run: a name and an algorithm for each pass of a step. What was measured of single passes becomes
// candidates here, without cuDNN; planner/cuda/cudnn_timer.h measures. Plain values; any thread.
//
// cuDNN has fewer algorithms for the backward passes than for the forward one. Where a family has none for a backward pass, or
// cuDNN refuses it, ALGO_1 runs in that pass: a matrix product whose sums have an order. ALGO_0, whose sums have none, runs only
// where ALGO_1 is refused too. ALGO_3 of the backward pass for filters is left out for the same reason.
//
//   family                    forward                 backward, data      backward, filter
//   cudnn-implicit-gemm       IMPLICIT_GEMM           ALGO_1              ALGO_1
//   cudnn-precomp-gemm        IMPLICIT_PRECOMP_GEMM   ALGO_1              ALGO_1
//   cudnn-gemm                GEMM                    ALGO_1              ALGO_1
//   cudnn-direct              DIRECT                  ALGO_1              ALGO_1
//   cudnn-fft                 FFT                     FFT                 FFT
//   cudnn-fft-tiling          FFT_TILING              FFT_TILING          FFT_TILING
//   cudnn-winograd            WINOGRAD                WINOGRAD            ALGO_1
//   cudnn-winograd-nonfused   WINOGRAD_NONFUSED       WINOGRAD_NONFUSED   WINOGRAD_NONFUSED
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/convolution_algorithm.h"
#include "planner/sizing/algorithm_choice.h"

namespace paceline::planner {

enum class CudnnPass { kForward, kBackwardData, kBackwardFilter };
const char* to_string(CudnnPass pass);  // "forward", "backward_data", "backward_filter"

enum class CudnnAlgorithm {
  kImplicitGemm,
  kPrecompGemm,
  kGemm,
  kDirect,
  kFft,
  kFftTiling,
  kWinograd,
  kWinogradNonfused,
  kAlgo0,
  kAlgo1
};
const char* to_string(CudnnAlgorithm algorithm);  // as cuDNN calls it, without the pass: "IMPLICIT_GEMM", "ALGO_1"

struct CudnnFamily {
  std::string name;
  CudnnAlgorithm forward{};
  std::optional<CudnnAlgorithm> backward_data, backward_filter;  // nothing: cuDNN has none, or not one that it computes
  // The way of the processor whose tolerance() holds for this family's results too.
  model::ConvolutionAlgorithm like{};
};
const std::vector<CudnnFamily>& cudnn_families();  // all; the first is the one that the others are compared with

// What the family may run in the pass, the preferred one first; never empty.
std::vector<CudnnAlgorithm> members_to_try(const CudnnFamily& family, CudnnPass pass);
// What any family may run in the pass, each once; of the forward pass the one that the others are compared with first.
std::vector<CudnnAlgorithm> algorithms_to_measure(CudnnPass pass);
// What a step computes of the model's convolution number `index`, from 0 in forward order. The first one reads the samples, which
// need no gradient.
std::vector<CudnnPass> passes_of_convolution(std::size_t index);

// One pass of one layer by one algorithm.
struct CudnnMeasurement {
  std::string refusal;  // why there is none; "": there is
  double seconds = 0;   // median
  std::int64_t workspace_bytes = 0;
  double difference = 0;  // forward only: LargestDifference::relative() to the first family's result
};

struct MeasuredCudnnLayer {
  std::string name;
  std::vector<CudnnPass> passes;
  // Of each of `passes` all of algorithms_to_measure().
  std::map<std::pair<CudnnPass, CudnnAlgorithm>, CudnnMeasurement> measured;
};

struct CudnnPassChoice {
  CudnnPass pass{};
  CudnnAlgorithm algorithm{};
  double seconds = 0;
  std::int64_t workspace_bytes = 0;
};

// A family that computes the layer.
struct CudnnCandidate {
  std::string family;
  std::vector<CudnnPassChoice> passes;  // as the layer's
  double seconds = 0;                   // sum over the passes
  std::int64_t workspace_bytes = 0;     // most of a pass: they run one after the other
  double difference = 0;
};

struct CudnnLayerCandidates {
  struct LeftOut {
    std::string family, reason;
  };
  std::string name;
  std::vector<CudnnCandidate> candidates;  // in the order of the families
  std::vector<LeftOut> left_out;           // cuDNN refuses it, or its result is too far off
};

CudnnLayerCandidates candidates_of(const MeasuredCudnnLayer& layer);

// The question of choose_algorithms(): index k of its choice is a candidate of layers[k].
std::vector<std::vector<AlgorithmCost>> costs_of(const std::vector<CudnnLayerCandidates>& layers);

// How far a result is from another one, added up part by part.
class LargestDifference {
 public:
  // Requires the same number of values.
  void add(std::span<const float> expected, std::span<const float> found);
  // Largest difference / largest expected value. 0: equal everywhere. Infinite: a value is not a number or infinite, or nothing but
  // zeros was expected and something else found.
  double relative() const;

 private:
  double difference_ = 0, largest_ = 0;
};

// How often a pass that takes so long is run between two looks at the clock, 1 to 100: for a millisecond, against which the clock's
// resolution and the start of the work count little.
std::int64_t repetitions(double seconds);

// What times depend on.
struct CudnnFingerprint {
  std::string gpu, cudnn, cuda_runtime;  // "NVIDIA …", "9.28.1", "13.0"
};

}  // namespace paceline::planner
