#include "trainer/data/loader.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <set>

#include <gtest/gtest.h>

#include "trainer/data/synthetic.h"

namespace paceline::trainer::data {
namespace {

std::shared_ptr<const Dataset> small_images(std::int64_t samples) {
  return open_synthetic({.channels = 1, .height = 4, .width = 4, .samples = samples}, "test").value().train;
}

// Passes on to a data set, but fails at one sample and counts reads.
class Watched final : public Dataset {
 public:
  Watched(std::shared_ptr<const Dataset> inner, std::int64_t broken) : inner_(std::move(inner)), broken_(broken) {}
  std::int64_t size() const override { return inner_->size(); }
  const Form& form() const override { return inner_->form(); }
  Status load(std::int64_t index, Sample& sample) const override {
    ++reads_;
    reads_.notify_all();
    if (index == broken_) return error(ErrorKind::kCorrupt, "sample {} is broken", index);
    return inner_->load(index, sample);
  }
  std::int64_t reads() const { return reads_; }
  void wait_for_reads(std::int64_t count) const {
    for (std::int64_t seen = reads_; seen < count; seen = reads_) reads_.wait(seen);
  }

 private:
  std::shared_ptr<const Dataset> inner_;
  std::int64_t broken_;
  mutable std::atomic<std::int64_t> reads_{0};
};

struct Fixture : testing::Test {
  SystemClock clock;
  std::unique_ptr<Loader> started(std::shared_ptr<const Dataset> set, LoaderOptions options, std::int32_t workers = 2,
                                  std::int64_t mini_batch = 3) {
    Sampler sampler = Sampler::make(*set, {.seed = 9, .workers = workers, .mini_batch = mini_batch}).value();
    return Loader::start(std::move(set), std::move(sampler), options, clock).value();
  }
};
using LoaderTest = Fixture;

TEST_F(LoaderTest, ReadsWhatItIsHandedOutInThatOrder) {
  const auto set = small_images(20);
  for (const std::int32_t depth : {0, 1, 3}) {
    Sampler sampler = Sampler::make(*set, {.seed = 9, .workers = 2, .mini_batch = 3}).value();
    const auto loader = started(set, {.last = 9, .depth = depth, .threads = 2, .source = LoaderOptions::Source::kHandedOut});
    const std::vector<std::pair<Iteration, Rank>> places = {{1, Rank{1}}, {2, Rank{0}}, {2, Rank{1}}, {9, Rank{0}}, {4, Rank{1}}};
    loader->hand_out(places[0].first, places[0].second);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i + 1 < places.size()) loader->hand_out(places[i + 1].first, places[i + 1].second);
      const auto got = loader->next();
      ASSERT_TRUE(got.ok()) << got.status().message();
      ASSERT_EQ((*got)->indices, sampler.samples(places[i].first, places[i].second)) << "depth " << depth;
      ASSERT_EQ((*got)->iteration, static_cast<Iteration>(i) + 1);
    }
    loader->stop();
    EXPECT_EQ(loader->next().status().kind(), ErrorKind::kCancelled);
  }
}

TEST_F(LoaderTest, GivesTheSameSequenceAsReadingWithoutItWhateverDepthAndThreads) {
  const auto set = small_images(20);
  for (const std::int32_t depth : {0, 1, 2, 7}) {
    for (const std::int32_t threads : {1, 3}) {
      for (const Iteration first : {Iteration{1}, Iteration{5}}) {
        Sampler sampler = Sampler::make(*set, {.seed = 9, .workers = 2, .mini_batch = 3}).value();
        const auto loader = started(set, {.rank = Rank{1}, .first = first, .depth = depth, .threads = threads});
        for (Iteration i = first; i < first + 12; ++i) {
          MiniBatch expected;
          ASSERT_TRUE(assemble(*set, sampler.samples(i, Rank{1}), clock, expected).ok());
          const auto got = loader->next();
          ASSERT_TRUE(got.ok()) << got.status().message();
          const MiniBatch& batch = **got;
          ASSERT_EQ(batch.iteration, i);
          ASSERT_EQ(batch.indices, expected.indices);
          ASSERT_EQ(batch.inputs, expected.inputs);
          ASSERT_EQ(batch.targets, expected.targets);
          ASSERT_EQ(batch.input_shape, (std::vector<std::int64_t>{3, 1, 4, 4}));
          ASSERT_EQ(batch.target_shape, (std::vector<std::int64_t>{3}));
          ASSERT_GT(batch.load_seconds, 0);
          ASSERT_GT(batch.preprocess_seconds, 0);
        }
      }
    }
  }
}

TEST_F(LoaderTest, LeavesTheMiniBatchInHandAloneUntilTheNextCall) {
  const auto loader = started(small_images(40), {.rank = Rank{0}, .last = 8, .depth = 1, .threads = 2});
  for (Iteration i = 1; i <= 8; ++i) {
    const MiniBatch* batch = loader->next().value();
    const std::vector<float> before = batch->inputs;
    for (int spin = 0; spin < 1000; ++spin) ASSERT_EQ(batch->iteration, i);
    ASSERT_EQ(batch->inputs, before);
  }
}

TEST_F(LoaderTest, ReadsAheadOnlyAsFarAsItsDepth) {
  const auto set = std::make_shared<Watched>(small_images(40), -1);
  {
    const auto loader = started(set, {.rank = Rank{0}, .depth = 3, .threads = 2});
    set->wait_for_reads(9);
    ASSERT_TRUE(loader->next().ok());
    set->wait_for_reads(12);
  }
  EXPECT_EQ(set->reads(), 12);  // 3 samples for each of the one delivered and the three ahead
}

TEST_F(LoaderTest, ReusesItsBuffers) {
  const auto loader = started(small_images(40), {.rank = Rank{0}, .depth = 1});
  std::set<const float*> buffers;
  for (int i = 0; i < 10; ++i) buffers.insert(loader->next().value()->inputs.data());
  EXPECT_EQ(buffers.size(), 2u);
}

TEST_F(LoaderTest, ReportsASampleThatCannotBeReadAndKeepsReportingIt) {
  const auto set = std::make_shared<Watched>(small_images(20), 4);
  for (const std::int32_t depth : {0, 1, 3}) {
    const auto loader = started(set, {.rank = Rank{0}, .depth = depth, .threads = std::max(1, depth)});
    Sampler sampler = Sampler::make(*set, {.seed = 9, .workers = 2, .mini_batch = 3}).value();
    for (Iteration i = 1;; ++i) {
      const auto indices = sampler.samples(i, Rank{0});
      const auto got = loader->next();
      if (std::find(indices.begin(), indices.end(), 4) == indices.end()) {
        ASSERT_TRUE(got.ok());
        continue;
      }
      ASSERT_FALSE(got.ok());
      EXPECT_EQ(got.status().message(), "sample 4 is broken");
      EXPECT_EQ(loader->next().status().message(), "sample 4 is broken");
      break;
    }
  }
}

TEST_F(LoaderTest, EndsBehindTheLastIteration) {
  const auto set = std::make_shared<Watched>(small_images(40), -1);
  const auto loader = started(set, {.rank = Rank{0}, .first = 2, .last = 3, .depth = 5});
  EXPECT_EQ(loader->next().value()->iteration, 2);
  EXPECT_EQ(loader->next().value()->iteration, 3);
  const auto behind = loader->next();
  ASSERT_FALSE(behind.ok());
  EXPECT_EQ(behind.status().kind(), ErrorKind::kCancelled);
  EXPECT_EQ(set->reads(), 6);
}

TEST_F(LoaderTest, StopsAtAnyMomentWithoutHanging) {
  const auto set = small_images(40);
  for (int round = 0; round < 200; ++round) {
    const auto loader = started(set, {.rank = Rank{round % 2}, .depth = round % 5, .threads = 1 + round % 3});
    for (int i = 0; i < round % 5; ++i) ASSERT_TRUE(loader->next().ok());
    if (round % 7 == 0) {
      loader->stop();
      EXPECT_EQ(loader->next().status().kind(), ErrorKind::kCancelled);
    }
  }
}

TEST_F(LoaderTest, WakesAWaitingNextWhenStopped) {
  // Delivers nothing until released, so that `next` must wait.
  class Held final : public Dataset {
   public:
    explicit Held(std::shared_ptr<const Dataset> inner) : inner_(std::move(inner)) {}
    std::int64_t size() const override { return inner_->size(); }
    const Form& form() const override { return inner_->form(); }
    Status load(std::int64_t index, Sample& sample) const override {
      release.wait();
      return inner_->load(index, sample);
    }
    mutable std::latch release{1};

   private:
    std::shared_ptr<const Dataset> inner_;
  };
  const auto set = std::make_shared<Held>(small_images(40));
  const auto loader = started(set, {.rank = Rank{0}});
  Status seen;
  std::thread waiting([&] { seen = loader->next().status(); });
  loader->stop();
  waiting.join();
  EXPECT_EQ(seen.kind(), ErrorKind::kCancelled);
  set->release.count_down();
}

TEST_F(LoaderTest, RefusesOptionsOutOfRange) {
  const auto set = small_images(20);
  const Sampler sampler = Sampler::make(*set, {.workers = 2, .mini_batch = 3}).value();
  for (const LoaderOptions options :
       {LoaderOptions{.rank = Rank{2}}, LoaderOptions{.rank = Rank{-1}}, LoaderOptions{.first = 0}, LoaderOptions{.depth = -1},
        LoaderOptions{.depth = 65}, LoaderOptions{.threads = 0}, LoaderOptions{.last = -1}}) {
    const auto loader = Loader::start(set, sampler, options, clock);
    ASSERT_FALSE(loader.ok());
    EXPECT_EQ(loader.status().kind(), ErrorKind::kBadRequest);
  }
}

TEST(MiniBatch, CountsLoadAndPreprocessApart) {
  // Loading moves the clock by 2 s, decoding by 3 s.
  class Timed final : public Dataset {
   public:
    Timed(std::shared_ptr<const Dataset> inner, ManualClock& clock) : inner_(std::move(inner)), clock_(clock) {}
    std::int64_t size() const override { return inner_->size(); }
    const Form& form() const override { return inner_->form(); }
    Status load(std::int64_t index, Sample& sample) const override {
      clock_.advance(std::chrono::seconds(2));
      return inner_->load(index, sample);
    }
    Status decode(std::int64_t, Sample&) const override {
      clock_.advance(std::chrono::seconds(3));
      return {};
    }

   private:
    std::shared_ptr<const Dataset> inner_;
    ManualClock& clock_;
  };
  ManualClock clock;
  const Timed set(small_images(5), clock);
  MiniBatch batch;
  ASSERT_TRUE(assemble(set, std::vector<std::int64_t>{4, 0, 0}, clock, batch).ok());
  EXPECT_DOUBLE_EQ(batch.load_seconds, 6);
  EXPECT_DOUBLE_EQ(batch.preprocess_seconds, 9);
  ASSERT_TRUE(assemble(set, std::vector<std::int64_t>{1}, clock, batch).ok());
  EXPECT_DOUBLE_EQ(batch.load_seconds, 2);  // nothing is left of the one before
  EXPECT_EQ(batch.inputs.size(), 16u);
}

}  // namespace
}  // namespace paceline::trainer::data
