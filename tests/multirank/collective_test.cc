// Collective operations on real data: ranks as threads over inproc, tcp and a network that cuts, delays and damages.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "collective_world.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/inproc/inproc_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::collectives::testing {
namespace {

using tensor::DType;
using transport::testing::LeakCheck;
using Kind = CollectiveKind;

constexpr std::array kDTypes = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kFloat16, DType::kBFloat16};
constexpr std::array kReductions = {ReductionKind::kSum, ReductionKind::kMax, ReductionKind::kMin, ReductionKind::kMean};

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

std::string shown(const Call& call, int ranks, int rank) {
  wire::CollectiveHead head{.kind = call.kind,
                            .dtype = static_cast<std::uint8_t>(call.dtype),
                            .reduction = static_cast<std::uint8_t>(call.reduction),
                            .algorithm = static_cast<std::uint8_t>(call.algorithm.value_or(Algorithm::kLinearPipeline)),
                            .root = call.root,
                            .count = call.count};
  return fmt::format("{}, rank {} of {}{}", describe(head), rank, ranks, call.input == call.output ? ", in place" : "");
}

enum class Where { kInPlace, kApart };

// One operation on one rank: its buffers, and what has to stand in them afterwards.
class Trial {
 public:
  Trial(const Call& call, const Communicator& all, Where where, unsigned salt)
      : call_(call), ranks_(all.size()), rank_(all.rank()), where_(where), salt_(salt), size_(tensor::size_of(call.dtype)) {
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
        if (where == Where::kInPlace)
          std::copy(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(whole), output_.begin());
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
        call_.output = nullptr;
    }
  }

  const Call& call() const { return call_; }

  void check() const {
    const auto* data = static_cast<const std::byte*>(call_.output);
    for (std::int64_t i = 0; i < result_.count; ++i) {
      const double found = get(call_.dtype, data, static_cast<std::size_t>(i));
      const double wanted = expected(call_, ranks_, first_ + i, salt_);
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

 private:
  static constexpr std::size_t kGuard = 8;
  Call call_;
  int ranks_, rank_;
  Where where_;
  unsigned salt_;
  std::size_t size_;
  std::vector<std::byte> input_, output_, before_;
  Range result_{};
  std::int64_t first_ = 0;
};

Operation operation_of(Kind kind) {
  constexpr std::array kOperations = {Operation::kBroadcast,     Operation::kReduce,    Operation::kAllreduce,
                                      Operation::kReduceScatter, Operation::kAllgather, Operation::kAllreduce};
  return kOperations[static_cast<std::size_t>(kind)];
}

// The same call on every rank that draws with the same seed.
Call random_call(std::mt19937& random, int ranks, std::int64_t most) {
  const auto up_to = [&](std::int64_t limit) { return std::uniform_int_distribution<std::int64_t>(0, limit)(random); };
  Call call;
  call.kind = static_cast<Kind>(up_to(5));
  call.dtype = kDTypes[static_cast<std::size_t>(up_to(4))];
  call.reduction = kReductions[static_cast<std::size_t>(up_to(call.dtype == DType::kInt32 ? 2 : 3))];
  call.root = call.kind == Kind::kBroadcast || call.kind == Kind::kReduce ? static_cast<int>(up_to(ranks - 1)) : 0;
  call.priority = {static_cast<std::int32_t>(up_to(3))};
  const std::int64_t size = up_to(5);
  call.count = size == 0 ? 0 : size == 1 ? up_to(ranks + 1) : size < 4 ? up_to(2000) : up_to(most);
  if (call.kind == Kind::kBarrier) return call;
  const auto algorithms = algorithms_for(operation_of(call.kind));
  const std::int64_t which = up_to(static_cast<std::int64_t>(algorithms.size()));
  if (which < static_cast<std::int64_t>(algorithms.size())) call.algorithm = algorithms[static_cast<std::size_t>(which)];
  if (up_to(2) == 0) call.block = Bytes{1 + up_to(call.count * 2 + 10)};
  return call;
}

// `operations` random calls, up to five in flight.
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

class Collective : public LeakCheck {};

TEST_F(Collective, EveryOperationTypeAndAlgorithmGivesTheRightNumbersInPlaceAndApart) {
  for (const int ranks : {1, 3, 4}) {
    CollectiveWorld world(transport::testing::inproc_backend(), ranks);
    world.run({}, [&](Communicator& all) {
      for (const Kind kind : {Kind::kBroadcast, Kind::kReduce, Kind::kAllreduce, Kind::kReduceScatter, Kind::kAllgather}) {
        const bool adds = kind != Kind::kBroadcast && kind != Kind::kAllgather;
        for (const Algorithm algorithm : algorithms_for(operation_of(kind))) {
          for (const DType dtype : kDTypes) {
            for (const ReductionKind reduction : kReductions) {
              if (!adds && reduction != ReductionKind::kSum) continue;
              if (dtype == DType::kInt32 && reduction == ReductionKind::kMean) continue;
              for (const Where where : {Where::kInPlace, Where::kApart}) {
                for (const std::int64_t count : {std::int64_t{0}, std::int64_t{ranks - 1}, std::int64_t{1001}}) {
                  const int root = kind == Kind::kBroadcast || kind == Kind::kReduce ? (ranks - 1) / 2 : 0;
                  const Call call{.kind = kind,
                                  .dtype = dtype,
                                  .count = count,
                                  .reduction = reduction,
                                  .root = root,
                                  .algorithm = algorithm,
                                  .block = Bytes{512}};
                  const Trial trial(call, all, where, 7);
                  const Status status = all.run(trial.call());
                  ASSERT_TRUE(status.ok()) << shown(call, ranks, all.rank()) << ": " << status.message();
                  trial.check();
                }
              }
            }
          }
        }
      }
    });
    world.leave();
  }
}

TEST_F(Collective, ManyRandomOperationsInFlightOverMemoryAndTcp) {
  for (const auto& [backend, ranks] : {std::pair(transport::testing::inproc_backend(), 5),
                                       {transport::testing::tcp_backend(), 2},
                                       {transport::testing::tcp_backend(), 7},
                                       {transport::testing::inproc_backend(), 8}}) {
    CollectiveWorld world(backend, ranks);
    world.run({}, [&](Communicator& all) { storm(all, static_cast<unsigned>(ranks), 60, 300'000); });
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(world.rank(rank).unfinished(), 0);
    world.leave();
  }
}

TEST_F(Collective, ANetworkThatCutsDelaysAndDamagesChangesNoNumber) {
  std::vector<transport::FaultyTransport*> faults;
  Backend backend = transport::testing::inproc_backend();
  backend.make = [&, make = backend.make]() -> std::unique_ptr<transport::Transport> {
    auto faulty = transport::make_faulty_transport(make(), {.seed = 40 + faults.size(),
                                                            .delay = 0.01,
                                                            .longest_delay = std::chrono::milliseconds(3),
                                                            .reorder = 0.01,
                                                            .cut_before = 0.003,
                                                            .cut_inside = 0.003,
                                                            .cut_after = 0.003,
                                                            .corrupt_payload = 0.01});
    faults.push_back(faulty.get());
    return faulty;
  };
  session::EndpointOptions options;
  options.silence_deadline = std::chrono::seconds(60);
  options.chunk = Bytes{16'384};
  CollectiveWorld world(backend, 4, options);
  world.run({.rules = {.agreement = Agreement::kWithData}}, [&](Communicator& all) { storm(all, 77, 60, 100'000); });
  std::uint64_t cuts = 0, corruptions = 0;
  for (const auto* faulty : faults) {
    cuts += faulty->counts().cuts;
    corruptions += faulty->counts().corruptions;
  }
  EXPECT_GT(cuts, 0U);
  EXPECT_GT(corruptions, 0U);
}

// Numbers whose sum depends on the order in which they are added.
std::vector<float> wild(int rank, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& each : values) each = value(random) * std::pow(10.0F, 5 * value(random));
  return values;
}

TEST_F(Collective, InRankOrderEveryAlgorithmGivesTheBitsOfTheSumInRankOrder) {
  for (const int ranks : {2, 4, 5}) {
    constexpr std::int64_t kCount = 40'003;
    std::vector<float> sum = wild(0, kCount), mean;
    for (int rank = 1; rank < ranks; ++rank) {
      const auto next = wild(rank, kCount);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
    }
    mean = sum;
    for (float& value : mean) value *= static_cast<float>(1.0 / ranks);
    CollectiveWorld world(transport::testing::inproc_backend(), ranks);
    world.run({.rules = {.order = SumOrder::kRank, .segment = Bytes{4096}}}, [&](Communicator& all) {
      for (const auto algorithm : legal_algorithms(Operation::kAllreduce, SumOrder::kRank, ranks, 0, ReductionKind::kSum)) {
        for (const auto reduction : {ReductionKind::kSum, ReductionKind::kMean}) {
          std::vector<float> values = wild(all.rank(), kCount);
          ASSERT_TRUE(all.run({.kind = Kind::kAllreduce,
                               .input = values.data(),
                               .output = values.data(),
                               .count = kCount,
                               .reduction = reduction,
                               .algorithm = algorithm,
                               .block = Bytes{8192}})
                          .ok());
          EXPECT_EQ(values, reduction == ReductionKind::kSum ? sum : mean) << to_string(algorithm) << ", rank " << all.rank();
        }
      }
      std::vector<float> values = wild(all.rank(), kCount);
      ASSERT_TRUE(
          all.run({.kind = Kind::kReduce, .input = values.data(), .output = values.data(), .count = kCount, .root = ranks - 1})
              .ok());
      if (all.rank() == ranks - 1) {
        EXPECT_EQ(values, sum);
      }
      if (ranks > 2) {
        const Status refused =
            all.run({.kind = Kind::kReduce, .input = values.data(), .output = values.data(), .count = 8, .root = 0});
        EXPECT_NE(refused.message().find("only rank"), std::string::npos) << refused.message();
      }
    });
    world.leave();
  }
}

TEST_F(Collective, SubgroupsWorkSideBySideWithTheWholeAndWithEachOther) {
  CollectiveWorld world(transport::testing::inproc_backend(), 6);
  world.run({}, [&](Communicator& all) {
    const bool even = all.rank() % 2 == 0;
    auto group = all.subgroup(even ? 1 : 2, even ? std::vector{0, 2, 4} : std::vector{1, 3, 5});
    ASSERT_TRUE(group.ok()) << group.status().message();
    EXPECT_EQ((*group)->rank(), all.rank() / 2);
    for (unsigned round = 0; round < 5; ++round) {
      storm(**group, round + (even ? 100 : 200), 5, 20'000);
      storm(all, round, 5, 20'000);
    }
    EXPECT_FALSE(all.subgroup(0, {0, 1}).ok());
    EXPECT_NE(all.subgroup(9, {all.rank(), 6}).status().message().find("legal: 0 to 5"), std::string::npos);
    EXPECT_FALSE(all.subgroup(9, {(all.rank() + 1) % 6}).ok()) << "without itself";
    EXPECT_FALSE(all.subgroup(9, {5, all.rank(), 0}).ok()) << "not ascending";
  });
  world.leave();
}

// ---- Ranks that disagree

// Every rank makes its own call; all must fail with the same words. Returns them.
std::string disagreement(int ranks, const std::function<Call(int rank, std::vector<float>& memory)>& call_of, Agreement agreement) {
  CollectiveWorld world(transport::testing::inproc_backend(), ranks);
  std::vector<std::string> words(static_cast<std::size_t>(ranks));
  world.run({.rules = {.agreement = agreement}}, [&](Communicator& all) {
    std::vector<float> first(100, 1.0F);
    // The others may be in the next operation, and hear of the failure, before this one is over here.
    Status status = all.run({.kind = Kind::kAllreduce, .input = first.data(), .output = first.data(), .count = 100});
    if (status.ok()) {
      std::vector<float> memory(400'000, static_cast<float>(all.rank()));  // gone before the next call: nothing may use it
      status = all.run(call_of(all.rank(), memory));
    }
    for (int again = 0; again < 3 && status.ok(); ++again) status = all.run({.kind = Kind::kBarrier});
    EXPECT_FALSE(status.ok()) << "rank " << all.rank();
    EXPECT_EQ(status.kind(), ErrorKind::kBadRequest) << status.message();
    EXPECT_EQ(all.run({.kind = Kind::kBarrier}).message(), status.message()) << "a communicator is of no use after an error";
    words[static_cast<std::size_t>(all.rank())] = status.message();
  });
  for (const std::string& each : words) EXPECT_EQ(each, words[0]);
  return words[0];
}

TEST_F(Collective, RanksThatDisagreeAllFailWithTheSameWordsThatNameBothAndWhatTheyDo) {
  const auto allreduce = [](std::vector<float>& memory, std::int64_t count) {
    return Call{
        .kind = Kind::kAllreduce, .input = memory.data(), .output = memory.data(), .count = count, .algorithm = Algorithm::kRing};
  };
  for (const std::int64_t count : {std::int64_t{50}, std::int64_t{300'000}}) {
    const std::string words = disagreement(
        4, [&](int rank, auto& memory) { return allreduce(memory, count + (rank == 2 ? 1 : 0)); }, Agreement::kBeforeCompletion);
    EXPECT_TRUE(words.find(" and 2 disagree") != std::string::npos || words.find("ranks 2 and ") != std::string::npos) << words;
    EXPECT_NE(words.find(fmt::format("of {} float32", count)), std::string::npos) << words;
    EXPECT_NE(words.find(fmt::format("of {} float32", count + 1)), std::string::npos) << words;
  }
  const std::string kinds = disagreement(
      3,
      [&](int rank, auto& memory) {
        if (rank != 1) return allreduce(memory, 1000);
        return Call{.kind = Kind::kBroadcast,
                    .output = memory.data(),
                    .count = 1000,
                    .root = 1,
                    .algorithm = Algorithm::kMinimumSpanningTree};
      },
      Agreement::kBeforeCompletion);
  EXPECT_NE(kinds.find("disagree on operation 2: "), std::string::npos) << kinds;
  EXPECT_NE(kinds.find("allreduce (sum) of 1000 float32 by ring"), std::string::npos) << kinds;
  EXPECT_NE(kinds.find("broadcast of 1000 float32 from rank 1 by mst"), std::string::npos) << kinds;
}

TEST_F(Collective, EveryWayToDisagreeIsFound) {
  using Change = std::function<void(Call&, int)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"root", [](Call& call, int) { call.root = 2; }},
      {"dtype", [](Call& call, int) { call.dtype = DType::kInt32; }},
      {"count", [](Call& call, int) { call.count = 0; }},
      {"kind", [](Call& call, int) { call = {.kind = Kind::kBarrier}; }},
      {"algorithm", [](Call& call, int) { call.algorithm = Algorithm::kMinimumSpanningTree; }},
      {"reduction", [](Call& call, int) { call.reduction = ReductionKind::kMax; }},
  };
  for (const auto& [what, change] : changes) {
    for (const Kind kind : {Kind::kBroadcast, Kind::kReduce}) {
      if (kind == Kind::kBroadcast && std::string(what) == "reduction") continue;
      for (const int odd : {0, 3}) {
        const std::string words = disagreement(
            4,
            [&, &alter = change](int rank, std::vector<float>& memory) {
              Call call{.kind = kind, .count = 10'000, .root = 1, .algorithm = Algorithm::kLinearPipeline};
              if (rank == odd) alter(call, rank);
              if (call.kind != Kind::kBarrier) call.output = memory.data();
              if (call.kind == Kind::kReduce) call.input = memory.data();
              return call;
            },
            Agreement::kBeforeCompletion);
        EXPECT_NE(words.find(" disagree on operation 2: "), std::string::npos) << what << ": " << words;
        EXPECT_NE(words.find(fmt::format("{}", odd)), std::string::npos) << what << ": " << words;
      }
    }
  }
}

TEST_F(Collective, WithoutAgreementADisagreementIsFoundByItsDataAndReachesTheOthersInTheNextOperation) {
  const std::string words = disagreement(
      4,
      [](int rank, std::vector<float>& memory) {
        return Call{.kind = Kind::kBroadcast,
                    .output = memory.data(),
                    .count = rank == 3 ? 1000 : 2000,
                    .root = 0,
                    .algorithm = Algorithm::kLinearPipeline};
      },
      Agreement::kWithData);
  EXPECT_NE(words.find("ranks 2 and 3 disagree on operation 2"), std::string::npos) << words;
}

// ---- Bad calls and lost peers

TEST_F(Collective, ACallThatMakesNoSenseIsRefusedAndHarmsNobody) {
  CollectiveWorld world(transport::testing::inproc_backend(), 2);
  world.run({}, [&](Communicator& all) {
    alignas(8) std::array<float, 64> memory{};
    const auto refused = [&](const Call& call, const std::string& words) {
      const auto request = all.start(call);
      ASSERT_FALSE(request.ok()) << words;
      EXPECT_EQ(request.status().kind(), ErrorKind::kBadRequest);
      EXPECT_NE(request.status().message().find(words), std::string::npos) << request.status().message();
    };
    void* const data = memory.data();
    refused({.kind = Kind::kBroadcast, .output = data, .count = 8, .root = 2}, "root 2 is no rank of the group; legal: 0 to 1");
    refused({.kind = Kind::kReduce, .input = data, .output = data, .count = 8, .root = -1}, "root -1");
    refused({.kind = Kind::kAllreduce, .input = nullptr, .output = data, .count = 8}, "the input is null");
    refused({.kind = Kind::kAllreduce, .input = data, .output = nullptr, .count = 8}, "the output is null");
    refused({.kind = Kind::kAllreduce, .input = reinterpret_cast<std::byte*>(data) + 2, .output = data, .count = 8},
            "not aligned to the 4");
    refused({.kind = Kind::kAllreduce, .input = data, .output = memory.data() + 4, .count = 8}, "input and output overlap");
    refused({.kind = Kind::kAllreduce, .input = data, .output = data, .count = -1}, "-1 elements");
    refused({.kind = Kind::kAllreduce,
             .input = data,
             .output = data,
             .dtype = DType::kInt32,
             .count = 8,
             .reduction = ReductionKind::kMean},
            "the mean of int32");
    refused({.kind = Kind::kBroadcast, .output = data, .count = 8, .algorithm = Algorithm::kRing},
            "broadcast cannot run by ring; legal: lp, mst, be");
    refused({.kind = Kind::kBroadcast, .output = data, .count = 8, .block = Bytes{0}}, "a block of 0 bytes");
    refused({.kind = Kind::kBroadcast, .input = memory.data() + 8, .output = data, .count = 8}, "there is an input");

    auto clipped = all.start(
        {.kind = Kind::kBroadcast, .output = data, .count = 8, .algorithm = Algorithm::kLinearPipeline, .block = Bytes{1 << 20}});
    ASSERT_TRUE(clipped.ok());
    refused({.kind = Kind::kBroadcast, .output = memory.data() + 7, .count = 8}, "in flight");
    EXPECT_EQ(clipped->choice().block, Bytes{32});
    EXPECT_NE(clipped->choice().text().find("blocks of 32 bytes (all of the message"), std::string::npos)
        << clipped->choice().text();
    EXPECT_TRUE(clipped->wait().ok());

    std::thread([&] { refused({.kind = Kind::kBarrier}, "two threads use one communicator"); }).join();
    EXPECT_TRUE(all.run({.kind = Kind::kBarrier}).ok());
  });
  world.leave();
}

TEST_F(Collective, ALostPeerEndsEveryOperationAndANameIsGiven) {
  session::EndpointOptions options;
  options.silence_deadline = std::chrono::milliseconds(500);
  CollectiveWorld world(transport::testing::inproc_backend(), 4, options);
  std::vector<std::thread> threads;
  for (const int rank : {0, 1, 3}) {
    threads.emplace_back([&world, rank] {
      const auto all = world.rank(rank).communicator();
      Status status;
      {
        std::vector<float> values(1'000'000, 1.0F);
        status = all->run({.kind = Kind::kAllreduce, .input = values.data(), .output = values.data(), .count = 1'000'000});
      }
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.kind(), ErrorKind::kPeerLost) << status.message();
      EXPECT_NE(status.message().find("worker 2"), std::string::npos) << status.message();
      EXPECT_EQ(all->run({.kind = Kind::kBarrier}).message(), status.message());
    });
  }
  world.rank(2).kill();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Collective, AnOperationThatOneRankNeverBeginsEndsAtTheStallLimitWithItsName) {
  CollectiveWorld world(transport::testing::inproc_backend(), 3);
  std::vector<std::string> words(3);
  world.run({.stall_deadline = std::chrono::milliseconds(300)}, [&](Communicator& all) {
    if (all.rank() == 1) return;
    std::vector<float> values(5'000, 1.0F);
    const Status status = all.run(
        {.kind = Kind::kAllreduce, .input = values.data(), .output = values.data(), .count = 5'000, .algorithm = Algorithm::kRing});
    EXPECT_EQ(status.kind(), ErrorKind::kDeadline);
    words[static_cast<std::size_t>(all.rank())] = status.message();
  });
  EXPECT_EQ(words[0], words[2]);
  EXPECT_NE(words[0].find("0.3 s in operation 1, allreduce (sum) of 5000 float32 by ring, for rank"), std::string::npos)
      << words[0];
}

TEST_F(Collective, AnUrgentOperationOvertakesALargeOneThatBeganBefore) {
  CollectiveWorld world(transport::testing::tcp_backend(), 2);
  world.run({}, [&](Communicator& all) {
    std::vector<float> large(8'000'000, 1.0F), urgent(1000, 2.0F);
    auto slow =
        all.start({.kind = Kind::kAllreduce, .input = large.data(), .output = large.data(), .count = 8'000'000, .priority = {9}});
    auto fast =
        all.start({.kind = Kind::kAllreduce, .input = urgent.data(), .output = urgent.data(), .count = 1000, .priority = {0}});
    ASSERT_TRUE(slow.ok() && fast.ok());
    EXPECT_TRUE(fast->wait().ok());
    EXPECT_TRUE(slow->wait().ok());
    EXPECT_EQ(urgent[999], 4.0F);
    EXPECT_EQ(large[7'999'999], 2.0F);
  });
  EXPECT_GT(world.rank(0).counters().overtakes, 0U);
  world.leave();
}

}  // namespace
}  // namespace paceline::collectives::testing
