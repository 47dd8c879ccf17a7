#include "planner/cuda/cudnn_convolution.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace paceline::planner {
namespace {

std::optional<cudnnConvolutionFwdAlgo_t> forward(CudnnAlgorithm algorithm) {
  switch (algorithm) {
    case CudnnAlgorithm::kImplicitGemm:
      return CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
    case CudnnAlgorithm::kPrecompGemm:
      return CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    case CudnnAlgorithm::kGemm:
      return CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
    case CudnnAlgorithm::kDirect:
      return CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
    case CudnnAlgorithm::kFft:
      return CUDNN_CONVOLUTION_FWD_ALGO_FFT;
    case CudnnAlgorithm::kFftTiling:
      return CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING;
    case CudnnAlgorithm::kWinograd:
      return CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD;
    case CudnnAlgorithm::kWinogradNonfused:
      return CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
    case CudnnAlgorithm::kAlgo0:
    case CudnnAlgorithm::kAlgo1:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<cudnnConvolutionBwdDataAlgo_t> backward_data(CudnnAlgorithm algorithm) {
  switch (algorithm) {
    case CudnnAlgorithm::kAlgo0:
      return CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
    case CudnnAlgorithm::kAlgo1:
      return CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
    case CudnnAlgorithm::kFft:
      return CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT;
    case CudnnAlgorithm::kFftTiling:
      return CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING;
    case CudnnAlgorithm::kWinograd:
      return CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD;
    case CudnnAlgorithm::kWinogradNonfused:
      return CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
    default:
      return std::nullopt;
  }
}

std::optional<cudnnConvolutionBwdFilterAlgo_t> backward_filter(CudnnAlgorithm algorithm) {
  switch (algorithm) {
    case CudnnAlgorithm::kAlgo0:
      return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0;
    case CudnnAlgorithm::kAlgo1:
      return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
    case CudnnAlgorithm::kFft:
      return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT;
    case CudnnAlgorithm::kFftTiling:
      return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING;
    case CudnnAlgorithm::kWinogradNonfused:
      return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
    default:
      return std::nullopt;
  }
}

std::size_t values_of(const model::FeatureMap& map, std::int64_t mini_batch) {
  return static_cast<std::size_t>(map.elements()) * static_cast<std::size_t>(mini_batch);
}

Status fit(const model::ConvolutionGeometry& geometry, std::int64_t mini_batch) {
  const auto& [kernel, stride, padding, groups, bias, input, output] = geometry;
  const std::int64_t largest = std::max({mini_batch, kernel.height, kernel.width, stride.height, stride.width, padding.height,
                                         padding.width, groups, input.channels, input.height, input.width, output.channels});
  if (largest <= std::numeric_limits<int>::max()) return {};
  return error(ErrorKind::kBadRequest, "a convolution has a size of {}; cuDNN counts up to {}", largest,
               std::numeric_limits<int>::max());
}

Status describe_maps(cudnnTensorDescriptor_t shape, int mini_batch, const model::FeatureMap& map) {
  return check(cudnnSetTensor4dDescriptor(shape, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, mini_batch, static_cast<int>(map.channels),
                                          static_cast<int>(map.height), static_cast<int>(map.width)),
               "describe a tensor");
}

}  // namespace

Result<CudnnConvolution> CudnnConvolution::make(const model::ConvolutionGeometry& geometry, std::int64_t mini_batch) {
  PACELINE_RETURN_IF_ERROR(fit(geometry, mini_batch));
  CudnnConvolution result;
  PACELINE_ASSIGN_OR_RETURN(result.input_, made<TensorShape>(cudnnCreateTensorDescriptor, "describe a tensor"));
  PACELINE_ASSIGN_OR_RETURN(result.output_, made<TensorShape>(cudnnCreateTensorDescriptor, "describe a tensor"));
  PACELINE_ASSIGN_OR_RETURN(result.filter_, made<FilterShape>(cudnnCreateFilterDescriptor, "describe a filter"));
  PACELINE_ASSIGN_OR_RETURN(result.convolution_,
                            made<ConvolutionShape>(cudnnCreateConvolutionDescriptor, "describe a convolution"));
  PACELINE_RETURN_IF_ERROR(result.describe(geometry, static_cast<int>(mini_batch)));
  PACELINE_RETURN_IF_ERROR(result.compare(geometry, static_cast<int>(mini_batch)));
  result.input_values_ = values_of(geometry.input, mini_batch);
  result.output_values_ = values_of(geometry.output, mini_batch);
  result.filter_values_ = static_cast<std::size_t>(geometry.output.channels * (geometry.input.channels / geometry.groups) *
                                                   geometry.kernel.height * geometry.kernel.width);
  return result;
}

Status CudnnConvolution::describe(const model::ConvolutionGeometry& geometry, int mini_batch) {
  PACELINE_RETURN_IF_ERROR(describe_maps(input_.get(), mini_batch, geometry.input));
  PACELINE_RETURN_IF_ERROR(describe_maps(output_.get(), mini_batch, geometry.output));
  PACELINE_RETURN_IF_ERROR(check(
      cudnnSetFilter4dDescriptor(filter_.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, static_cast<int>(geometry.output.channels),
                                 static_cast<int>(geometry.input.channels / geometry.groups),
                                 static_cast<int>(geometry.kernel.height), static_cast<int>(geometry.kernel.width)),
      "describe a filter"));
  constexpr int kDilation = 1;
  PACELINE_RETURN_IF_ERROR(
      check(cudnnSetConvolution2dDescriptor(convolution_.get(), static_cast<int>(geometry.padding.height),
                                            static_cast<int>(geometry.padding.width), static_cast<int>(geometry.stride.height),
                                            static_cast<int>(geometry.stride.width), kDilation, kDilation, CUDNN_CROSS_CORRELATION,
                                            CUDNN_DATA_FLOAT),
            "describe a convolution"));
  PACELINE_RETURN_IF_ERROR(
      check(cudnnSetConvolutionGroupCount(convolution_.get(), static_cast<int>(geometry.groups)), "set a convolution's groups"));
  return check(cudnnSetConvolutionMathType(convolution_.get(), CUDNN_FMA_MATH), "keep a convolution in 32-bit floats");
}

Status CudnnConvolution::compare(const model::ConvolutionGeometry& geometry, int mini_batch) const {
  int samples = 0, channels = 0, height = 0, width = 0;
  PACELINE_RETURN_IF_ERROR(check(
      cudnnGetConvolution2dForwardOutputDim(convolution_.get(), input_.get(), filter_.get(), &samples, &channels, &height, &width),
      "ask for a convolution's output"));
  const model::FeatureMap& output = geometry.output;
  if (samples == mini_batch && model::FeatureMap{channels, height, width} == output) return {};
  return error(ErrorKind::kIo, "cuDNN expects an output of {}x{}x{}x{}, the model's description says {}x{}x{}x{}", samples,
               channels, height, width, mini_batch, output.channels, output.height, output.width);
}

std::size_t CudnnConvolution::result_values(CudnnPass pass) const {
  switch (pass) {
    case CudnnPass::kForward:
      return output_values_;
    case CudnnPass::kBackwardData:
      return input_values_;
    case CudnnPass::kBackwardFilter:
      return filter_values_;
  }
  return 0;
}

cudnnStatus_t CudnnConvolution::workspace(cudnnHandle_t cudnn, CudnnPass pass, CudnnAlgorithm algorithm, std::size_t& bytes) const {
  switch (pass) {
    case CudnnPass::kForward: {
      const auto named = forward(algorithm);
      if (!named) break;
      return cudnnGetConvolutionForwardWorkspaceSize(cudnn, input_.get(), filter_.get(), convolution_.get(), output_.get(), *named,
                                                     &bytes);
    }
    case CudnnPass::kBackwardData: {
      const auto named = backward_data(algorithm);
      if (!named) break;
      return cudnnGetConvolutionBackwardDataWorkspaceSize(cudnn, filter_.get(), output_.get(), convolution_.get(), input_.get(),
                                                          *named, &bytes);
    }
    case CudnnPass::kBackwardFilter: {
      const auto named = backward_filter(algorithm);
      if (!named) break;
      return cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnn, input_.get(), output_.get(), convolution_.get(), filter_.get(),
                                                            *named, &bytes);
    }
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t CudnnConvolution::run(cudnnHandle_t cudnn, CudnnPass pass, CudnnAlgorithm algorithm, const ConvolutionMemory& memory,
                                    void* workspace, std::size_t workspace_bytes) const {
  constexpr float kOne = 1, kZero = 0;  // result = 1 * what is computed + 0 * what was there
  switch (pass) {
    case CudnnPass::kForward: {
      const auto named = forward(algorithm);
      if (!named) break;
      return cudnnConvolutionForward(cudnn, &kOne, input_.get(), memory.input.get(), filter_.get(), memory.filter.get(),
                                     convolution_.get(), *named, workspace, workspace_bytes, &kZero, output_.get(),
                                     memory.result.get());
    }
    case CudnnPass::kBackwardData: {
      const auto named = backward_data(algorithm);
      if (!named) break;
      return cudnnConvolutionBackwardData(cudnn, &kOne, filter_.get(), memory.filter.get(), output_.get(), memory.output.get(),
                                          convolution_.get(), *named, workspace, workspace_bytes, &kZero, input_.get(),
                                          memory.result.get());
    }
    case CudnnPass::kBackwardFilter: {
      const auto named = backward_filter(algorithm);
      if (!named) break;
      return cudnnConvolutionBackwardFilter(cudnn, &kOne, input_.get(), memory.input.get(), output_.get(), memory.output.get(),
                                            convolution_.get(), *named, workspace, workspace_bytes, &kZero, filter_.get(),
                                            memory.result.get());
    }
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace paceline::planner
