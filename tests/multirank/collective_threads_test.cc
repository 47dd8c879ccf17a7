// A communicator that several threads use.
#include <condition_variable>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "collective_trial.h"

namespace paceline::collectives::testing {
namespace {

// Two threads of each rank take turns at beginning, and wait for their own.
TEST(CollectiveThreads, OperationsBeginInTheOrderOfTheirCalls) {
  constexpr int kOperations = 40;
  CollectiveWorld world(transport::testing::tcp_backend(), 3);
  world.run({}, [&](Communicator& all) {
    std::mutex mutex;
    std::condition_variable changed;
    int begun = 0;
    const auto half = [&](int thread) {
      for (int operation = thread; operation < kOperations; operation += 2) {
        const Trial trial({.kind = CollectiveKind::kAllreduce, .dtype = tensor::DType::kFloat32, .count = 1000 + operation}, all,
                          Where::kApart, static_cast<unsigned>(operation));
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return begun == operation; });
        Result<Request> request = all.start(trial.call());
        ++begun;
        lock.unlock();
        changed.notify_all();
        ASSERT_TRUE(request.ok()) << request.status().message();
        ASSERT_TRUE(request->wait().ok());
        trial.check();
      }
    };
    std::thread other([&] { half(1); });
    half(0);
    other.join();
  });
  world.leave();
}

}  // namespace
}  // namespace paceline::collectives::testing
