// What all workers hear of an iteration whose values are mean gradients (OptimizerKind::kMean) when the job asks for it
// (UpdateOptions::verdict): how large the means are together, whether one of them is no number and whose gradient that was, and
// which tensors nobody used. So whoever has parameters and optimizer can clip by the global norm, scale its loss, or leave a tensor
// alone.
//
// Each server gathers a VerdictPart of its units as their sums are made, and sends it to every worker when the last one is; means
// never wait for it. A worker adds the parts up (VerdictLedger). All bits are the same for every number of servers, and for
// collectives, because squares are summed without rounding. Plain data; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "job/plan.h"
#include "tensor/exact_square_sum.h"

namespace paceline::exchange {

struct Verdict {
  static constexpr Rank kNobody{-1};
  struct NonFinite {
    Rank rank = kNobody;  // kNobody: all gradients were finite, their sum is not
    std::uint32_t tensor = 0;
    bool operator==(const NonFinite&) const = default;
  };

  double square_sum = 0;  // of all means that somebody used; infinite or NaN when one is not finite
  // The first tensor whose mean is not finite, and the lowest rank whose gradient of it is not.
  std::optional<NonFinite> non_finite;
  std::vector<std::uint64_t> unused;  // bit t % 64 of word t / 64: nobody used tensor t, whose mean is what it was before

  bool unused_by_all(std::uint32_t tensor) const { return (unused[tensor / 64] >> tensor % 64 & 1) != 0; }
  bool operator==(const Verdict&) const = default;
};

// What one server, or a rank that has all sums, knows of an iteration.
class VerdictPart {
 public:
  explicit VerdictPart(std::size_t tensors) : unused_((tensors + 63) / 64) {}

  // A piece of a mean. False: it is not finite; add_non_finite() is told whose gradient that was.
  [[nodiscard]] bool add(std::span<const float> mean);
  void add_non_finite(const Verdict::NonFinite& found);
  void add_unused(std::uint32_t tensor) { unused_[tensor / 64] |= std::uint64_t{1} << tensor % 64; }
  void add(const VerdictPart& other);
  void clear();
  void tell(Verdict& verdict) const;

  // As sent: the square sum, tensor and rank of what is not finite, the words of `unused`; little-endian.
  std::size_t bytes() const { return tensor::kSquareSumBytes + 2 * sizeof(std::uint32_t) + unused_.size() * sizeof(std::uint64_t); }
  void write(std::span<std::byte> to) const;
  // Becomes what was written. Requires bytes() of them, written for as many tensors.
  void read(std::span<const std::byte> from);

 private:
  tensor::ExactSquareSum squares_;
  std::optional<Verdict::NonFinite> non_finite_;
  std::vector<std::uint64_t> unused_;
};

// A worker's: which parts have come. Nothing is allocated once warm.
class VerdictLedger {
 public:
  // `sources`: who sends a part of each iteration, from the plan's first one on and in order.
  VerdictLedger(const job::Plan& plan, const std::vector<Rank>& sources);

  // kBadRequest: nobody awaits it from there in iteration `current`, the one that the worker is in.
  Status on_part(Rank source, Iteration iteration, const VerdictPart& part, Iteration current);
  // Nothing: not all parts are there, or it was long ago. What is there stays until the next call of on_part.
  const Verdict* of(Iteration iteration) const;
  // Whose part of the iteration is missing.
  std::optional<Rank> missing(Iteration iteration) const;

 private:
  struct Source {
    Rank rank;
    Iteration next = 1;  // whose part comes next
  };
  struct Gathering {
    explicit Gathering(std::size_t tensors) : sum(tensors) {}
    Iteration iteration = -1;
    std::size_t missing = 0;  // parts
    VerdictPart sum;
    Verdict verdict;  // when none is missing
  };

  Gathering& gathering(Iteration iteration, Iteration current);

  std::size_t tensors_;
  std::vector<Source> sources_;
  std::vector<Gathering> gatherings_;
};

}  // namespace paceline::exchange
