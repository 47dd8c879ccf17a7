// A plan as the copies and reductions of a group of devices whose memories reach each other (GPUs with peer copies): in which
// stream each runs, and what it has to wait for. Pure; collectives/cuda binds it to CUDA streams and events, a test runs it in any
// order that the waits allow. Linear Pipeline, section 3.1: a device has one copy engine for each direction, so what leaves a
// device is in order in one stream, what it receives is in its neighbours' streams, and reductions run beside both.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/plan/plan.h"

namespace paceline::collectives {

enum class DeviceStream : std::uint8_t { kLeaving, kComputing };  // of each rank; operations of a stream run in their order

struct DeviceOperation {
  enum class Kind : std::uint8_t {
    kCopy,    // to = from; between ranks, or within one
    kReduce,  // to = to + from, on one rank
  };
  Kind kind = Kind::kCopy;
  DeviceStream stream = DeviceStream::kLeaving;
  int rank = 0;  // whose stream; has `from`
  int peer = 0;  // has `to`
  Memory from_memory = Memory::kBuffer, to_memory = Memory::kBuffer;
  Range from, to;                    // as many elements
  std::vector<std::uint32_t> waits;  // earlier operations, of other streams, at most one of each
};

struct DeviceSchedule {
  std::vector<DeviceOperation> operations;  // in an order that may be enqueued as it is
  std::vector<std::int64_t> scratch;        // elements that each rank needs besides its buffer
};

// Requires a plan that check_form accepts. Where no round reads what another one left in scratch memory, there are two such
// memories that rounds use in turn, so that a block can arrive while the one before is being added.
DeviceSchedule device_schedule(const CollectivePlan& plan);

}  // namespace paceline::collectives
