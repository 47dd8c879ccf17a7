// With which rates an iteration is applied where workers say so (job::UpdateOptions::told_rates): a training script's own scheduler
// decides, an iteration at a time. Each worker tells its rates before the iteration's gradients. In BSP they are one iteration of
// all, so all must tell the same; with the other models a worker's gradient is applied with that worker's rates. Plain data; one
// owner.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "job/plan.h"

namespace paceline::exchange {

// Of a parameter group. As sent: two float64, little-endian.
struct GroupRates {
  double learning_rate = 0;  // finite
  double weight_decay = 0;   // finite, at least 0

  bool operator==(const GroupRates&) const = default;
};
static_assert(sizeof(GroupRates) == 16);

// kBadRequest naming the first group whose rates are illegal, or that there is not one entry for each group of the plan.
Status check_rates(const job::Plan& plan, std::span<const GroupRates> rates);

// A server's.
class ToldRates {
 public:
  explicit ToldRates(std::shared_ptr<const job::Plan> plan);

  // Where a worker's rates of the iteration are received. kBadRequest: this job's workers tell none, another size, or no worker.
  Result<std::span<std::byte>> place(Rank worker, Iteration iteration, std::uint64_t bytes);
  // They are there. kBadRequest naming worker, group and numbers: illegal, or in BSP other than those of another worker.
  Status on_rates(Rank worker, Iteration iteration);
  // None: the worker has told none of that iteration, or those of the next but one since. `worker` exists.
  std::span<const GroupRates> of(Rank worker, Iteration iteration) const;

 private:
  struct Told {
    Iteration iteration = -1;
    std::vector<GroupRates> rates;
  };

  Told& at(Rank worker, Iteration iteration) {
    return told_[static_cast<std::size_t>(worker.value)][static_cast<std::size_t>(iteration & 1)];
  }
  Status compare(Rank worker, Iteration iteration) const;

  std::shared_ptr<const job::Plan> plan_;
  std::vector<std::array<Told, 2>> told_;  // by worker and parity of the iteration
};

}  // namespace paceline::exchange
