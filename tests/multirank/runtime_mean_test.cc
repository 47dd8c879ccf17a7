// Jobs whose workers get mean gradients back and make their steps themselves (--optimizer mean): means and verdicts are those of
// plain loops, bit for bit, with one server, several, servers in the workers' processes, and without servers.
#include <cmath>
#include <limits>
#include <mutex>

#include "job/testing_jobs.h"
#include "runtime_cluster.h"

namespace paceline::runtime::testing {
namespace {

using exchange::Verdict;
using job::testing::gradient_of;

constexpr std::int32_t kWorkers = 3;
constexpr Iteration kIterations = 8;
constexpr std::uint32_t kSmall = 1, kLarge = 2;  // tensors of table()

// Iteration 3: ranks 1 and 2 have no numbers; 5: a sum is none; 6: rank 0 does not use a tensor, 7: nobody does.
std::vector<std::uint32_t> spoil(std::int32_t rank, Iteration iteration, std::span<float> gradients) {
  const auto offsets = table().offsets();
  float& small = gradients[static_cast<std::size_t>(offsets[kSmall]) + 3];
  float& large = gradients[static_cast<std::size_t>(offsets[kLarge]) + 20'000];
  if (iteration == 3 && rank > 0) large = std::numeric_limits<float>::quiet_NaN();
  if (iteration == 5) small = std::numeric_limits<float>::max();
  if (iteration == 5 && rank == 2) large = -std::numeric_limits<float>::infinity();
  if (iteration == 7 || (iteration == 6 && rank == 0)) return {kLarge};
  return {};
}

struct Plain {
  std::vector<float> means;
  std::vector<Verdict> verdicts;  // by iteration, from 1
};

// In plain loops.
Plain plain_job(bool frozen) {
  const wire::TensorTable tensors = table(frozen);
  const auto offsets = tensors.offsets();
  Plain plain{job::testing::initial_values(kSeed, tensors.elements()), {}};
  for (Iteration iteration = 1; iteration <= kIterations; ++iteration) {
    std::vector<std::vector<float>> gradients;
    std::vector<std::vector<std::uint32_t>> unused;
    for (std::int32_t rank = 0; rank < kWorkers; ++rank) {
      gradients.push_back(gradient_of(kSeed, rank, iteration, tensors.elements()));
      unused.push_back(spoil(rank, iteration, gradients.back()));
    }
    Verdict& verdict = plain.verdicts.emplace_back();
    verdict.unused.resize(1);
    tensor::ExactSquareSum squares;
    for (std::uint32_t t = 0; t < tensors.tensors.size() && !tensors.tensors[t].frozen; ++t) {
      const auto uses = [&](std::size_t rank) { return std::ranges::find(unused[rank], t) == unused[rank].end(); };
      if (!uses(0) && !uses(1) && !uses(2)) {
        verdict.unused[0] |= std::uint64_t{1} << t;
        continue;
      }
      bool finite = true;
      std::int32_t broken = kWorkers;
      for (auto i = static_cast<std::size_t>(offsets[t]); i < static_cast<std::size_t>(offsets[t + 1]); ++i) {
        float sum = 0;
        for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
          const float added = uses(rank) ? gradients[rank][i] : 0;
          sum = rank == 0 ? added : sum + added;
          if (!std::isfinite(added)) broken = std::min(broken, static_cast<std::int32_t>(rank));
        }
        plain.means[i] = sum * static_cast<float>(1.0 / kWorkers);
        finite = finite && std::isfinite(plain.means[i]);
        squares.add(std::span(&plain.means[i], 1));
      }
      if (!finite && !verdict.non_finite)
        verdict.non_finite = {.rank = broken < kWorkers ? Rank{broken} : Verdict::kNobody, .tensor = t};
    }
    verdict.square_sum = squares.value();
  }
  return plain;
}

// `frozen`: the last layer keeps rank 0's values.
Job mean_job(std::int32_t servers, const char* loop, bool frozen) {
  Job job;
  job.workers = kWorkers;
  job.servers = servers;
  job.iterations = kIterations;
  job.spoil = spoil;
  job.frozen = frozen;
  give(job.settings, "optimizer", "mean");
  give(job.settings, "verdict", "1");
  give(job.settings, "non-finite", "apply");
  if (servers == 0) give(job.settings, "collective", loop);
  return job;
}

void expect_plain(const Job& job, const Plain& plain, Backend backend) {
  Cluster cluster(backend, job);
  std::mutex mutex;
  const auto means = cluster.work_all([&](WorkerProcess& worker, Iteration iteration) {
    Verdict verdict;
    const Status told = worker.exchange().wait_verdict(iteration, verdict);
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(told.ok()) << told.message();
    const Verdict& expected = plain.verdicts[static_cast<std::size_t>(iteration - 1)];
    EXPECT_EQ(verdict.non_finite, expected.non_finite) << "iteration " << iteration;
    EXPECT_EQ(verdict.unused, expected.unused) << "iteration " << iteration;
    if (std::isnan(expected.square_sum)) {
      EXPECT_TRUE(std::isnan(verdict.square_sum)) << "iteration " << iteration;
    } else {
      EXPECT_EQ(verdict.square_sum, expected.square_sum) << "iteration " << iteration;
    }
  });
  expect_same_bits(means, plain.means);
}

class MeanTest : public ::testing::TestWithParam<Backend> {};

TEST_P(MeanTest, MeansAndVerdictsAreThoseOfPlainLoopsWhoeverSums) {
  const Plain plains[] = {plain_job(false), plain_job(true)};
  const Plain& plain = plains[1];
  ASSERT_EQ(plain.verdicts[2].non_finite, (Verdict::NonFinite{.rank = Rank{1}, .tensor = kLarge}));
  ASSERT_EQ(plain.verdicts[4].non_finite, (Verdict::NonFinite{.rank = Verdict::kNobody, .tensor = kSmall}));
  ASSERT_TRUE(plain.verdicts[6].unused_by_all(kLarge));
  for (const auto& [servers, both, loop, schedule, frozen] : {std::tuple{1, 0, "", "p3", true},
                                                              {2, 0, "", "p3", false},
                                                              {3, 3, "", "p3", true},
                                                              {2, 0, "", "default", true},
                                                              {0, 0, "loop3-overlap", "", true},
                                                              {0, 0, "loop3", "", false}}) {
    SCOPED_TRACE(fmt::format("{} servers, {} of them in workers, {} {}", servers, both, loop, schedule));
    Job job = mean_job(servers, loop, frozen);
    job.both = both;
    if (servers > 0) give(job.settings, "schedule", schedule);
    expect_plain(job, plains[frozen ? 1 : 0], GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MeanTest, ::testing::Values(Backend::kTcp, Backend::kFaultyTcp), name_of);

// Where one rank has the sums nobody tells verdicts, but means come.
TEST(Mean, EveryLoopBringsMeans) {
  for (const char* loop : {"loop1", "loop2"}) {
    SCOPED_TRACE(loop);
    Job job = mean_job(0, loop, true);
    give(job.settings, "verdict", "0");
    Cluster cluster(Backend::kInproc, job);
    expect_same_bits(cluster.work_all(), plain_job(true).means);
  }
}

TEST(Mean, AGradientThatIsNoNumberStopsTheJobUnlessItIsToBeApplied) {
  for (const std::int32_t servers : {0, 2}) {
    Job job = mean_job(servers, "loop3-overlap", false);
    job.workers = 2;
    give(job.settings, "non-finite", "stop");
    Cluster cluster(Backend::kInproc, job);
    std::vector<float> own, other;
    std::thread second([&] { EXPECT_FALSE(cluster.work(1, other, job.settings).ok()); });
    const Status status = cluster.work(0, own, job.settings);
    second.join();
    cluster.join();
    EXPECT_NE(status.message().find("worker 1 has a gradient that is not finite in layer 1"), std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace paceline::runtime::testing
