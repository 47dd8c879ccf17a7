// Runs collective plans on memory of GPUs: a rank for each, peer copies in one stream and reductions in another
// (device_schedule.h), so that a chain of GPUs receives, adds and sends at the same time. One process; only with PACELINE_CUDA.
//
// Threads: one at a time. The group's streams and scratch memory are its own; work of the caller's on the buffers must be over
// before enqueue(), or wait for it on its own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "collectives/plan/plan.h"
#include "tensor/dtype.h"
#include "tensor/reduce.h"

namespace paceline::collectives {

class DeviceGroup {
 public:
  // The GPU of each rank, by CUDA's number; ranks may share one. Lets GPUs reach each other's memory where they can; where they
  // cannot, copies go through the host's. Errors: kBadRequest for a GPU that is not there, kIo with what CUDA says.
  static Result<std::unique_ptr<DeviceGroup>> make(const std::vector<int>& devices);
  ~DeviceGroup();  // waits
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  // Enqueues the operation, in place. `buffers`: by rank, `plan.request.elements` of `dtype` on the rank's GPU, valid until
  // synchronize(). `scale`: by which the result is multiplied in the end, 1 / ranks for a mean. Errors: kBadRequest for another
  // number of ranks or a null buffer; kIo.
  Status enqueue(const CollectivePlan& plan, tensor::DType dtype, tensor::Reduction reduction, double scale,
                 std::span<void* const> buffers);
  // Until everything is done. Errors: kIo, also of what was enqueued.
  Status synchronize();

 private:
  struct State;
  explicit DeviceGroup(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paceline::collectives
