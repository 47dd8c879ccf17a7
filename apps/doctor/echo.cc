#include "doctor/echo.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "transport/open/open.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace paceline::cli {
namespace {

using transport::Connection;
using wire::FrameKind;

constexpr std::uint32_t kMark = 0x52544344;  // "DCTR": a heartbeat of somebody else is not answered
constexpr std::size_t kChunk = 65'536;
constexpr int kQueuedChunks = 8;
// Who is hung up on before the first answer asks again: a crowd of strangers keeps a listener full for their second.
constexpr std::array kPauses{std::chrono::milliseconds(300), std::chrono::milliseconds(1200)};
constexpr std::size_t kMostAskers = 64;
constexpr std::uint64_t kOfChunk = 1, kOfAnswer = 2;  // tickets
constexpr auto kGiven = [] {
  std::array<std::byte, kChunk> bytes{};
  bytes.fill(std::byte{0x5A});
  return bytes;
}();

// Wall-clock nanoseconds: two hosts have no other clock in common.
std::int64_t wall_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Exchange {
  std::int64_t asked = 0, came = 0, left = 0;
  std::int64_t wanted = 0;  // bytes before the answer
  std::string release;
};

std::vector<std::byte> encode(const Exchange& exchange) {
  wire::Writer writer;
  writer.put(kMark);
  writer.put(exchange.asked);
  writer.put(exchange.came);
  writer.put(exchange.left);
  writer.put(exchange.wanted);
  writer.put_text(exchange.release.substr(0, 64));
  return writer.take();
}

std::optional<Exchange> decode(std::span<const std::byte> body) {
  wire::Reader reader(body);
  const auto mark = reader.get<std::uint32_t>();
  Exchange exchange;
  exchange.asked = reader.get<std::int64_t>();
  exchange.came = reader.get<std::int64_t>();
  exchange.left = reader.get<std::int64_t>();
  exchange.wanted = reader.get<std::int64_t>();
  exchange.release = reader.get_text();
  const bool legal = exchange.wanted >= 0 && exchange.wanted <= kLargestPull.count;
  return reader.finished() && mark == kMark && legal ? std::optional(exchange) : std::nullopt;
}

// One asker's side of a conversation. Belongs to the loop.
class Asker final : public transport::ConnectionHandler {
 public:
  Asker(transport::Transport& transport, transport::Address address, const EchoOptions& options)
      : transport_(transport),
        loop_(transport.loop()),
        address_(std::move(address)),
        options_(options),
        chunk_(kChunk, std::byte{0x5A}),
        pulled_(kChunk) {}

  void connect() {
    transport_.connect(address_, options_.deadline, [this](Result<std::unique_ptr<Connection>> connection) {
      if (!connection.ok()) return finish(connection.status());
      connection_ = std::move(connection).value();
      connection_->start(*this);
      ask();
    });
  }
  void finish(const Status& status) {
    if (!std::exchange(finished_, true)) status_ = status;
    loop_.stop();
  }
  Result<EchoAnswer> answer() const {
    if (!status_.ok()) return status_;
    return answer_;
  }

 private:
  void ask(Bytes wanted = {}) {
    asked_at_ = loop_.now();
    connection_->send(wire::seal({.kind = FrameKind::kHeartbeat}, encode({.asked = wall_clock(), .wanted = wanted.count}), {}), {},
                      0);
  }
  void send_chunk() {
    ++chunks_;
    connection_->send(wire::seal({.kind = FrameKind::kChunk, .sequence = chunks_}, {}, chunk_), chunk_, chunks_);
  }
  void add_pull(Duration taken) {
    answer_.pulls.push_back({options_.pulls[answer_.pulls.size()], taken});
    if (options_.on_pull) options_.on_pull(answer_.pulls.size());
  }
  std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte>) override {
    return std::span(pulled_).first(std::min<std::size_t>(pulled_.size(), header.payload_bytes));
  }
  void on_frame(const transport::Frame& frame) override {
    if (frame.header.kind == FrameKind::kChunk) return;
    const std::int64_t back = wall_clock();
    const Duration taken = loop_.now() - asked_at_;
    const auto exchange = decode(frame.body);
    if (frame.header.kind != FrameKind::kHeartbeatReply || !exchange)
      return finish(error(ErrorKind::kPeerLost, "{} answers, but it is no doctor", address_.text()).because({"not-paceline", ""}));
    if (chunks_ > 0) {
      if (answer_.bytes_per_second == 0)
        answer_.bytes_per_second = static_cast<double>(chunks_ * kChunk) / seconds(loop_.now() - streaming_since_);
      else
        add_pull(taken);
      return answer_.pulls.size() == options_.pulls.size() ? finish({}) : ask(options_.pulls[answer_.pulls.size()]);
    }
    if (trips_.empty() || taken < least_) {
      least_ = taken;
      answer_.clock_offset =
          (static_cast<double>(exchange->came - exchange->asked) + static_cast<double>(exchange->left - back)) / 2e9;
    }
    answer_.release = exchange->release;
    trips_.push_back(taken);
    if (static_cast<int>(trips_.size()) < options_.exchanges) return ask();
    std::ranges::sort(trips_);
    answer_.round_trip_least = seconds(trips_.front());
    answer_.round_trip_median = seconds(trips_[trips_.size() / 2]);
    streaming_since_ = loop_.now();
    for (int i = 0; i < kQueuedChunks; ++i) send_chunk();
  }
  void on_sent(std::uint64_t ticket) override {
    if (ticket == 0 || finished_) return;
    if (loop_.now() - streaming_since_ < options_.streaming) return send_chunk();
    if (ticket == chunks_) ask();  // the last one
  }
  void on_closed(const Status& reason) override {
    if (trips_.empty() && again_ < kPauses.size()) return (void)loop_.run_after(kPauses[again_++], [this] { connect(); });
    finish(error(ErrorKind::kPeerLost,
                 "{} takes connections but hangs up; it is no doctor: start 'paceline doctor --serve PORT' there ({})",
                 address_.text(), reason.message()));
  }

  transport::Transport& transport_;
  transport::Loop& loop_;
  transport::Address address_;
  EchoOptions options_;
  std::size_t again_ = 0;  // pauses made
  std::vector<std::byte> chunk_, pulled_;
  std::unique_ptr<Connection> connection_;
  TimePoint asked_at_, streaming_since_;
  Duration least_{};
  std::vector<Duration> trips_;
  std::uint64_t chunks_ = 0;
  EchoAnswer answer_;
  Status status_;
  bool finished_ = false;
};

}  // namespace

// One asker as the server sees it.
class EchoServer::Peer final : public transport::ConnectionHandler {
 public:
  Peer(EchoServer& server, std::uint64_t id, std::unique_ptr<Connection> connection)
      : server_(server), id_(id), connection_(std::move(connection)), place_(kChunk) {
    connection_->start(*this);
  }

 private:
  std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte>) override {
    return std::span(place_).first(std::min<std::size_t>(place_.size(), header.payload_bytes));
  }
  // One question at a time, as an asker asks; whoever does not wait for the answer is none.
  void on_frame(const transport::Frame& frame) override {
    if (frame.header.kind == FrameKind::kChunk) return;
    auto exchange = decode(frame.body);
    if (frame.header.kind != FrameKind::kHeartbeat || !exchange || question_) return connection_->close();
    exchange->came = wall_clock();
    exchange->release = server_.release_;
    connection_->admit();
    question_ = std::move(exchange);
    left_ = question_->wanted;
    answer();
  }
  // As much of the answer as may wait to be sent: the network sets the pace of the rest.
  void answer() {
    while (left_ > 0 && queued_ < kQueuedChunks) {
      const auto chunk = std::span(kGiven).first(std::min<std::size_t>(kChunk, static_cast<std::size_t>(left_)));
      left_ -= static_cast<std::int64_t>(chunk.size());
      ++queued_;
      connection_->send(wire::seal({.kind = FrameKind::kChunk, .sequence = ++chunks_}, {}, chunk), chunk, kOfChunk);
    }
    if (left_ > 0) return;
    question_->left = wall_clock();
    connection_->send(wire::seal({.kind = FrameKind::kHeartbeatReply}, encode(*question_), {}), {}, kOfAnswer);
    left_ = -1;  // said
  }
  void on_sent(std::uint64_t ticket) override {
    if (ticket == kOfAnswer) {
      question_.reset();
    } else if (--queued_; left_ > 0) {
      answer();
    }
  }
  void on_closed(const Status&) override {
    // Not now: this object is still running.
    server_.transport_.loop().post([&server = server_, id = id_] { server.peers_.erase(id); });
  }

  EchoServer& server_;
  std::uint64_t id_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::byte> place_;
  std::optional<Exchange> question_;  // being answered
  std::int64_t left_ = 0;             // bytes wanted that have not been sent
  int queued_ = 0;                    // chunks
  std::uint64_t chunks_ = 0;
};

EchoServer::EchoServer(transport::Transport& transport, std::string release)
    : transport_(transport), release_(std::move(release)) {}
EchoServer::~EchoServer() = default;

Result<transport::Address> EchoServer::start(const transport::Address& address) {
  PACELINE_ASSIGN_OR_RETURN(listener_, transport_.listen(address, {}, [this](std::unique_ptr<Connection> connection) {
    if (peers_.size() >= kMostAskers) peers_.erase(peers_.begin());  // whoever has had most time
    const std::uint64_t id = next_++;
    peers_[id] = std::make_unique<Peer>(*this, id, std::move(connection));
  }));
  return listener_->address();
}

Result<transport::Address> doctor_address(const std::string& text, const std::string& where) {
  const bool bare = text.find(':') == std::string::npos || (text.find(':') != text.rfind(':') && text.front() != '[');
  const auto address = transport::parse_address(bare ? transport::Address{text, kDoctorPort}.text() : text);
  if (text.empty() || !address.ok() || address->port == 0)
    return error(ErrorKind::kBadRequest, "{}: '{}' is no host; legal: HOST or HOST:PORT", where, text);
  return address;
}

Result<EchoAnswer> ask(const transport::Address& address, const EchoOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const auto transport, transport::open(address));
  Asker asker(*transport, address, options);
  asker.connect();
  transport->loop().run_after(options.deadline, [&] {
    asker.finish(error(ErrorKind::kDeadline, "{} did not answer within {} s", address.text(), seconds(options.deadline))
                     .because({"unreachable", ""}));
  });
  transport->loop().run();
  return asker.answer();
}

Result<EchoAnswer> ask_loopback(const EchoOptions& options) {
  const transport::Address loopback{"127.0.0.1", 0};
  PACELINE_ASSIGN_OR_RETURN(const auto transport, transport::open(loopback));
  EchoServer server(*transport, PACELINE_VERSION);
  PACELINE_ASSIGN_OR_RETURN(const transport::Address address, server.start(loopback));
  std::thread answering([&] { transport->loop().run(); });
  auto answer = ask(address, options);
  transport->loop().stop();
  answering.join();
  return answer;
}

}  // namespace paceline::cli
