// Calls of collective operations with buffers of every type whose results are known, for tests.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "collective_world.h"

namespace paceline::collectives::testing {

inline constexpr std::array kDTypes = {tensor::DType::kFloat32, tensor::DType::kFloat64, tensor::DType::kInt32,
                                       tensor::DType::kFloat16, tensor::DType::kBFloat16};
inline constexpr std::array kReductions = {ReductionKind::kSum, ReductionKind::kMax, ReductionKind::kMin, ReductionKind::kMean};

std::string shown(const Call& call, int ranks, int rank);

enum class Where { kInPlace, kApart };

// One operation on one rank: its buffers, and what has to stand in them afterwards.
class Trial {
 public:
  Trial(const Call& call, const Communicator& all, Where where, unsigned salt);

  const Call& call() const { return call_; }
  void check() const;

 private:
  static constexpr std::size_t kGuard = 8;
  void give_parts(unsigned salt);
  Call call_;
  int ranks_, rank_;
  Where where_;
  unsigned salt_;
  std::size_t size_;
  std::vector<std::byte> input_, output_, before_;
  Range result_{};
  std::int64_t first_ = 0;
  std::vector<double> taken_;  // of an exchange
};

Operation operation_of(CollectiveKind kind);

// `operations` random calls, the same on every rank that draws with the same seed, up to five in flight.
void storm(Communicator& all, unsigned seed, int operations, std::int64_t most);

}  // namespace paceline::collectives::testing
