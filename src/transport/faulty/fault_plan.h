// Draws the faults of one FaultyTransport, and counts them. Loop thread, except counts().
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/faulty/faulty_transport.h"

namespace paceline::transport {

class FaultyStream;

// What is to happen to one frame.
struct Fate {
  enum class Cut { kNone, kBefore, kInside, kAfter };

  std::optional<Duration> delay;
  bool wait_for_others = false;
  Cut cut = Cut::kNone;
  std::optional<std::size_t> flip_head;     // bit
  std::optional<std::size_t> flip_payload;  // bit
  std::size_t cut_at = 0;                   // kInside: bytes that still leave
};

class FaultPlan {
 public:
  explicit FaultPlan(const FaultOptions& options);

  Fate draw(std::size_t head_bytes, std::size_t payload_bytes);
  bool draw_duplicate_connect();
  const FaultOptions& options() const { return options_; }

  struct Counters {
    std::atomic<std::uint64_t> delays = 0, cuts = 0, corruptions = 0, reorderings = 0, duplicate_connects = 0;
  };
  Counters counters;
  std::vector<std::weak_ptr<FaultyStream>> waiting;  // for a frame of another connection
  bool alive = true;                                 // the transport and its loop are there

 private:
  std::uint64_t next();
  bool happens(double chance);
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }

  FaultOptions options_;
  std::uint64_t state_;
  std::uint64_t frames_ = 0;
};

}  // namespace paceline::transport
