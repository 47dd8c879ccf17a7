#include "collective_trial.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace paceline::collectives::testing {
namespace {

using tensor::DType;
using Kind = CollectiveKind;

double get(DType dtype, const std::byte* data, std::size_t i) {
  switch (dtype) {
    case DType::kFloat32:
      return reinterpret_cast<const float*>(data)[i];
    case DType::kFloat64:
      return reinterpret_cast<const double*>(data)[i];
    case DType::kInt32:
      return reinterpret_cast<const std::int32_t*>(data)[i];
    case DType::kFloat16:
      return tensor::to_float(reinterpret_cast<const tensor::Float16*>(data)[i]);
    case DType::kBFloat16:
      return tensor::to_float(reinterpret_cast<const tensor::BFloat16*>(data)[i]);
  }
  return NAN;
}

void set(DType dtype, std::byte* data, std::size_t i, double value) {
  switch (dtype) {
    case DType::kFloat32:
      reinterpret_cast<float*>(data)[i] = static_cast<float>(value);
      break;
    case DType::kFloat64:
      reinterpret_cast<double*>(data)[i] = value;
      break;
    case DType::kInt32:
      reinterpret_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value);
      break;
    case DType::kFloat16:
      reinterpret_cast<tensor::Float16*>(data)[i] = tensor::to_float16(static_cast<float>(value));
      break;
    case DType::kBFloat16:
      reinterpret_cast<tensor::BFloat16*>(data)[i] = tensor::to_bfloat16(static_cast<float>(value));
      break;
  }
}

// Small whole numbers, so that every type adds them exactly in any order.
double contribution(int rank, std::int64_t i, unsigned salt) {
  return static_cast<double>((static_cast<unsigned>(rank) * 5 + static_cast<unsigned>(i) * 3 + salt) % 11) - 4;
}

double expected(const Call& call, int ranks, std::int64_t i, unsigned salt) {
  if (call.kind == Kind::kBroadcast) return contribution(call.root, i, salt);
  if (call.kind == Kind::kAllgather) {
    int owner = 0;
    while (i >= part_of(call.count, ranks, owner).first + part_of(call.count, ranks, owner).count) ++owner;
    return contribution(owner, i, salt);
  }
  double result = contribution(0, i, salt);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = contribution(rank, i, salt);
    if (call.reduction == ReductionKind::kMax)
      result = std::max(result, next);
    else if (call.reduction == ReductionKind::kMin)
      result = std::min(result, next);
    else
      result += next;
  }
  if (call.reduction != ReductionKind::kMean) return result;
  std::array<std::byte, 8> scaled{};
  const double share = 1.0 / ranks;
  set(call.dtype, scaled.data(), 0,
      call.dtype == DType::kFloat64 ? result * share : static_cast<float>(result) * static_cast<float>(share));
  return get(call.dtype, scaled.data(), 0);
}

// Of an exchange: what goes from one rank to another, sometimes nothing.
std::int64_t part_between(const Call& call, int from, int to) {
  if (call.kind == Kind::kGather) return to == call.root ? call.count : 0;
  if (call.kind == Kind::kScatter) return from == call.root ? call.count : 0;
  return (from * 7 + to * 3) % 4 == 0 ? 0 : call.count * ((from * 5 + to) % 3 + 1) / 3;
}

double in_part(int from, int to, std::int64_t i, unsigned salt) { return contribution(from, i + std::int64_t{1000} * to, salt); }

// The same call on every rank that draws with the same seed.
Call random_call(std::mt19937& random, int ranks, std::int64_t most) {
  const auto up_to = [&](std::int64_t limit) { return std::uniform_int_distribution<std::int64_t>(0, limit)(random); };
  Call call;
  call.kind = static_cast<Kind>(up_to(8));
  call.dtype = kDTypes[static_cast<std::size_t>(up_to(4))];
  call.reduction = kReductions[static_cast<std::size_t>(up_to(call.dtype == DType::kInt32 ? 2 : 3))];
  call.root = is_rooted(call.kind) ? static_cast<int>(up_to(ranks - 1)) : 0;
  call.priority = {static_cast<std::int32_t>(up_to(3))};
  const std::int64_t size = up_to(5);
  call.count = size == 0 ? 0 : size == 1 ? up_to(ranks + 1) : size < 4 ? up_to(2000) : up_to(most);
  if (call.kind == Kind::kBarrier || is_exchange(call.kind)) return call;
  const auto algorithms = algorithms_for(operation_of(call.kind));
  const std::int64_t which = up_to(static_cast<std::int64_t>(algorithms.size()));
  if (which < static_cast<std::int64_t>(algorithms.size())) call.algorithm = algorithms[static_cast<std::size_t>(which)];
  if (up_to(2) == 0) call.block = Bytes{1 + up_to(call.count * 2 + 10)};
  return call;
}

}  // namespace

std::string shown(const Call& call, int ranks, int rank) {
  wire::CollectiveHead head{.kind = call.kind,
                            .dtype = static_cast<std::uint8_t>(call.dtype),
                            .reduction = static_cast<std::uint8_t>(call.reduction),
                            .algorithm = static_cast<std::uint8_t>(call.algorithm.value_or(Algorithm::kLinearPipeline)),
                            .root = call.root,
                            .count = call.count};
  return fmt::format("{}, rank {} of {}{}", describe(head), rank, ranks, call.input == call.output ? ", in place" : "");
}
Trial::Trial(const Call& call, const Communicator& all, Where where, unsigned salt)
    : call_(call), ranks_(all.size()), rank_(all.rank()), where_(where), salt_(salt), size_(tensor::size_of(call.dtype)) {
  if (is_exchange(call.kind)) {
    give_parts(salt);
    return;
  }
  const Range part = part_of(call.count, ranks_, rank_);
  const auto whole = static_cast<std::size_t>(call.count) * size_;
  input_.resize(whole + kGuard);
  output_.resize(whole + kGuard, std::byte{0x5a});
  for (std::int64_t i = 0; i < call.count; ++i)
    set(call.dtype, input_.data(), static_cast<std::size_t>(i), contribution(rank_, i, salt));
  before_ = input_;
  const std::size_t offset = static_cast<std::size_t>(part.first) * size_;
  call_.output = output_.data();
  switch (call.kind) {
    case Kind::kBroadcast:
      if (rank_ == call.root) output_ = input_;
      call_.output = output_.data();
      result_ = {0, call.count};
      return;
    case Kind::kReduce:
    case Kind::kAllreduce:
      call_.input = where == Where::kInPlace ? output_.data() : input_.data();
      if (where == Where::kInPlace) std::copy(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(whole), output_.begin());
      if (call.kind == Kind::kAllreduce || rank_ == call.root) result_ = {0, call.count};
      if (call.kind == Kind::kReduce && rank_ != call.root && where == Where::kApart) call_.output = nullptr;
      return;
    case Kind::kReduceScatter:
      call_.input = input_.data();
      if (where == Where::kInPlace) call_.output = input_.data() + offset;
      result_ = {0, part.count};
      first_ = part.first;
      return;
    case Kind::kAllgather:
      call_.input = where == Where::kInPlace ? output_.data() + offset : input_.data() + offset;
      if (where == Where::kInPlace)
        std::copy_n(input_.begin() + static_cast<std::ptrdiff_t>(offset), static_cast<std::size_t>(part.count) * size_,
                    output_.begin() + static_cast<std::ptrdiff_t>(offset));
      result_ = {0, call.count};
      return;
    case Kind::kBarrier:
    case Kind::kAlltoall:
    case Kind::kGather:
    case Kind::kScatter:
      call_.output = nullptr;
  }
}

void Trial::give_parts(unsigned salt) {
  std::vector<std::int64_t> gives, takes;
  std::vector<double> given;
  for (int peer = 0; peer < ranks_; ++peer) {
    gives.push_back(part_between(call_, rank_, peer));
    takes.push_back(part_between(call_, peer, rank_));
    for (std::int64_t i = 0; i < gives.back(); ++i) given.push_back(in_part(rank_, peer, i, salt));
    for (std::int64_t i = 0; i < takes.back(); ++i) taken_.push_back(in_part(peer, rank_, i, salt));
  }
  input_.resize(given.size() * size_ + kGuard);
  output_.resize(taken_.size() * size_ + kGuard, std::byte{0x5a});
  for (std::size_t i = 0; i < given.size(); ++i) set(call_.dtype, input_.data(), i, given[i]);
  before_ = input_;
  where_ = Where::kApart;
  call_.input = input_.data();
  call_.output = output_.data();
  result_ = {0, std::ssize(taken_)};
  if (call_.kind != Kind::kAlltoall) return;
  call_.gives = gives;
  call_.takes = takes;
  call_.count = 0;
}

void Trial::check() const {
  const auto* data = static_cast<const std::byte*>(call_.output);
  for (std::int64_t i = 0; i < result_.count; ++i) {
    const double found = get(call_.dtype, data, static_cast<std::size_t>(i));
    const double wanted = taken_.empty() ? expected(call_, ranks_, first_ + i, salt_) : taken_[static_cast<std::size_t>(i)];
    if (found != wanted) {
      ADD_FAILURE() << shown(call_, ranks_, rank_) << ": element " << i << " is " << found << " instead of " << wanted;
      return;
    }
  }
  for (std::size_t i = output_.size() - kGuard; i < output_.size(); ++i) {
    const bool root_of_broadcast = call_.kind == Kind::kBroadcast && rank_ == call_.root;
    EXPECT_EQ(output_[i], root_of_broadcast ? std::byte{0} : std::byte{0x5a})
        << shown(call_, ranks_, rank_) << " wrote behind its buffer";
  }
  if (where_ == Where::kApart && call_.input == input_.data()) {
    EXPECT_EQ(input_, before_) << shown(call_, ranks_, rank_) << " changed its input";
  }
}

Operation operation_of(Kind kind) {
  constexpr std::array kOperations = {Operation::kBroadcast,     Operation::kReduce,    Operation::kAllreduce,
                                      Operation::kReduceScatter, Operation::kAllgather, Operation::kAllreduce};
  return kOperations[static_cast<std::size_t>(kind)];
}

void storm(Communicator& all, unsigned seed, int operations, std::int64_t most) {
  std::mt19937 random(seed);
  for (int done = 0; done < operations;) {
    const int together = 1 + static_cast<int>(random() % 5);
    std::vector<std::unique_ptr<Trial>> trials;
    std::vector<Request> requests;
    for (int i = 0; i < together; ++i, ++done) {
      const Call call = random_call(random, all.size(), most);
      const Where where = random() % 2 == 0 ? Where::kInPlace : Where::kApart;
      trials.push_back(std::make_unique<Trial>(call, all, where, random() % 100));
      auto request = all.start(trials.back()->call());
      ASSERT_TRUE(request.ok()) << shown(call, all.size(), all.rank()) << ": " << request.status().message();
      requests.push_back(std::move(*request));
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Status status = requests[i].wait();
      ASSERT_TRUE(status.ok()) << status.message();
      trials[i]->check();
    }
  }
}

}  // namespace paceline::collectives::testing
