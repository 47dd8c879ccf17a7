#include "bench/transport/security_bench.h"

#include "bench/transport/joining.h"
#include "bench/transport/loops.h"
#include "bench/transport/plain_tls.h"

namespace paceline::bench {
namespace {

constexpr Bytes kMessage{200'000}, kChunk{65'536};

struct Series {
  std::vector<double> rates, cpu, connects, joins;

  Stream summary() const { return {.bytes_per_second = spread(rates), .cpu_seconds_per_gb = spread(cpu)}; }
};

class Turns {
 public:
  explicit Turns(Bytes streamed) : chunks_(message_of(kMessage, kChunk)) {
    const auto messages = static_cast<std::size_t>((streamed.count + kMessage.count - 1) / kMessage.count);
    count_ = messages * chunks_.size();
    bytes_ = static_cast<double>(messages) * static_cast<double>(kMessage.count);
  }

  Status plain_tls(Series& series, const std::string& cipher) const {
    const double before = cpu_seconds();
    PACELINE_ASSIGN_OR_RETURN(const Duration taken, stream_plain_tls(chunks_, count_, cipher));
    note(series, taken, cpu_seconds() - before, 1);
    return {};
  }

  Status loops(Series& series, Traffic traffic, const std::optional<JobKey>& key) const {
    const double before = cpu_seconds();
    PACELINE_ASSIGN_OR_RETURN(
        const LoopsTook took,
        run_loops({.traffic = traffic, .chunks = chunks_, .count = count_, .key = key, .plane = transport::Plane::kData}));
    note(series, took.moving, cpu_seconds() - before, traffic == Traffic::kBothWays ? 2 : 1);
    series.connects.push_back(seconds(took.connecting));
    return {};
  }

 private:
  void note(Series& series, Duration taken, double cpu, int ways) const {
    series.rates.push_back(bytes_ / seconds(taken));
    series.cpu.push_back(cpu / (bytes_ * ways) * 1e9);
  }

  Chunks chunks_;
  std::size_t count_ = 0;
  double bytes_ = 0;
};

Status check(const SecurityBenchOptions& options) {
  if (options.runs < 1 || options.runs > 1000 || options.streamed.count < 1 || options.workers < 1 || options.workers > 256)
    return error(ErrorKind::kBadRequest, "1 to 1000 runs, at least 1 byte and 1 to 256 workers are legal");
  return {};
}

double ratio(const Series& of, const Series& to) {
  std::vector<double> ratios;
  for (std::size_t turn = 0; turn < of.rates.size(); ++turn) ratios.push_back(of.rates[turn] / to.rates[turn]);
  return median(ratios);
}

}  // namespace

Result<SecurityBenchReport> run_security_bench(const SecurityBenchOptions& options) {
  PACELINE_RETURN_IF_ERROR(check(options));
  const Turns turns(options.streamed);
  const JobKey key = JobKey::draw();
  std::map<std::string, Series> ciphers;
  Series clear, encrypted, clear_data, clear_both, encrypted_both;
  for (int run = 0; run < options.runs; ++run) {
    for (const std::string& cipher : tls_ciphers()) PACELINE_RETURN_IF_ERROR(turns.plain_tls(ciphers[cipher], cipher));
    PACELINE_RETURN_IF_ERROR(turns.loops(clear, Traffic::kStream, {}));
    PACELINE_RETURN_IF_ERROR(turns.loops(encrypted, Traffic::kStream, key));
    PACELINE_RETURN_IF_ERROR(turns.loops(clear_data, Traffic::kStream, key.leaving_data_clear()));
    PACELINE_RETURN_IF_ERROR(turns.loops(clear_both, Traffic::kBothWays, {}));
    PACELINE_RETURN_IF_ERROR(turns.loops(encrypted_both, Traffic::kBothWays, key));
    PACELINE_ASSIGN_OR_RETURN(const Duration joined, join_many(options.workers, {}));
    clear.joins.push_back(seconds(joined));
    PACELINE_ASSIGN_OR_RETURN(const Duration proved, join_many(options.workers, key));
    encrypted.joins.push_back(seconds(proved));
    if (options.on_run) options.on_run(run + 1);
  }
  SecurityBenchReport report{.plain_tls = {},
                             .clear = clear.summary(),
                             .key = encrypted.summary(),
                             .clear_data = clear_data.summary(),
                             .clear_both_ways = clear_both.summary(),
                             .key_both_ways = encrypted_both.summary(),
                             .clear_connect_seconds = spread(clear.connects),
                             .key_connect_seconds = spread(encrypted.connects),
                             .clear_join_seconds = spread(clear.joins),
                             .key_join_seconds = spread(encrypted.joins),
                             .key_of_clear = ratio(encrypted, clear),
                             .clear_data_of_clear = ratio(clear_data, clear)};
  for (const auto& [cipher, series] : ciphers) report.plain_tls[cipher] = series.summary();
  return report;
}

}  // namespace paceline::bench
