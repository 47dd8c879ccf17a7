#include "runtime/loop_driver.h"

#include <new>

#include <gtest/gtest.h>

#include "transport/tcp/tcp_transport.h"

namespace paceline::runtime {
namespace {

TEST(LoopDriver, WorkThatThrowsLeavesTheLoopToWhoComesNext) {
  const auto transport = transport::make_tcp_transport();
  LoopDriver driver(transport->loop());
  const auto throws = [&] {
    // Whoever has driven the loop leaves it to nobody for a moment; it may be the thread's again before it is asked for.
    while (!driver.try_run([] { throw std::bad_alloc(); })) {
      const std::atomic<bool> never = false;
      driver.drive(never, std::chrono::milliseconds(1));
    }
  };
  EXPECT_THROW(throws(), std::bad_alloc);
  std::atomic<bool> over = false;
  transport->loop().post([&] {
    over = true;
    driver.on_over();
  });
  EXPECT_TRUE(driver.drive(over, std::chrono::minutes(1))) << "another thread is said to serve it";
  EXPECT_TRUE(over);
}

}  // namespace
}  // namespace paceline::runtime
