#include "bench/transport/transport_bench.h"

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "bench/transport/loops.h"
#include "bench/transport/plain_socket.h"
#include "lab/lab.h"

namespace paceline::bench {
namespace {

struct Series {
  std::vector<double> rates;
  std::vector<double> cpu;
  std::vector<double> trips;
  std::vector<double> connects;

  Figures summary() const {
    return {.bytes_per_second = spread(rates), .cpu_seconds_per_gb = spread(cpu), .round_trip_seconds = spread(trips)};
  }
};

Status check(const TransportBenchOptions& options) {
  const auto between = [](const char* what, std::int64_t value, std::int64_t lowest, std::int64_t highest) -> Status {
    if (value >= lowest && value <= highest) return {};
    return error(ErrorKind::kBadRequest, "{} of {} is not possible; from {} to {} is legal", what, value, lowest, highest);
  };
  PACELINE_RETURN_IF_ERROR(between("a number of runs", options.runs, 1, 1000));
  PACELINE_RETURN_IF_ERROR(between("an amount", options.streamed.count, 1, std::int64_t{1} << 50));
  PACELINE_RETURN_IF_ERROR(between("a message", options.message.count, 1, 1 << 30));
  PACELINE_RETURN_IF_ERROR(between("a chunk", options.chunk.count, 1, wire::kMaxPayload));
  return between("a number of round trips", options.round_trips, 1, 100'000'000);
}

}  // namespace

Result<TransportBenchReport> run_transport_bench(const TransportBenchOptions& options) {
  PACELINE_RETURN_IF_ERROR(check(options));
  const auto chunks = message_of(options.message, options.chunk);
  const auto messages = static_cast<std::size_t>((options.streamed.count + options.message.count - 1) / options.message.count);
  const std::size_t count = messages * chunks.size();
  const double bytes = static_cast<double>(messages) * static_cast<double>(options.message.count);
  const std::vector<std::vector<std::byte>> small = {std::vector<std::byte>(64, std::byte{42})};

  Series plain;
  Series checked;
  Series tcp;
  Series tls;
  const auto measure = [&](Series& series, auto&& stream, auto&& trips) -> Status {
    const double cpu_before = cpu_seconds();
    PACELINE_ASSIGN_OR_RETURN(const Duration streaming, stream());
    series.cpu.push_back((cpu_seconds() - cpu_before) / bytes * 1e9);
    series.rates.push_back(bytes / seconds(streaming));
    PACELINE_ASSIGN_OR_RETURN(const Duration asking, trips());
    series.trips.push_back(seconds(asking) / options.round_trips);
    return {};
  };
  const auto measure_plain = [&](Series& series, Check check_kind) {
    return measure(
        series, [&] { return stream_plain(chunks, count, check_kind); },
        [&] { return round_trips_plain(small[0], options.round_trips, check_kind); });
  };
  const auto measure_transport = [&](Series& series, const std::optional<JobKey>& key) {
    const auto run = [&](Traffic traffic, const auto& sent, std::size_t times) -> Result<Duration> {
      PACELINE_ASSIGN_OR_RETURN(const LoopsTook took, run_loops({.traffic = traffic, .chunks = sent, .count = times, .key = key}));
      series.connects.push_back(seconds(took.connecting));
      return took.moving;
    };
    return measure(
        series, [&] { return run(Traffic::kStream, chunks, count); },
        [&] { return run(Traffic::kRoundTrips, small, static_cast<std::size_t>(options.round_trips)); });
  };
  const JobKey key = JobKey::draw();
  std::vector<double> stream_ratios, trip_ratios, tls_ratios;
  for (int run = 0; run < options.runs; ++run) {
    PACELINE_RETURN_IF_ERROR(measure_plain(plain, Check::kNone));
    PACELINE_RETURN_IF_ERROR(measure_plain(checked, Check::kCrc32c));
    PACELINE_RETURN_IF_ERROR(measure_transport(tcp, {}));
    PACELINE_RETURN_IF_ERROR(measure_transport(tls, key));
    tls_ratios.push_back(tls.rates.back() / tcp.rates.back());
    stream_ratios.push_back(tcp.rates.back() / checked.rates.back());
    trip_ratios.push_back(tcp.trips.back() / checked.trips.back());
    if (options.on_run) PACELINE_RETURN_IF_ERROR(options.on_run(run + 1));
  }
  return TransportBenchReport{.plain = plain.summary(),
                              .plain_checked = checked.summary(),
                              .tcp = tcp.summary(),
                              .tls = tls.summary(),
                              .tcp_connect_seconds = spread(tcp.connects),
                              .tls_connect_seconds = spread(tls.connects),
                              .tls_stream_of_tcp = median(tls_ratios),
                              .stream_of_plain_checked = median(stream_ratios),
                              .round_trip_of_plain_checked = median(trip_ratios)};
}

Result<ShapedStreamReport> run_shaped_stream_bench(const ShapedStreamOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const auto hosts, lab::Lab::create({.shape = {.rates = {options.rate, options.rate}}}));
  const Ends ends{hosts.get()};
  const auto chunks = message_of(Bytes{200'000}, Bytes{65'536});
  const auto messages = static_cast<std::size_t>(options.rate.value * seconds(options.length) / 200'000) + 1;
  const std::size_t count = messages * chunks.size();
  const double bytes = static_cast<double>(messages) * 200'000;
  Series plain;
  Series tcp;
  std::vector<double> ratios;
  const auto measure = [&](Series& series, auto&& stream) -> Status {
    const double cpu_before = cpu_seconds();
    PACELINE_ASSIGN_OR_RETURN(const Duration taken, stream());
    series.cpu.push_back((cpu_seconds() - cpu_before) / bytes * 1e9);
    series.rates.push_back(bytes / seconds(taken));
    return {};
  };
  for (int run = 0; run < options.runs; ++run) {
    PACELINE_RETURN_IF_ERROR(measure(plain, [&] { return stream_plain(chunks, count, Check::kNone, ends); }));
    PACELINE_RETURN_IF_ERROR(measure(tcp, [&]() -> Result<Duration> {
      PACELINE_ASSIGN_OR_RETURN(const LoopsTook took,
                                run_loops({.traffic = Traffic::kStream, .chunks = chunks, .count = count, .ends = ends}));
      return took.moving;
    }));
    ratios.push_back(tcp.rates.back() / plain.rates.back());
    if (options.on_run) options.on_run(run + 1);
  }
  return ShapedStreamReport{.link_bytes_per_second = options.rate.value,
                            .goodput = spread(plain.rates),
                            .tcp = spread(tcp.rates),
                            .goodput_cpu_seconds_per_gb = spread(plain.cpu),
                            .tcp_cpu_seconds_per_gb = spread(tcp.cpu),
                            .tcp_of_goodput = spread(ratios)};
}

}  // namespace paceline::bench
