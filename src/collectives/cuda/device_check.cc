// Checks collectives on the GPUs of this machine against the processor's kernels, bit for bit, and measures a chain of them:
//   device_check           every operation, algorithm, type and reduction with 1, 2, 3 and 5 ranks, which share the GPUs in turn
// Exit code 0: all right; 1: a difference, named; 3: there is no GPU.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include <cuda_runtime.h>

#include "collectives/cuda/device_group.h"
#include "collectives/plan/device_schedule.h"
#include "tensor/cuda/reduce.h"

namespace {

using namespace paceline;
using namespace paceline::collectives;
using tensor::DType;
using tensor::Reduction;

int failures = 0;

void expect(const Status& status) {
  if (status.ok()) return;
  std::printf("FAILED: %s\n", status.message().c_str());
  ++failures;
}

struct DeviceMemory {
  explicit DeviceMemory(int device, std::size_t bytes) {
    cudaSetDevice(device);
    cudaMalloc(&data, bytes > 0 ? bytes : 1);
  }
  ~DeviceMemory() { cudaFree(data); }
  void* data = nullptr;
};

// Whatever bits an element may have: NaN, infinities and subnormal numbers too.
std::vector<std::byte> random_bytes(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> data(bytes);
  for (std::byte& one : data) one = static_cast<std::byte>(random());
  return data;
}

// Equal, or both no number: only a NaN's payload is free.
bool alike(DType dtype, const std::byte* a, const std::byte* b) {
  if (std::memcmp(a, b, tensor::size_of(dtype)) == 0) return true;
  const auto both_nan = [&](auto type) {
    decltype(type) x, y;
    std::memcpy(&x, a, sizeof x);
    std::memcpy(&y, b, sizeof y);
    return std::isnan(x) && std::isnan(y);
  };
  std::uint16_t x = 0, y = 0;
  std::memcpy(&x, a, 2);
  std::memcpy(&y, b, 2);
  switch (dtype) {
    case DType::kFloat32:
      return both_nan(float{});
    case DType::kFloat64:
      return both_nan(double{});
    case DType::kFloat16:
      return (x & 0x7fff) > 0x7c00 && (y & 0x7fff) > 0x7c00;
    case DType::kBFloat16:
      return (x & 0x7fff) > 0x7f80 && (y & 0x7fff) > 0x7f80;
    case DType::kInt32:
      return false;
  }
  return false;
}

void compare(const char* what, DType dtype, const std::vector<std::byte>& found, const std::vector<std::byte>& wanted) {
  const std::size_t size = tensor::size_of(dtype);
  for (std::size_t i = 0; i + size <= found.size(); i += size) {
    if (alike(dtype, found.data() + i, wanted.data() + i)) continue;
    std::printf("FAILED: %s of %s: element %zu differs\n", what, tensor::name_of(dtype), i / size);
    ++failures;
    return;
  }
}

void check_kernels(DType dtype) {
  constexpr std::size_t kCount = 100'003;
  const std::size_t bytes = kCount * tensor::size_of(dtype);
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    auto a = random_bytes(bytes, 1);
    const auto b = random_bytes(bytes, 2);
    const DeviceMemory to(0, bytes), from(0, bytes);
    cudaMemcpy(to.data, a.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(from.data, b.data(), bytes, cudaMemcpyHostToDevice);
    expect(tensor::cuda::reduce_into(reduction, dtype, to.data, from.data, kCount, nullptr));
    expect(tensor::cuda::scale(dtype, to.data, kCount, 0.3, nullptr));
    std::vector<std::byte> found(bytes);
    cudaMemcpy(found.data(), to.data, bytes, cudaMemcpyDeviceToHost);
    tensor::reduce_into(reduction, {a.data(), dtype, kCount}, {b.data(), dtype, kCount});
    tensor::scale({a.data(), dtype, kCount}, 0.3);
    compare("a reduction and a scaling", dtype, found, a);
  }
}

// The plan's operations on the processor, in their order.
std::vector<std::vector<std::byte>> on_processor(const CollectivePlan& plan, DType dtype, Reduction reduction,
                                                 std::vector<std::vector<std::byte>> buffers) {
  const DeviceSchedule schedule = device_schedule(plan);
  const std::size_t size = tensor::size_of(dtype);
  std::vector<std::vector<std::byte>> scratch;
  for (const std::int64_t elements : schedule.scratch) scratch.emplace_back(static_cast<std::size_t>(elements) * size);
  for (const auto& operation : schedule.operations) {
    const auto at = [&](int rank, Memory memory, const Range& range) {
      return (memory == Memory::kBuffer ? buffers : scratch)[static_cast<std::size_t>(rank)].data() +
             static_cast<std::size_t>(range.first) * size;
    };
    const auto count = static_cast<std::size_t>(operation.from.count);
    std::byte* const from = at(operation.rank, operation.from_memory, operation.from);
    std::byte* const to = at(operation.peer, operation.to_memory, operation.to);
    if (operation.kind == DeviceOperation::Kind::kReduce)
      tensor::reduce_into(reduction, {to, dtype, count}, {from, dtype, count});
    else
      std::memcpy(to, from, count * size);
  }
  return buffers;
}

void check_plan_on(const std::vector<int>& devices, const PlanRequest& request, DType dtype, Reduction reduction) {
  const CollectivePlan plan = make_plan(request).value();
  auto group = DeviceGroup::make(devices);
  if (!group.ok()) return expect(group.status());
  const std::size_t bytes = static_cast<std::size_t>(request.elements) * tensor::size_of(dtype);
  std::vector<std::vector<std::byte>> start;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<void*> buffers;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    start.push_back(random_bytes(bytes, static_cast<unsigned>(rank) + 10));
    memory.push_back(std::make_unique<DeviceMemory>(devices[rank], bytes));
    cudaMemcpy(memory.back()->data, start.back().data(), bytes, cudaMemcpyHostToDevice);
    buffers.push_back(memory.back()->data);
  }
  cudaDeviceSynchronize();
  expect((*group)->enqueue(plan, dtype, reduction, 1, buffers));
  expect((*group)->synchronize());
  const auto wanted = on_processor(plan, dtype, reduction, start);
  const std::string what = std::string(to_string(request.operation)) + " by " + to_string(request.algorithm);
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    std::vector<std::byte> found(bytes);
    cudaMemcpy(found.data(), buffers[rank], bytes, cudaMemcpyDeviceToHost);
    compare(what.c_str(), dtype, found, wanted[rank]);
  }
}

void measure(const std::vector<int>& devices) {
  constexpr std::int64_t kElements = 64 << 20;
  auto group = DeviceGroup::make(devices);
  if (!group.ok()) return expect(group.status());
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<void*> buffers;
  for (const int device : devices) {
    memory.push_back(std::make_unique<DeviceMemory>(device, kElements * sizeof(float)));
    buffers.push_back(memory.back()->data);
  }
  for (const Algorithm algorithm :
       {Algorithm::kLinearPipeline, Algorithm::kMinimumSpanningTree, Algorithm::kBidirectionalExchange}) {
    const auto plan = make_plan({.operation = Operation::kBroadcast,
                                 .algorithm = algorithm,
                                 .ranks = static_cast<int>(devices.size()),
                                 .elements = kElements,
                                 .block = 1 << 20})
                          .value();
    for (int i = 0; i < 2; ++i) {  // the first makes room
      timespec begin{}, end{};
      clock_gettime(CLOCK_MONOTONIC, &begin);
      expect((*group)->enqueue(plan, DType::kFloat32, Reduction::kSum, 1, buffers));
      expect((*group)->synchronize());
      clock_gettime(CLOCK_MONOTONIC, &end);
      const double seconds =
          static_cast<double>(end.tv_sec - begin.tv_sec) + 1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
      if (i == 1)
        std::printf("broadcast of 256 MiB over %zu ranks by %s: %.3f ms, %.1f GB/s\n", devices.size(), to_string(algorithm),
                    1e3 * seconds, 1e-9 * static_cast<double>(kElements) * sizeof(float) / seconds);
    }
  }
}

}  // namespace

int main() {
  int there = 0;
  if (cudaGetDeviceCount(&there) != cudaSuccess || there == 0) {
    std::printf("there is no GPU here; nothing was checked\n");
    return 3;
  }
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kFloat16, DType::kBFloat16};
  for (const DType dtype : kTypes) check_kernels(dtype);
  for (const int ranks : {1, 2, 3, 5}) {
    std::vector<int> devices;
    for (int rank = 0; rank < ranks; ++rank) devices.push_back(rank % there);
    for (const auto operation :
         {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce, Operation::kReduceScatter, Operation::kAllgather}) {
      for (const Algorithm algorithm : algorithms_for(operation)) {
        for (const DType dtype : kTypes)
          for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin})
            check_plan_on(devices,
                          {.operation = operation, .algorithm = algorithm, .ranks = ranks, .elements = 10'007, .block = 1'024},
                          dtype, reduction);
      }
    }
    if (ranks > 1) measure(devices);
  }
  std::printf("%d GPUs, %d failures\n", there, failures);
  return failures == 0 ? 0 : 1;
}
