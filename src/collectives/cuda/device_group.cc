#include "collectives/cuda/device_group.h"

#include <array>

#include <cuda_runtime.h>

#include "collectives/plan/device_schedule.h"
#include "tensor/cuda/reduce.h"

namespace paceline::collectives {
namespace {

Status check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return {};
  return error(ErrorKind::kIo, "cannot {}: {}", what, cudaGetErrorString(result));
}

std::size_t index_of(DeviceStream stream) { return static_cast<std::size_t>(stream); }

}  // namespace

struct DeviceGroup::State {
  struct RankState {
    int device = 0;
    std::array<cudaStream_t, 2> streams{};  // by DeviceStream
    std::byte* scratch = nullptr;
    std::size_t scratch_bytes = 0;
    std::vector<cudaEvent_t> events;  // used again by every operation
    std::size_t used = 0;
  };
  std::vector<RankState> ranks;

  ~State() {
    for (RankState& rank : ranks) {
      cudaSetDevice(rank.device);
      for (cudaStream_t stream : rank.streams) {
        if (stream == nullptr) continue;
        cudaStreamSynchronize(stream);
        cudaStreamDestroy(stream);
      }
      for (cudaEvent_t event : rank.events) cudaEventDestroy(event);
      cudaFree(rank.scratch);
    }
  }

  Status open(RankState& rank) {
    PACELINE_RETURN_IF_ERROR(check(cudaSetDevice(rank.device), "use a GPU"));
    for (cudaStream_t& stream : rank.streams)
      PACELINE_RETURN_IF_ERROR(check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream"));
    for (const RankState& other : ranks) {
      int can = 0;
      if (other.device == rank.device || cudaDeviceCanAccessPeer(&can, rank.device, other.device) != cudaSuccess || can == 0)
        continue;
      const cudaError_t result = cudaDeviceEnablePeerAccess(other.device, 0);
      if (result == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
      } else {
        PACELINE_RETURN_IF_ERROR(check(result, "let a GPU reach another one's memory"));
      }
    }
    return {};
  }

  // Requires that nothing runs.
  Status make_room(RankState& rank, std::size_t bytes) {
    if (rank.scratch_bytes >= bytes) return {};
    PACELINE_RETURN_IF_ERROR(check(cudaSetDevice(rank.device), "use a GPU"));
    PACELINE_RETURN_IF_ERROR(check(cudaFree(std::exchange(rank.scratch, nullptr)), "free memory of a GPU"));
    rank.scratch_bytes = 0;
    PACELINE_RETURN_IF_ERROR(check(cudaMalloc(&rank.scratch, bytes), "get memory of a GPU"));
    rank.scratch_bytes = bytes;
    return {};
  }

  // Requires that the rank's GPU is the current one.
  Result<cudaEvent_t> take_event(RankState& rank) {
    if (rank.used == rank.events.size()) {
      cudaEvent_t event = nullptr;
      PACELINE_RETURN_IF_ERROR(check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event"));
      rank.events.push_back(event);
    }
    return rank.events[rank.used++];
  }

  Status synchronize() {
    Status first;
    for (RankState& rank : ranks) {
      for (cudaStream_t stream : rank.streams) {
        const Status status = check(cudaStreamSynchronize(stream), "finish on a GPU");
        if (first.ok()) first = status;
      }
      rank.used = 0;
    }
    return first;
  }
};

DeviceGroup::DeviceGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}
DeviceGroup::~DeviceGroup() = default;

Result<std::unique_ptr<DeviceGroup>> DeviceGroup::make(const std::vector<int>& devices) {
  int there = 0;
  PACELINE_RETURN_IF_ERROR(check(cudaGetDeviceCount(&there), "look for GPUs"));
  auto state = std::make_unique<State>();
  for (const int device : devices) {
    if (device < 0 || device >= there)
      return error(ErrorKind::kBadRequest, "there is no GPU {}; this machine has {}", device, there);
    state->ranks.push_back({.device = device});
  }
  for (auto& rank : state->ranks) PACELINE_RETURN_IF_ERROR(state->open(rank));
  return std::unique_ptr<DeviceGroup>(new DeviceGroup(std::move(state)));
}

Status DeviceGroup::synchronize() { return state_->synchronize(); }

Status DeviceGroup::enqueue(const CollectivePlan& plan, tensor::DType dtype, tensor::Reduction reduction, double scale,
                            std::span<void* const> buffers) {
  auto& ranks = state_->ranks;
  if (plan.ranks.size() != ranks.size() || buffers.size() != ranks.size()) {
    return error(ErrorKind::kBadRequest, "a plan of {} ranks and {} buffers for a group of {} GPUs", plan.ranks.size(),
                 buffers.size(), ranks.size());
  }
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    if (buffers[rank] == nullptr && plan.request.elements > 0)
      return error(ErrorKind::kBadRequest, "the buffer of rank {} is null", rank);
  }
  const DeviceSchedule schedule = device_schedule(plan);
  const auto size = static_cast<std::int64_t>(tensor::size_of(dtype));
  // One operation after the other: they share scratch memory and events.
  PACELINE_RETURN_IF_ERROR(synchronize());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    PACELINE_RETURN_IF_ERROR(state_->make_room(ranks[rank], static_cast<std::size_t>(schedule.scratch[rank] * size)));

  std::vector<bool> awaited(schedule.operations.size());
  for (const DeviceOperation& operation : schedule.operations)
    for (const std::uint32_t wait : operation.waits) awaited[wait] = true;
  std::vector<cudaEvent_t> events(schedule.operations.size());
  const auto place = [&](int rank, Memory memory, const Range& range) {
    const auto at = static_cast<std::size_t>(rank);
    return (memory == Memory::kBuffer ? static_cast<std::byte*>(buffers[at]) : ranks[at].scratch) + range.first * size;
  };
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    const DeviceOperation& operation = schedule.operations[i];
    auto& rank = ranks[static_cast<std::size_t>(operation.rank)];
    const auto& peer = ranks[static_cast<std::size_t>(operation.peer)];
    const cudaStream_t stream = rank.streams[index_of(operation.stream)];
    PACELINE_RETURN_IF_ERROR(check(cudaSetDevice(rank.device), "use a GPU"));
    for (const std::uint32_t wait : operation.waits)
      PACELINE_RETURN_IF_ERROR(check(cudaStreamWaitEvent(stream, events[wait], 0), "wait for an event"));
    const std::byte* const from = place(operation.rank, operation.from_memory, operation.from);
    std::byte* const to = place(operation.peer, operation.to_memory, operation.to);
    if (operation.kind == DeviceOperation::Kind::kReduce) {
      PACELINE_RETURN_IF_ERROR(tensor::cuda::reduce_into(reduction, dtype, to, from, operation.to.count, stream));
    } else {
      const auto bytes = static_cast<std::size_t>(operation.from.count * size);
      PACELINE_RETURN_IF_ERROR(check(cudaMemcpyPeerAsync(to, peer.device, from, rank.device, bytes, stream), "copy between GPUs"));
    }
    if (!awaited[i]) continue;
    PACELINE_ASSIGN_OR_RETURN(events[i], state_->take_event(rank));
    PACELINE_RETURN_IF_ERROR(check(cudaEventRecord(events[i], stream), "record an event"));
  }
  if (scale == 1) return {};
  PACELINE_RETURN_IF_ERROR(synchronize());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    PACELINE_RETURN_IF_ERROR(check(cudaSetDevice(ranks[rank].device), "use a GPU"));
    PACELINE_RETURN_IF_ERROR(tensor::cuda::scale(dtype, buffers[rank], plan.request.elements, scale,
                                                 ranks[rank].streams[index_of(DeviceStream::kComputing)]));
  }
  return {};
}

}  // namespace paceline::collectives
