#include "checkpoint/state_checkpoints.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files_testing.h"
#include "checkpoint/checkpoint.h"

namespace paceline::checkpoint {
namespace {

using ::testing::ElementsAre;

// A loop that does nothing but what is posted, one at a time and when the test says so.
class PostedOnly final : public transport::Loop {
 public:
  TimePoint now() const override { return {}; }
  void run() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !posted_.empty(); });
    const auto work = std::move(posted_.front());
    posted_.pop_front();
    lock.unlock();
    work();
  }
  void stop() override {}
  void post(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
    changed_.notify_all();
  }
  std::unique_ptr<transport::Signal> make_signal(std::function<void()>) override { return nullptr; }
  TimerId run_after(Duration, std::function<void()>) override { return 0; }
  void cancel(TimerId) override {}

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;
};

StateCopy copy_of_one(float value) {
  StateCopy copy;
  copy.head.role = "server";
  copy.head.arrays.push_back({.name = "a", .elements = 1});
  copy.numbers = {value};
  return copy;
}

TEST(StateCheckpoints, TheLoopGoesOnWhileTheStateIsCopiedAndUpdatesOnlyThen) {
  paceline::testing::MemoryFiles files;
  PostedOnly loop;
  std::promise<float> value;
  std::vector<std::string> heard;
  job::JobSpec settings;
  settings.saving.directory = "c";
  settings.saving.every = 1;
  {
    StateCheckpoints checkpoints(files, settings, {}, loop,
                                 {.hold =
                                      [&] {
                                        heard.emplace_back("hold");
                                        return [&] { return copy_of_one(value.get_future().get()); };
                                      },
                                  .release = [&] { heard.emplace_back("release"); }},
                                 [&](Iteration iteration, const PartSummary& part) {
                                   heard.push_back(fmt::format("{} of {} {}", part.name, iteration, part.failure));
                                 });
    checkpoints.on_iteration_complete(1);
    EXPECT_THAT(heard, ElementsAre("hold")) << "and here the loop would serve others";
    value.set_value(2);
    loop.run();
    EXPECT_THAT(heard, ElementsAre("hold", "release"));
    loop.run();
    EXPECT_THAT(heard, ElementsAre("hold", "release", "server-0.bin of 1 "));
    bool done = false;
    checkpoints.finish([&] { done = true; });
    EXPECT_TRUE(done) << "all is written";
  }
  EXPECT_EQ(files.files.size(), 1U);
}

// As of a process that was frozen while another job went on and finished the checkpoint.
TEST(StateCheckpoints, APartThatIsLateReplacesNothingInAFinishedCheckpoint) {
  paceline::testing::MemoryFiles files;
  PostedOnly loop;
  job::JobSpec settings;
  settings.saving.directory = "c";
  settings.saving.every = 1;
  std::vector<std::string> failures;
  const auto save = [&](float value) {
    StateCheckpoints checkpoints(files, settings, {}, loop,
                                 {.hold = [value] { return [value] { return copy_of_one(value); }; }, .release = [] {}},
                                 [&](Iteration, const PartSummary& part) { failures.push_back(part.failure); });
    checkpoints.on_iteration_complete(1);
    loop.run();
    loop.run();
  };
  save(1);
  save(2);
  const auto before = files.files.at("c/00000001/server-0.bin")->bytes;
  ASSERT_TRUE(write_manifest(files, "c", {.iteration = 1, .workers = 1}).ok());
  save(3);
  EXPECT_EQ(files.files.at("c/00000001/server-0.bin")->bytes, before);
  EXPECT_THAT(failures, ElementsAre("", "", ::testing::HasSubstr("c/00000001 is finished, by another job; server-0.bin is late")));
  EXPECT_EQ(files.files.size(), 2U) << "nothing half written stays";
}

}  // namespace
}  // namespace paceline::checkpoint
