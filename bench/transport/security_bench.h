// What encryption costs: processor time and speed of TLS by cipher, of the transport with a key, without and with data left in the
// clear, how much one loop can carry, handshakes, and many workers that join. Over the loopback, contestants taking turns.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/quantity.h"
#include "base/status.h"
#include "bench/spread.h"

namespace paceline::bench {

struct SecurityBenchOptions {
  int runs = 7;                   // of each contestant, in turn; at least 1
  Bytes streamed{1'000'000'000};  // per run
  int workers = 64;               // that join
  std::function<void(int done)> on_run;
};

struct Stream {
  Spread bytes_per_second;    // each way
  Spread cpu_seconds_per_gb;  // both ends together, for each GB that moved
};

struct SecurityBenchReport {
  std::map<std::string, Stream> plain_tls;  // OpenSSL over blocking sockets, by cipher
  Stream clear, key, clear_data;            // the transport: no key, a key, a key that leaves data clear
  Stream clear_both_ways, key_both_ways;    // a stream each way at once: what one loop can carry
  Spread clear_connect_seconds, key_connect_seconds;
  Spread clear_join_seconds, key_join_seconds;  // see joining.h
  double key_of_clear = 0;                      // medians of the rates' ratios within each turn
  double clear_data_of_clear = 0;
};

// Blocks for about a minute. Errors: kBadRequest for options out of range, kCorrupt, kIo, kDeadline.
Result<SecurityBenchReport> run_security_bench(const SecurityBenchOptions& options);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stream, bytes_per_second, cpu_seconds_per_gb)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SecurityBenchReport, plain_tls, clear, key, clear_data, clear_both_ways, key_both_ways,
                                   clear_connect_seconds, key_connect_seconds, clear_join_seconds, key_join_seconds, key_of_clear,
                                   clear_data_of_clear)

}  // namespace paceline::bench
