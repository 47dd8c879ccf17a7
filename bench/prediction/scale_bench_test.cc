#include "bench/prediction/scale_bench.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace paceline::bench {
namespace {

TEST(ScaleBench, StepsOneIterationOfManyNodes) {
  const auto file = std::filesystem::temp_directory_path() / ("scale_bench_" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << R"({"layers":[{"name":"a","parameters":500000,"forward_s":0.01,"backward_s":0.02}]})";
  for (const char* sync : {"bsp", "ssp"}) {
    const auto report = run_scale_bench({.table = file, .workers = 60, .servers = 7, .sync = sync});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->units, 14) << "two for each server, so that all have as much";
    // 60 gradients of 2 MB through seven servers' links, and as many values.
    EXPECT_GT(report->iteration, 0.03 + 60 * 2e6 / 7 / 1.25e9);
    EXPECT_GT(report->peak_bytes, 0);
  }
  EXPECT_FALSE(run_scale_bench({.table = file, .workers = 0}).ok());
  EXPECT_FALSE(run_scale_bench({.table = file, .workers = 3, .servers = 1, .schedule = "p4"}).ok());
  std::filesystem::remove(file);
  EXPECT_FALSE(run_scale_bench({.table = file}).ok());
}

}  // namespace
}  // namespace paceline::bench
