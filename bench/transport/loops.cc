#include "bench/transport/loops.h"

#include <algorithm>
#include <future>
#include <random>
#include <thread>

#include <sys/resource.h>

#include "base/clock.h"
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

  End(Role role, const Chunks& chunks, std::size_t count) : role_(role), chunks_(chunks), count_(count) {
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
  Role role() const { return role_; }
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
  const Chunks& chunks_;
  std::size_t count_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  std::vector<std::byte> place_;
  std::unique_ptr<Connection> connection_;
  std::promise<Status> done_;
  bool finished_ = false;
};

// A connection: who begins it, who listens, and which of the two knows when all is done.
struct Pair {
  Pair(End::Role here_role, End::Role there_role, const LoopsRun& run)
      : here(here_role, run.chunks, run.count), there(there_role, run.chunks, run.count) {}

  bool here_knows() const { return here.role() == End::Role::kStreams || here.role() == End::Role::kAsks; }

  End here, there;
  std::unique_ptr<transport::Listener> listener;
};

class Loops {
 public:
  Loops(const LoopsRun& run, std::unique_ptr<transport::Transport> here, std::unique_ptr<transport::Transport> there)
      : run_(run), here_(std::move(here)), there_(std::move(there)) {
    if (run.traffic == Traffic::kRoundTrips)
      pairs_.push_back(std::make_unique<Pair>(End::Role::kAsks, End::Role::kEchoes, run));
    else
      pairs_.push_back(std::make_unique<Pair>(End::Role::kStreams, End::Role::kCollects, run));
    if (run.traffic == Traffic::kBothWays) pairs_.push_back(std::make_unique<Pair>(End::Role::kCollects, End::Role::kStreams, run));
  }

  Result<LoopsTook> take() {
    PACELINE_RETURN_IF_ERROR(run_.ends.on(1, [&] { return listen(); }));
    std::vector<std::future<Status>> done;
    for (auto& pair : pairs_) done.push_back((pair->here_knows() ? pair->here : pair->there).done());
    std::thread there_thread([&] { there_->loop().run(); });
    std::thread here_thread([&] {
      if (const Status entered = run_.ends.enter(0); !entered.ok()) return pairs_.front()->here.fail(entered);
      for (auto& pair : pairs_) connect(*pair);
      here_->loop().run();
    });
    const TimePoint limit = clock_.now() + kPatience;
    const bool in_time =
        std::ranges::all_of(done, [&](auto& one) { return one.wait_for(limit - clock_.now()) == std::future_status::ready; });
    const TimePoint end = clock_.now();
    here_->loop().stop();
    there_->loop().stop();
    here_thread.join();
    there_thread.join();
    for (auto& pair : pairs_) {
      pair->here.drop();
      pair->there.drop();
    }
    if (!in_time) return error(ErrorKind::kDeadline, "tcp transport: a run was not over after {} s", seconds(kPatience));
    for (auto& one : done) PACELINE_RETURN_IF_ERROR(one.get());
    return LoopsTook{.connecting = connecting_, .moving = end - start_};
  }

 private:
  Status listen() {
    for (auto& pair : pairs_) {
      PACELINE_ASSIGN_OR_RETURN(
          pair->listener, there_->listen({run_.ends.address(), 0}, {.plane = run_.plane},
                                         [&end = pair->there](std::unique_ptr<Connection> one) { end.adopt(std::move(one)); }));
    }
    return {};
  }

  void connect(Pair& pair) {
    const TimePoint asked = clock_.now();
    here_->connect(pair.listener->address(), {kPatience, run_.plane}, [&, asked](Result<std::unique_ptr<Connection>> result) {
      start_ = clock_.now();
      if (&pair == pairs_.front().get()) connecting_ = start_ - asked;
      if (result.ok()) return pair.here.adopt(std::move(result).value());
      for (auto& one : pairs_) (one->here_knows() ? one->here : one->there).fail(result.status());
    });
  }

  const LoopsRun& run_;
  SystemClock clock_;
  std::unique_ptr<transport::Transport> here_, there_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  TimePoint start_;
  Duration connecting_{0};
};

}  // namespace

Chunks message_of(Bytes message, Bytes chunk) {
  std::mt19937_64 random(1);
  Chunks chunks;
  for (std::int64_t left = message.count; left > 0; left -= chunk.count) {
    chunks.emplace_back(static_cast<std::size_t>(std::min(left, chunk.count)));
    std::ranges::generate(chunks.back(), [&] { return static_cast<std::byte>(random()); });
  }
  return chunks;
}

Result<LoopsTook> run_loops(const LoopsRun& run) {
  const transport::Address place{run.ends.address(), 0};
  PACELINE_ASSIGN_OR_RETURN(auto here, transport::open(place, {.key = run.key}));
  PACELINE_ASSIGN_OR_RETURN(auto there, transport::open(place, {.key = run.key}));
  return Loops(run, std::move(here), std::move(there)).take();
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace paceline::bench
