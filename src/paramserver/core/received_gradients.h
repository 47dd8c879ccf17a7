// The gradients that a server has received and not summed yet, and their sums in rank order. They stay as they came until the
// job's codec adds them up. A worker that did not use a part contributes zeros, whatever its gradient holds. Owned by one progress
// loop.
//
// Memory: pooled buffers, given back once summed; nothing is allocated once the pool is warm.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "exchange/buffer_pool.h"
#include "job/plan.h"
#include "paramserver/core/server_effect.h"
#include "tensor/codec.h"

namespace paceline::paramserver {

class ReceivedGradients {
 public:
  // Those of the units that live on `server`. `pool` outlives it.
  ReceivedGradients(std::shared_ptr<const job::Plan> plan, Rank server, exchange::BufferPool& pool);

  // As in ServerMemory.
  std::span<float> place(std::uint32_t unit, Rank worker, std::size_t bytes);
  Status check(std::uint32_t unit, Rank worker, Iteration iteration) const;
  void on_arrived(std::uint32_t unit, Rank worker, std::uint32_t unused_parts);
  void forget(std::uint32_t unit, Rank worker);

  // Those of an update's workers for a part of its unit, which the next calls are about. False: nobody used the part.
  bool gather(std::uint32_t part, const Update& update);
  // Times `scale`.
  void add_up(std::span<float> sum, double scale) const;
  // The sum where it stands, if it is one dense float32 gradient.
  std::optional<std::span<const float>> lone() const;
  struct Broken {  // an element that is not finite
    Rank worker;
    tensor::Codec::Element element;
  };
  // The first one. Nothing: all are finite.
  std::optional<Broken> find_broken(const Update& update) const;

  // Buffers for gradients and for held sums, counted.
  std::uint32_t take(std::size_t floats);
  void give_back(std::uint32_t& buffer, std::size_t floats);
  std::int64_t bytes() const { return bytes_; }
  std::int64_t most_bytes() const { return most_bytes_; }  // there ever were

 private:
  static constexpr std::uint32_t kNoBuffer = exchange::BufferPool::kNone;
  struct Arrival {  // between a worker and a unit
    std::uint32_t gradient = kNoBuffer;
    std::uint32_t unused_parts = 0;  // bits
    std::size_t bytes = 0;
  };

  Arrival& at(std::uint32_t unit, Rank worker) { return arrivals_[index(unit, worker)]; }
  const Arrival& at(std::uint32_t unit, Rank worker) const { return arrivals_[index(unit, worker)]; }
  std::size_t index(std::uint32_t unit, Rank worker) const {
    return plan_->units().place_in_server[unit] * static_cast<std::size_t>(plan_->options().workers) +
           static_cast<std::size_t>(worker.value);
  }
  std::span<const std::byte> payload(const Arrival& arrival) const;

  std::shared_ptr<const job::Plan> plan_;
  exchange::BufferPool& pool_;
  std::vector<Arrival> arrivals_;         // by place in this server, then worker
  std::vector<tensor::Encoded> sources_;  // what was gathered
  std::int64_t bytes_ = 0, most_bytes_ = 0;
};

}  // namespace paceline::paramserver
