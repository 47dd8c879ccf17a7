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

struct Figures {
  Spread bytes_per_second;    // stream, one direction
  Spread cpu_seconds_per_gb;  // both ends together
  Spread round_trip_seconds;  // 64 bytes there and back
};

struct TransportBenchReport {
  Figures plain;                                    // no checksum
  Figures plain_checked;                            // CRC32C computed by both ends
  Figures tcp;                                      // this transport, CRC32C by both ends
  Figures tls;                                      // the same with a job's key
  Spread tcp_connect_seconds, tls_connect_seconds;  // until the side that connects may send; TLS: with the handshake
  double tls_stream_of_tcp = 0;                     // median of the rates' ratios within each turn
  // Medians of the ratios within each turn.
  double stream_of_plain_checked = 0;      // tcp's rate / plain_checked's; 1 = as fast
  double round_trip_of_plain_checked = 0;  // tcp's time / plain_checked's; 1 = as fast
};

// Blocks for some seconds. Errors: kBadRequest for options out of range, kCorrupt when bytes arrived wrong, kIo, kDeadline.
Result<TransportBenchReport> run_transport_bench(const TransportBenchOptions& options);

// The same stream between two hosts of a lab, whose link is the limit.
struct ShapedStreamOptions {
  BytesPerSecond rate{125e6};                 // of the link
  int runs = 5;                               // of each contestant, in turn; at least 1
  Duration length = std::chrono::seconds(1);  // about how long each takes
  std::function<void(int done)> on_run;       // may be empty
};

struct ShapedStreamReport {
  double link_bytes_per_second = 0;
  Spread goodput;                                             // of plain sockets without a checksum, bytes/s
  Spread tcp;                                                 // of this transport
  Spread goodput_cpu_seconds_per_gb, tcp_cpu_seconds_per_gb;  // user and system time of both ends, without the kernel's own threads
  Spread tcp_of_goodput;                                      // of the ratios within each turn; 1 = as fast
};

// Needs the rights of a lab (lab/rights.h). Blocks for some seconds.
Result<ShapedStreamReport> run_shaped_stream_bench(const ShapedStreamOptions& options);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShapedStreamReport, link_bytes_per_second, goodput, tcp, goodput_cpu_seconds_per_gb,
                                   tcp_cpu_seconds_per_gb, tcp_of_goodput)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Figures, bytes_per_second, cpu_seconds_per_gb, round_trip_seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TransportBenchReport, plain, plain_checked, tcp, tls, tcp_connect_seconds, tls_connect_seconds,
                                   tls_stream_of_tcp, stream_of_plain_checked, round_trip_of_plain_checked)

}  // namespace paceline::bench
