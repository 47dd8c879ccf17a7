#include "bench/transport/transport_bench.h"

#include <gtest/gtest.h>

namespace paceline::bench {
namespace {

TEST(TransportBench, ASmallRunVerifiesItsBytesAndFillsTheReport) {
  const auto report = run_transport_bench(
      {.runs = 2, .streamed = Bytes{1'000'001}, .message = Bytes{200'000}, .chunk = Bytes{65'536}, .round_trips = 20});
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (const Figures& one : {report->plain, report->plain_checked, report->tcp, report->tls}) {
    for (const Spread& spread : {one.bytes_per_second, one.round_trip_seconds}) {
      EXPECT_GT(spread.lowest, 0);
      EXPECT_LE(spread.lowest, spread.median);
      EXPECT_LE(spread.median, spread.highest);
    }
  }
  EXPECT_GT(report->stream_of_plain_checked, 0);
  EXPECT_GT(report->tls_stream_of_tcp, 0);
  EXPECT_GT(report->tls_connect_seconds.lowest, 0);
  const nlohmann::json json = *report;
  EXPECT_EQ(json["tcp"]["bytes_per_second"]["median"], report->tcp.bytes_per_second.median);
}

TEST(TransportBench, OptionsOutOfRangeAreRefused) {
  EXPECT_EQ(run_transport_bench({.runs = 0}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_transport_bench({.streamed = Bytes{0}}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_transport_bench({.message = Bytes{0}}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_transport_bench({.chunk = Bytes{2 << 20}}).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(run_transport_bench({.round_trips = 0}).status().kind(), ErrorKind::kBadRequest);
}

}  // namespace
}  // namespace paceline::bench
