#include "bench/transport/transport_bench.h"

#include <algorithm>
#include <future>
#include <optional>
#include <random>
#include <thread>

#include <sys/resource.h>

#include "base/clock.h"
#include "bench/transport/plain_socket.h"
#include "lab/lab.h"
#include "transport/open/open.h"

namespace paceline::bench {
namespace {

using transport::Connection;
using transport::ConnectionHandler;
using transport::Frame;

constexpr Duration kPatience = std::chrono::minutes(5);
constexpr std::size_t kQueuedFrames = 16;  // what the sender keeps ready, so that the socket never waits for it

// Sends its chunks until `count` have been sent, or answers what it gets.
class End final : public ConnectionHandler {
 public:
  enum class Role { kStreams, kCollects, kAsks, kEchoes };

  End(Role role, const std::vector<std::vector<std::byte>>& chunks, std::size_t count)
      : role_(role), chunks_(chunks), count_(count) {
    std::size_t largest = 0;
    for (const auto& chunk : chunks) largest = std::max(largest, chunk.size());
    place_.resize(largest);
  }

  // Loop thread.
  void adopt(std::unique_ptr<Connection> connection) {
    connection_ = std::move(connection);
    connection_->start(*this);
    connection_->admit();
    if (role_ == Role::kAsks) send_next();
    if (role_ == Role::kStreams) {
      for (std::size_t i = 0; i < kQueuedFrames; ++i) send_next();
    }
  }
  void fail(const Status& reason) { finish(reason); }
  void drop() { connection_.reset(); }  // when the loop stands still
  std::future<Status> done() { return done_.get_future(); }

 private:
  void send_next() {
    if (sent_ == count_) return;
    const auto& chunk = chunks_[sent_++ % chunks_.size()];
    connection_->send(wire::seal({.kind = wire::FrameKind::kChunk, .sequence = sent_}, {}, chunk), chunk, sent_);
  }
  std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte>) override {
    return std::span(place_).first(std::min<std::size_t>(place_.size(), header.payload_bytes));
  }
  void on_frame(const Frame& frame) override {
    ++received_;
    switch (role_) {
      case Role::kStreams:
        return finish({});
      case Role::kCollects:
        if (received_ == count_) {
          // The transport has checked every chunk; this is the proof that it did so for the right bytes.
          if (!right(frame)) return finish(error(ErrorKind::kCorrupt, "tcp transport: the last chunk arrived different"));
          connection_->send(wire::seal({.kind = wire::FrameKind::kAcknowledge}, {}, {}), {}, 0);
        }
        return;
      case Role::kEchoes:
        return connection_->send(wire::seal({.kind = wire::FrameKind::kChunk}, {}, frame.payload), frame.payload, 0);
      case Role::kAsks:
        if (received_ < count_) return send_next();
        return finish(right(frame) ? Status() : error(ErrorKind::kCorrupt, "tcp transport: the bytes came back different"));
    }
  }
  bool right(const Frame& frame) const { return std::ranges::equal(frame.payload, chunks_[(count_ - 1) % chunks_.size()]); }
  void on_sent(std::uint64_t) override {
    if (role_ == Role::kStreams) send_next();
  }
  void on_closed(const Status& reason) override { finish(reason); }
  void finish(Status status) {
    if (!std::exchange(finished_, true)) done_.set_value(std::move(status));
  }

  Role role_;
  const std::vector<std::vector<std::byte>>& chunks_;
  std::size_t count_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  std::vector<std::byte> place_;
  std::unique_ptr<Connection> connection_;
  std::promise<Status> done_;
  bool finished_ = false;
};

// One run over the transport: `here` begins, `there` listens, each on a loop of its own, on a thread that is where its end is.
Result<Duration> run_tcp(End::Role here_role, End::Role there_role, const std::vector<std::vector<std::byte>>& chunks,
                         std::size_t count, const Ends& ends = {}, const std::optional<JobKey>& key = {},
                         Duration* connecting = nullptr) {
  const transport::Address place{ends.address(), 0};
  PACELINE_ASSIGN_OR_RETURN(const auto here_transport, transport::open(place, {.key = key}));
  PACELINE_ASSIGN_OR_RETURN(const auto there_transport, transport::open(place, {.key = key}));
  End here(here_role, chunks, count);
  End there(there_role, chunks, count);
  auto done = here.done();
  std::unique_ptr<transport::Listener> listener;
  PACELINE_RETURN_IF_ERROR(ends.on(1, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(listener, there_transport->listen(place, {}, [&](std::unique_ptr<Connection> connection) {
      there.adopt(std::move(connection));
    }));
    return {};
  }));
  const SystemClock clock;
  TimePoint start;
  std::thread there_thread([&] { there_transport->loop().run(); });
  std::thread here_thread([&] {
    if (const Status entered = ends.enter(0); !entered.ok()) return here.fail(entered);
    const TimePoint asked = clock.now();
    here_transport->connect(listener->address(), kPatience, [&, asked](Result<std::unique_ptr<Connection>> result) {
      start = clock.now();
      if (connecting != nullptr) *connecting = start - asked;
      if (result.ok()) {
        here.adopt(std::move(result).value());
      } else {
        here.fail(result.status());
      }
    });
    here_transport->loop().run();
  });
  const bool in_time = done.wait_for(kPatience) == std::future_status::ready;
  const Duration taken = clock.now() - start;
  here_transport->loop().stop();
  there_transport->loop().stop();
  here_thread.join();
  there_thread.join();
  here.drop();
  there.drop();
  if (!in_time) return error(ErrorKind::kDeadline, "tcp transport: a run was not over after {} s", seconds(kPatience));
  PACELINE_RETURN_IF_ERROR(done.get());
  return taken;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

struct Series {
  std::vector<double> rates;
  std::vector<double> cpu;
  std::vector<double> trips;
  std::vector<double> connects;

  Contestant summary() const {
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

// A message of random bytes, as chunks.
std::vector<std::vector<std::byte>> message_of(Bytes message, Bytes chunk) {
  std::mt19937_64 random(1);
  std::vector<std::vector<std::byte>> chunks;
  for (std::int64_t left = message.count; left > 0; left -= chunk.count) {
    chunks.emplace_back(static_cast<std::size_t>(std::min(left, chunk.count)));
    std::ranges::generate(chunks.back(), [&] { return static_cast<std::byte>(random()); });
  }
  return chunks;
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
    const auto run = [&](End::Role here, End::Role there, const auto& sent, std::size_t times) {
      Duration connecting{0};
      auto taken = run_tcp(here, there, sent, times, {}, key, &connecting);
      series.connects.push_back(seconds(connecting));
      return taken;
    };
    return measure(
        series, [&] { return run(End::Role::kStreams, End::Role::kCollects, chunks, count); },
        [&] { return run(End::Role::kAsks, End::Role::kEchoes, small, static_cast<std::size_t>(options.round_trips)); });
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
    PACELINE_RETURN_IF_ERROR(measure(tcp, [&] { return run_tcp(End::Role::kStreams, End::Role::kCollects, chunks, count, ends); }));
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
