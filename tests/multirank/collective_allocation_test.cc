// Collective operations of a rank that has no memory left. A program of its own, because it replaces operator new.
#include <latch>
#include <new>

#include "collective_world.h"
#include "conformance/counting_new.h"

namespace paceline::collectives::testing {
namespace {

using transport::testing::LeakCheck;
using transport::testing::refuse_memory;
using Kind = CollectiveKind;

class CollectiveMemory : public LeakCheck {};

constexpr std::int64_t kCount = 1'000'000;
constexpr std::size_t kMuch = 1'000'000;

TEST_F(CollectiveMemory, ACallWithoutMemoryForACopyHasBegunNothingAndMayComeAgain) {
  CollectiveWorld world(transport::testing::inproc_backend(), 2);
  world.run({}, [&](Communicator& all) {
    const std::vector<float> input(kCount, 1.0F);
    std::vector<float> own(static_cast<std::size_t>(part_of(kCount, 2, all.rank()).count));
    const Call call{.kind = Kind::kReduceScatter, .input = input.data(), .output = own.data(), .count = kCount};
    if (all.rank() == 1) {
      refuse_memory(kMuch);
      EXPECT_THROW(static_cast<void>(all.start(call)), std::bad_alloc);
      refuse_memory(0);
    }
    const Status status = all.run(call);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(own, std::vector<float>(own.size(), 2.0F));
  });
  world.leave();
}

TEST_F(CollectiveMemory, AnOperationWithoutMemoryWhereItRunsFailsOnAllRanksInTheSameWords) {
  CollectiveWorld world(transport::testing::inproc_backend(), 3);
  std::vector<std::string> words(3);
  std::latch refused(1);
  world.run({}, [&](Communicator& all) {
    std::vector<float> values(kCount, 1.0F);
    if (all.rank() == 1) {
      world.rank(1).loop().on_loop([] { refuse_memory(kMuch); });
      refused.count_down();
    }
    refused.wait();
    const Status status = all.run({.kind = Kind::kReduce,
                                   .input = values.data(),
                                   .output = values.data(),
                                   .count = kCount,
                                   .root = 1,
                                   .algorithm = Algorithm::kMinimumSpanningTree});
    EXPECT_EQ(status.kind(), ErrorKind::kOverloaded) << status.message();
    words[static_cast<std::size_t>(all.rank())] = status.message();
  });
  EXPECT_NE(words[0].find("rank 1 has no memory for operation 1, reduce (sum) of 1000000 float32 to rank 1 by mst"),
            std::string::npos)
      << words[0];
  EXPECT_EQ(words[0], words[1]);
  EXPECT_EQ(words[0], words[2]);
}

}  // namespace
}  // namespace paceline::collectives::testing
