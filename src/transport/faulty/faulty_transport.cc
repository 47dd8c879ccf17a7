#include "transport/faulty/faulty_transport.h"

#include <list>

#include "transport/faulty/faulty_stream.h"

namespace paceline::transport {
namespace {

class FaultyConnection final : public Connection {
 public:
  explicit FaultyConnection(std::shared_ptr<FaultyStream> stream) : stream_(std::move(stream)) {}
  ~FaultyConnection() override { stream_->abandon(); }
  FaultyConnection(const FaultyConnection&) = delete;
  FaultyConnection& operator=(const FaultyConnection&) = delete;

  void start(ConnectionHandler& handler) override { stream_->start(handler); }
  void send(const wire::SealedHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override {
    stream_->send(head, payload, ticket);
  }
  void admit() override { stream_->admit(); }
  void close() override { stream_->close(); }
  const Ends& ends() const override { return stream_->ends(); }

 private:
  std::shared_ptr<FaultyStream> stream_;
};

// A second connection to the same place: says nothing and accepts nothing until it is closed.
class Duplicate final : public ConnectionHandler {
 public:
  explicit Duplicate(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
  void start(std::function<void()> on_end) {
    on_end_ = std::move(on_end);
    connection_->start(*this);
  }

 private:
  std::span<std::byte> on_head(const wire::FrameHeader&, std::span<const std::byte>) override { return {}; }
  void on_frame(const Frame&) override {}
  void on_sent(std::uint64_t) override {}
  void on_closed(const Status&) override { std::exchange(on_end_, nullptr)(); }

  std::unique_ptr<Connection> connection_;
  std::function<void()> on_end_;
};

class Faulty final : public FaultyTransport {
 public:
  Faulty(std::unique_ptr<Transport> inner, const FaultOptions& options)
      : inner_(std::move(inner)), plan_(std::make_shared<FaultPlan>(options)) {}
  ~Faulty() override { plan_->alive = false; }
  Faulty(const Faulty&) = delete;
  Faulty& operator=(const Faulty&) = delete;

  Loop& loop() override { return inner_->loop(); }

  Result<std::unique_ptr<Listener>> listen(const Address& address, const ListenOptions& options, Accepted accepted) override {
    return inner_->listen(address, options, [this, accepted = std::move(accepted)](std::unique_ptr<Connection> connection) {
      accepted(wrap(std::move(connection)));
    });
  }

  void connect(const Address& address, const ConnectOptions& options, Connected connected) override {
    inner_->connect(address, options, [this, connected = std::move(connected)](Result<std::unique_ptr<Connection>> result) {
      if (!result.ok()) return connected(result.status());
      connected(wrap(std::move(result).value()));
    });
    if (!plan_->draw_duplicate_connect()) return;
    inner_->connect(address, options, [this](Result<std::unique_ptr<Connection>> result) {
      if (!result.ok()) return;
      plan_->counters.duplicate_connects.fetch_add(1);
      const auto place = duplicates_.insert(duplicates_.end(), std::make_unique<Duplicate>(std::move(result).value()));
      (*place)->start([this, place] { duplicates_.erase(place); });
    });
  }

  FaultCounts counts() const override {
    const auto& counters = plan_->counters;
    return {.delays = counters.delays,
            .cuts = counters.cuts,
            .corruptions = counters.corruptions,
            .reorderings = counters.reorderings,
            .duplicate_connects = counters.duplicate_connects};
  }

 private:
  std::unique_ptr<Connection> wrap(std::unique_ptr<Connection> connection) {
    return std::make_unique<FaultyConnection>(std::make_shared<FaultyStream>(plan_, inner_->loop(), std::move(connection)));
  }

  std::unique_ptr<Transport> inner_;
  std::shared_ptr<FaultPlan> plan_;
  std::list<std::unique_ptr<Duplicate>> duplicates_;  // destroyed before the transport they belong to
};

}  // namespace

std::unique_ptr<FaultyTransport> make_faulty_transport(std::unique_ptr<Transport> inner, const FaultOptions& options) {
  return std::make_unique<Faulty>(std::move(inner), options);
}

}  // namespace paceline::transport
