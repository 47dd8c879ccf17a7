#include "planner/cuda/cudnn_timer.h"

#include <algorithm>
#include <random>
#include <span>
#include <utility>

#include "base/median.h"
#include "base/text.h"
#include "planner/cuda/cudnn_convolution.h"
#include "planner/cuda/handles.h"

namespace paceline::planner {
namespace {

// Values that are made up, or compared, at a time. Not a multiple of any layer's size, so that samples differ.
constexpr std::size_t kPart = (std::size_t{1} << 22) + 3;

std::size_t bytes_of(std::size_t values) { return values * sizeof(float); }

Status fill(void* memory, std::size_t values, unsigned seed) {
  std::vector<float> part(std::min(values, kPart));
  std::mt19937 random(seed);
  std::ranges::generate(part, [&] { return std::uniform_real_distribution<float>(-1, 1)(random); });
  for (std::size_t done = 0; done < values; done += part.size()) {
    PACELINE_RETURN_IF_ERROR(check(cudaMemcpy(static_cast<float*>(memory) + done, part.data(),
                                              bytes_of(std::min(part.size(), values - done)), cudaMemcpyHostToDevice),
                                   "copy to the GPU"));
  }
  return {};
}

Result<double> difference(const void* expected, const void* found, std::size_t values) {
  LargestDifference difference;
  std::vector<float> one(std::min(values, kPart)), other(one.size());
  for (std::size_t done = 0; done < values; done += kPart) {
    const std::size_t count = std::min(kPart, values - done);
    const auto fetch = [&](std::vector<float>& to, const void* from) {
      return check(cudaMemcpy(to.data(), static_cast<const float*>(from) + done, bytes_of(count), cudaMemcpyDeviceToHost),
                   "copy from the GPU");
    };
    PACELINE_RETURN_IF_ERROR(fetch(one, expected));
    PACELINE_RETURN_IF_ERROR(fetch(other, found));
    difference.add(std::span(one).first(count), std::span(other).first(count));
  }
  return difference.relative();
}

// Room for the convolution, its input and filter made up. What the room takes is said when there is not so much.
Result<ConvolutionMemory> memory_for(const CudnnConvolution& convolution) {
  const std::size_t result = std::max({convolution.input_values(), convolution.filter_values(), convolution.output_values()});
  const std::size_t all = convolution.input_values() + convolution.filter_values() + convolution.output_values() + result;
  ConvolutionMemory memory = {.input = device_memory(bytes_of(convolution.input_values())),
                              .filter = device_memory(bytes_of(convolution.filter_values())),
                              .output = device_memory(bytes_of(convolution.output_values())),
                              .result = device_memory(bytes_of(result))};
  if (!memory.input || !memory.filter || !memory.output || !memory.result)
    return error(ErrorKind::kIo, "its tensors need {} of the GPU's memory, which are not free; give a smaller --mini-batch",
                 to_text(Bytes{static_cast<std::int64_t>(bytes_of(all))}));
  PACELINE_RETURN_IF_ERROR(fill(memory.input.get(), convolution.input_values(), 1));
  PACELINE_RETURN_IF_ERROR(fill(memory.filter.get(), convolution.filter_values(), 2));
  return memory;
}

Result<CudnnFingerprint> read_fingerprint() {
  cudaDeviceProp properties{};
  PACELINE_RETURN_IF_ERROR(check(cudaGetDeviceProperties(&properties, 0), "ask for the GPU's name"));
  int runtime = 0;
  PACELINE_RETURN_IF_ERROR(check(cudaRuntimeGetVersion(&runtime), "ask for CUDA's version"));
  const std::size_t cudnn = cudnnGetVersion();
  return CudnnFingerprint{.gpu = properties.name,
                          .cudnn = fmt::format("{}.{}.{}", cudnn / 10000, cudnn / 100 % 100, cudnn % 100),
                          .cuda_runtime = fmt::format("{}.{}", runtime / 1000, runtime % 1000 / 10)};
}

CudnnMeasurement refused(std::string why) { return {.refusal = std::move(why)}; }

}  // namespace

std::string no_gpu_reason() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) return cudaGetErrorString(result);
  return count == 0 ? "no CUDA-capable device is detected" : "";
}

struct CudnnTimer::State {
  CudnnHandle cudnn;
  Event begin, end;
  CudnnFingerprint fingerprint;
  int rounds = 1;

  // Seconds of one of `runs` runs.
  template <typename Run>
  Result<double> time(const Run& run, std::int64_t runs) const {
    PACELINE_RETURN_IF_ERROR(check(cudaEventRecord(begin.get()), "look at the GPU's clock"));
    for (std::int64_t i = 0; i < runs; ++i) PACELINE_RETURN_IF_ERROR(check(run(), "run a convolution again"));
    PACELINE_RETURN_IF_ERROR(check(cudaEventRecord(end.get()), "look at the GPU's clock"));
    PACELINE_RETURN_IF_ERROR(check(cudaEventSynchronize(end.get()), "wait for a convolution"));
    float milliseconds = 0;
    PACELINE_RETURN_IF_ERROR(check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "read the GPU's clock"));
    return static_cast<double>(milliseconds) * 1e-3 / static_cast<double>(runs);
  }

  Result<CudnnMeasurement> measure(const CudnnConvolution& convolution, const ConvolutionMemory& memory, CudnnPass pass,
                                   CudnnAlgorithm algorithm) const;
  Status judge(const CudnnConvolution& convolution, const ConvolutionMemory& memory, CudnnAlgorithm algorithm,
               CudnnMeasurement& measured) const;
};

// Of a forward pass whose result lies there: how far it is from the first algorithm's, which is kept.
Status CudnnTimer::State::judge(const CudnnConvolution& convolution, const ConvolutionMemory& memory, CudnnAlgorithm algorithm,
                                CudnnMeasurement& measured) const {
  const std::size_t values = convolution.output_values();
  if (algorithm == cudnn_families().front().forward) {
    PACELINE_RETURN_IF_ERROR(
        check(cudaMemcpy(memory.output.get(), memory.result.get(), bytes_of(values), cudaMemcpyDeviceToDevice), "keep a result"));
  }
  PACELINE_ASSIGN_OR_RETURN(measured.difference, difference(memory.output.get(), memory.result.get(), values));
  return {};
}

Result<CudnnMeasurement> CudnnTimer::State::measure(const CudnnConvolution& convolution, const ConvolutionMemory& memory,
                                                    CudnnPass pass, CudnnAlgorithm algorithm) const {
  std::size_t bytes = 0;
  const cudnnStatus_t sized = convolution.workspace(cudnn.get(), pass, algorithm, bytes);
  if (sized != CUDNN_STATUS_SUCCESS) return refused(cudnnGetErrorString(sized));
  const DeviceMemory workspace = device_memory(bytes);
  CudnnMeasurement measured{.workspace_bytes = static_cast<std::int64_t>(bytes)};
  if (!workspace)
    return refused(fmt::format("its workspace of {} is not free on the GPU", to_text(Bytes{measured.workspace_bytes})));

  // No numbers, so that what an algorithm does not write shows.
  PACELINE_RETURN_IF_ERROR(
      check(cudaMemset(memory.result.get(), 0xff, bytes_of(convolution.result_values(pass))), "empty the result"));
  const auto run = [&] { return convolution.run(cudnn.get(), pass, algorithm, memory, workspace.get(), bytes); };
  const cudnnStatus_t first = run();
  PACELINE_RETURN_IF_ERROR(check(cudaDeviceSynchronize(), "wait for a convolution"));
  if (first != CUDNN_STATUS_SUCCESS) {
    cudaGetLastError();  // told by the refusal; the next algorithm is not to be blamed
    return refused(cudnnGetErrorString(first));
  }
  if (pass == CudnnPass::kForward) PACELINE_RETURN_IF_ERROR(judge(convolution, memory, algorithm, measured));

  PACELINE_ASSIGN_OR_RETURN(const double once, time(run, 1));
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    PACELINE_ASSIGN_OR_RETURN(const double seconds, time(run, repetitions(once)));
    times.push_back(seconds);
  }
  measured.seconds = median(std::move(times));
  return measured;
}

CudnnTimer::CudnnTimer(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudnnTimer::~CudnnTimer() = default;

Result<std::unique_ptr<CudnnTimer>> CudnnTimer::make(int rounds) {
  PACELINE_CHECK(rounds >= 1, "{} rounds", rounds);
  auto state = std::make_unique<State>();
  state->rounds = rounds;
  PACELINE_RETURN_IF_ERROR(check(cudaSetDevice(0), "use the GPU"));
  PACELINE_ASSIGN_OR_RETURN(state->fingerprint, read_fingerprint());
  PACELINE_ASSIGN_OR_RETURN(state->cudnn, made<CudnnHandle>(cudnnCreate, "start cuDNN"));
  PACELINE_ASSIGN_OR_RETURN(state->begin, made<Event>(cudaEventCreate, "make an event"));
  PACELINE_ASSIGN_OR_RETURN(state->end, made<Event>(cudaEventCreate, "make an event"));
  return std::unique_ptr<CudnnTimer>(new CudnnTimer(std::move(state)));
}

const CudnnFingerprint& CudnnTimer::fingerprint() const { return state_->fingerprint; }

Result<MeasuredCudnnLayer> CudnnTimer::measure(const model::LayerDescription& layer, const std::vector<CudnnPass>& passes,
                                               std::int64_t mini_batch) {
  PACELINE_CHECK(layer.convolution && !passes.empty() && passes.front() == CudnnPass::kForward, "layer '{}'", layer.name);
  const auto named = [&](const Status& status) {
    return error(status.kind(), "layer '{}' with mini-batch {}: {}", layer.name, mini_batch, status.message());
  };
  const auto convolution = CudnnConvolution::make(*layer.convolution, mini_batch);
  if (!convolution.ok()) return named(convolution.status());
  const auto memory = memory_for(*convolution);
  if (!memory.ok()) return named(memory.status());
  MeasuredCudnnLayer result{.name = layer.name, .passes = passes};
  for (const CudnnPass pass : passes) {
    for (const CudnnAlgorithm algorithm : algorithms_to_measure(pass)) {
      auto measured = state_->measure(*convolution, *memory, pass, algorithm);
      const std::string which = fmt::format("{} by {}", to_string(pass), to_string(algorithm));
      if (!measured.ok()) return named(error(measured.status().kind(), "{}: {}", which, measured.status().message()));
      const bool reference = pass == CudnnPass::kForward && algorithm == cudnn_families().front().forward;
      if (reference && !measured->refusal.empty())
        return named(error(ErrorKind::kIo, "{}, which the others are compared with: {}", which, measured->refusal));
      result.measured[{pass, algorithm}] = std::move(measured).value();
    }
  }
  return result;
}

}  // namespace paceline::planner
