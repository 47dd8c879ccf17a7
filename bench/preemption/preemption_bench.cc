#include "bench/preemption/preemption_bench.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "base/clock.h"
#include "bench/transport/plain_socket.h"
#include "session/endpoint.h"
#include "transport/open/open.h"

namespace paceline::bench {
namespace {

using session::PeerId;
using wire::PeerName;

constexpr Duration kPatience = std::chrono::minutes(2);
constexpr PeerName kSender{wire::Role::kWorker, Rank{0}}, kReceiver{wire::Role::kServer, Rank{0}};
constexpr Layer kUrgent{0}, kBacklog{9};

// One end of a run: an endpoint whose messages all hold the same bytes.
class Side final : public session::EndpointHandler {
 public:
  Side(transport::Transport& transport, const PeerName& name, std::span<const std::byte> bytes)
      : bytes_(bytes), endpoint_(transport, {.self = name, .job = 1, .epoch = 1}, *this) {}

  session::Endpoint& endpoint() { return endpoint_; }
  std::function<void(PeerId)> on_connected;
  std::function<void(const wire::MessageHead&)> on_arrived;
  std::function<void(std::uint64_t ticket)> on_received;
  std::function<void(const Status&)> on_failed;

 private:
  Status on_hello(const PeerName&) override { return {}; }
  void on_peer(PeerId peer, const PeerName&) override {
    if (on_connected) on_connected(peer);
  }
  Result<std::span<std::byte>> on_message_begin(PeerId, const wire::MessageHead& head) override {
    // Two messages at most are under way, the urgent one and the one that it interrupts.
    std::vector<std::byte>& place = head.layer == kUrgent ? urgent_ : place_;
    place.assign(head.payload_bytes, std::byte{});
    return std::span<std::byte>(place);
  }
  void on_message(PeerId, const wire::MessageHead& head, std::span<std::byte> payload) override {
    if (!std::ranges::equal(payload, bytes_)) return on_failed(error(ErrorKind::kCorrupt, "a message arrived different"));
    if (on_arrived) on_arrived(head);
  }
  void on_delivered(PeerId, wire::Channel, std::uint64_t ticket) override {
    if (on_received) on_received(ticket);
  }
  void on_peer_lost(PeerId, const PeerName&, const Status& reason) override { on_failed(reason); }

  std::span<const std::byte> bytes_;
  std::vector<std::byte> place_, urgent_;
  session::Endpoint endpoint_;
};

struct Run {
  double seconds = 0, window = 0, overtaken_by = 0;
};

// What both threads know of a run.
struct Shared {
  std::promise<Status> done;
  std::atomic<bool> finished = false;
  std::atomic<std::int64_t> ready_at = 0;  // nanoseconds; 0: not yet
  void finish(Status status) {
    if (!finished.exchange(true)) done.set_value(std::move(status));
  }
};

Result<Run> run_once(const PreemptionBenchOptions& options, const scheduling::WindowRule& window,
                     std::span<const std::byte> bytes) {
  const Ends ends{options.lab};
  const SystemClock clock;
  const transport::Address place{ends.address(), 0};
  PACELINE_ASSIGN_OR_RETURN(const auto here_transport, transport::open(place));
  PACELINE_ASSIGN_OR_RETURN(const auto there_transport, transport::open(place));
  Side here(*here_transport, kSender, bytes), there(*there_transport, kReceiver, bytes);
  Shared shared;
  auto done = shared.done.get_future();
  here.on_failed = there.on_failed = [&](const Status& reason) { shared.finish(reason); };
  const auto count = static_cast<std::uint64_t>(options.backlog.count / options.slice.count);
  const std::uint64_t half = count / 2;
  Run run;

  const auto now = [&] { return clock.now().time_since_epoch().count(); };
  here.on_connected = [&](PeerId peer) {
    here.endpoint().set_egress({.window = window});
    const auto send = [&, peer](Layer layer, std::uint64_t ticket) {
      const wire::MessageHead head{.kind = wire::MessageKind::kPush, .layer = layer, .iteration = 1, .payload_bytes = bytes.size()};
      here.endpoint().send(peer, head, bytes, ticket);
    };
    here.on_received = [&, send, delivered = std::uint64_t{0}](std::uint64_t) mutable {
      if (++delivered != half) return;
      run.window = static_cast<double>(here.endpoint().link().window.count);
      shared.ready_at = now();
      send(kUrgent, count);
    };
    for (std::uint64_t ticket = 0; ticket < count; ++ticket) send(kBacklog, ticket);
  };
  there.on_arrived = [&, arrived = std::uint64_t{0}](const wire::MessageHead& head) mutable {
    if (head.layer != kUrgent) {
      ++arrived;
      return;
    }
    run.overtaken_by = static_cast<double>(arrived - half);
    run.seconds = 1e-9 * static_cast<double>(now() - shared.ready_at);
    shared.finish({});
  };

  transport::Address address;
  PACELINE_RETURN_IF_ERROR(ends.on(1, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(address, there.endpoint().listen(place));
    return {};
  }));
  std::thread there_thread([&] { there_transport->loop().run(); });
  std::thread here_thread([&] {
    if (const Status entered = ends.enter(0); !entered.ok()) return shared.finish(entered);
    here.endpoint().connect(address, kReceiver, kPatience);
    here_transport->loop().run();
  });
  const bool in_time = done.wait_for(kPatience) == std::future_status::ready;
  here_transport->loop().stop();
  there_transport->loop().stop();
  here_thread.join();
  there_thread.join();
  if (!in_time) return error(ErrorKind::kDeadline, "the urgent slice had not arrived after {} s", seconds(kPatience));
  PACELINE_RETURN_IF_ERROR(done.get());
  return run;
}

}  // namespace

Result<PreemptionBenchReport> run_preemption_bench(const PreemptionBenchOptions& options) {
  if (options.runs < 1 || options.slice.count < 1 || options.backlog.count < 4 * options.slice.count || options.windows.empty()) {
    return error(ErrorKind::kBadRequest,
                 "{} runs of {} windows with a backlog of {} bytes in slices of {}; at least one of each, and four slices",
                 options.runs, options.windows.size(), options.backlog.count, options.slice.count);
  }
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(static_cast<std::size_t>(options.slice.count));
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  std::vector<std::vector<Run>> runs(options.windows.size());
  for (int turn = 1; turn <= options.runs; ++turn) {
    for (std::size_t i = 0; i < options.windows.size(); ++i) {
      PACELINE_ASSIGN_OR_RETURN(const Run run, run_once(options, options.windows[i], bytes));
      runs[i].push_back(run);
    }
    if (options.on_run) options.on_run(turn);
  }
  PreemptionBenchReport report;
  for (const std::vector<Run>& of : runs) {
    const auto values = [&](double Run::*field) {
      std::vector<double> all;
      for (const Run& run : of) all.push_back(run.*field);
      return all;
    };
    report.urgent_seconds.push_back(spread(values(&Run::seconds)));
    report.window_bytes.push_back(median(values(&Run::window)));
    report.overtaken_by.push_back(median(values(&Run::overtaken_by)));
  }
  return report;
}

}  // namespace paceline::bench
