#include "bench/transport/security_bench.h"

#include <gtest/gtest.h>

namespace paceline::bench {
namespace {

TEST(SecurityBench, ASmallRunVerifiesItsBytesAndFillsTheReport) {
  const auto report = run_security_bench({.runs = 2, .streamed = Bytes{1'000'001}, .workers = 3, .on_run = {}});
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->plain_tls.size(), 3U);
  EXPECT_TRUE(report->plain_tls.contains("TLS_AES_128_GCM_SHA256"));
  for (const Stream& one : {report->clear, report->key, report->clear_data, report->clear_both_ways, report->key_both_ways,
                            report->plain_tls.at("TLS_AES_128_GCM_SHA256")}) {
    EXPECT_GT(one.bytes_per_second.lowest, 0);
    EXPECT_GT(one.cpu_seconds_per_gb.lowest, 0);
  }
  for (const Spread& spread :
       {report->clear_connect_seconds, report->key_connect_seconds, report->clear_join_seconds, report->key_join_seconds})
    EXPECT_GT(spread.lowest, 0);
  EXPECT_GT(report->key_of_clear, 0);
  EXPECT_GT(report->clear_data_of_clear, 0);
}

TEST(SecurityBench, OptionsOutOfRangeAreRefused) {
  EXPECT_EQ(run_security_bench({.runs = 0, .on_run = {}}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_security_bench({.streamed = Bytes{0}, .on_run = {}}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_security_bench({.workers = 0, .on_run = {}}).status().kind(), ErrorKind::kBadRequest);
}

}  // namespace
}  // namespace paceline::bench
