// What the tcp transport costs against a plain program: blocking sockets, a header in front of each chunk, nothing else. Over the
// loopback of this machine, sender and receiver as two threads, contestants taking turns, results verified byte by byte.
#pragma once

#include <functional>

#include "base/quantity.h"
#include "base/status.h"
#include "bench/spread.h"

namespace paceline::bench {

struct TransportBenchOptions {
  int runs = 7;                   // of each contestant, in turn; at least 1
  Bytes streamed{2'000'000'000};  // per run, rounded up to whole messages
  Bytes message{200'000};         // sent as chunks
  Bytes chunk{65'536};            // at most wire::kMaxPayload
  int round_trips = 10'000;       // of 64 bytes, per run
  // After each turn, before the next begins: the place for one more contestant. May be empty; an error ends the benchmark.
  std::function<Status(int done)> on_run;
};

struct Contestant {
  Spread bytes_per_second;    // stream, one direction
  Spread cpu_seconds_per_gb;  // both ends together
  Spread round_trip_seconds;  // 64 bytes there and back
};

struct TransportBenchReport {
  Contestant plain;          // no checksum
  Contestant plain_checked;  // CRC32C computed by both ends
  Contestant tcp;            // this transport, CRC32C by both ends
  // Medians of the ratios within each turn.
  double stream_of_plain_checked = 0;      // tcp's rate / plain_checked's; 1 = as fast
  double round_trip_of_plain_checked = 0;  // tcp's time / plain_checked's; 1 = as fast
};

// Blocks for some seconds. Errors: kBadRequest for options out of range, kCorrupt when bytes arrived wrong, kIo, kDeadline.
Result<TransportBenchReport> run_transport_bench(const TransportBenchOptions& options);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Contestant, bytes_per_second, cpu_seconds_per_gb, round_trip_seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TransportBenchReport, plain, plain_checked, tcp, stream_of_plain_checked,
                                   round_trip_of_plain_checked)

}  // namespace paceline::bench
