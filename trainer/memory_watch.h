// Counts the memory of LibTorch's tensors, oneDNN's scratch memory included, on the thread that made it: LibTorch reports every
// allocation to it. One at a time and thread; costs some hundred nanoseconds an allocation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace paceline::trainer {

class MemoryWatch {
 public:
  MemoryWatch() : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Bytes allocated since the beginning and not yet freed; may be negative when older memory is freed.
  std::int64_t current() const { return counter_->current; }
  // The largest value of it since the last reset.
  std::int64_t peak() const { return counter_->peak; }
  void reset_peak() { counter_->peak = counter_->current; }

 private:
  struct Counter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
      current += bytes;
      peak = std::max(peak, current);
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::int64_t current = 0, peak = 0;
  };

  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace paceline::trainer
