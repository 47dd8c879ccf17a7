#include "transport/inproc/inproc_transport.h"

#include <condition_variable>
#include <map>
#include <mutex>

#include "transport/inproc/pipe.h"

namespace paceline::transport {
namespace {

class InprocLoop final : public LoopCore {
 public:
  void run() override {
    while (!stop_asked()) {
      serve();
      wait();
    }
    forget_stop();
  }

 private:
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    news_.notify_one();
  }
  void on_earlier_timer(TimePoint) override {}  // wait() looks afresh

  void wait() {
    const auto due = next_timer();
    std::unique_lock lock(mutex_);
    const auto woken = [this] { return woken_; };
    if (due) {
      news_.wait_until(lock, *due, woken);
    } else {
      news_.wait(lock, woken);
    }
    woken_ = false;
  }

  std::mutex mutex_;
  std::condition_variable news_;
  bool woken_ = false;
};

class InprocStream final : public Stream {
 public:
  InprocStream(LoopCore& loop, std::string peer, PipeEnd end)
      : Stream(loop, {.peer = std::move(peer), .local = {"inproc", 0}}), end_(std::move(end)) {}

  static std::shared_ptr<InprocStream> make(LoopCore& loop, std::string peer, PipeEnd end) {
    auto stream = std::make_shared<InprocStream>(loop, std::move(peer), std::move(end));
    stream->ready_ = loop.make_signal([weak = std::weak_ptr(stream)] {
      if (const auto self = weak.lock()) self->on_ready();
    });
    return stream;
  }

 private:
  Moved read_some(std::span<const iovec> spaces) override { return end_.in().read(spaces); }
  Moved write_some(std::span<const iovec> pieces) override { return end_.out().write(pieces); }
  void want_read(std::size_t) override {
    read_wanted_ = true;
    end_.in().signal_readable(*ready_);
  }
  void want_write() override {
    write_wanted_ = true;
    end_.out().signal_writable(*ready_);
  }
  void close_stream() override { end_.close(); }

  // One signal for both directions: whichever is not ready yet says so and waits again.
  void on_ready() {
    if (open() && std::exchange(write_wanted_, false)) on_writable();
    if (open() && std::exchange(read_wanted_, false)) on_readable();
  }

  PipeEnd end_;
  std::unique_ptr<Signal> ready_;
  bool read_wanted_ = false;
  bool write_wanted_ = false;
};

// Known to the network while it listens. Its loop's thread uses all but `loop`.
struct Listening {
  InprocLoop* loop;
  ListenOptions options;
  Transport::Accepted accepted;
  std::shared_ptr<StrangerCount> strangers = std::make_shared<StrangerCount>();
  bool alive = true;

  void on_connect(std::string peer, PipeEnd end) {
    if (!alive || strangers->now >= options.strangers) return;  // dropping the end closes it
    auto stream = InprocStream::make(*loop, std::move(peer), std::move(end));
    stream->become_stranger(strangers, options.stranger_deadline);
    accepted(std::make_unique<StreamConnection>(std::move(stream)));
  }
};

}  // namespace

struct InprocNetwork::State {
  std::mutex mutex;  // guards all; held while posting to a listener's loop, so that the loop is there
  std::map<std::pair<std::string, std::uint16_t>, std::shared_ptr<Listening>> listening;
  std::uint16_t last_port = 0;
  std::uint64_t connections = 0;

  Result<Address> add(const Address& wanted, const std::shared_ptr<Listening>& listener) {
    const std::lock_guard lock(mutex);
    Address address = wanted;
    for (int tries = 0; address.port == 0 || (wanted.port == 0 && listening.contains({address.host, address.port})); ++tries) {
      if (tries > 65536)
        return error(ErrorKind::kIo, "cannot listen on {}: every port is in use", wanted.text()).because({"port-in-use", ""});
      address.port = ++last_port;
    }
    if (!listening.try_emplace({address.host, address.port}, listener).second) {
      return error(ErrorKind::kIo, "cannot listen on {}: the port is in use", address.text()).because({"port-in-use", ""});
    }
    return address;
  }

  void remove(const Address& address) {
    const std::lock_guard lock(mutex);
    listening.erase({address.host, address.port});
  }

  // Hands one end to the listener there and returns the other; nothing if nobody listens.
  std::optional<PipeEnd> connect(const Address& address) {
    const std::lock_guard lock(mutex);
    const auto found = listening.find({address.host, address.port});
    if (found == listening.end()) return std::nullopt;
    const auto there = std::make_shared<Pipe>();
    const auto back = std::make_shared<Pipe>();
    auto end = std::make_shared<PipeEnd>(there, back);
    found->second->loop->post([listener = found->second, end, number = ++connections] {
      listener->on_connect(fmt::format("inproc:{}", number), std::move(*end));
    });
    return std::make_optional<PipeEnd>(back, there);
  }
};

namespace {

class InprocListener final : public Listener, public LoopMember {
 public:
  InprocListener(std::shared_ptr<InprocNetwork::State> network, std::shared_ptr<Listening> listening, Address address)
      : network_(std::move(network)), listening_(std::move(listening)), address_(std::move(address)) {
    listening_->loop->add_member(*this);
  }
  ~InprocListener() override {
    if (!listening_->alive) return;
    listening_->loop->remove_member(*this);
    end();
  }
  InprocListener(const InprocListener&) = delete;
  InprocListener& operator=(const InprocListener&) = delete;

  Address address() const override { return address_; }
  void on_loop_gone() override { end(); }
  void on_turn_end() override {}

 private:
  void end() {
    network_->remove(address_);
    listening_->alive = false;
  }

  std::shared_ptr<InprocNetwork::State> network_;
  std::shared_ptr<Listening> listening_;
  Address address_;
};

class InprocTransport final : public Transport {
 public:
  explicit InprocTransport(std::shared_ptr<InprocNetwork::State> network) : network_(std::move(network)) {}
  ~InprocTransport() override { loop_.shut_down(); }
  InprocTransport(const InprocTransport&) = delete;
  InprocTransport& operator=(const InprocTransport&) = delete;

  Loop& loop() override { return loop_; }

  Result<std::unique_ptr<Listener>> listen(const Address& address, const ListenOptions& options, Accepted accepted) override {
    auto listening = std::make_shared<Listening>(Listening{.loop = &loop_, .options = options, .accepted = std::move(accepted)});
    PACELINE_ASSIGN_OR_RETURN(Address bound, network_->add(address, listening));
    return std::unique_ptr<Listener>(std::make_unique<InprocListener>(network_, std::move(listening), std::move(bound)));
  }

  void connect(const Address& address, const ConnectOptions& options, Connected connected) override {
    if (options.deadline <= Duration::zero()) {
      loop_.post([connected = std::move(connected), address] {
        connected(error(ErrorKind::kDeadline, "no time was left to connect to {}", address.text()));
      });
      return;
    }
    auto end = network_->connect(address);
    if (!end) {
      loop_.post([connected = std::move(connected), address] {
        connected(error(ErrorKind::kPeerLost, "cannot connect to {}: nobody listens there", address.text())
                      .because({.code = kRefused, .subject = {}}));
      });
      return;
    }
    auto stream = InprocStream::make(loop_, address.text(), std::move(*end));
    stream->become_admitted();
    loop_.post([connected = std::move(connected), stream = std::move(stream)] {
      connected(std::unique_ptr<Connection>(std::make_unique<StreamConnection>(stream)));
    });
  }

 private:
  std::shared_ptr<InprocNetwork::State> network_;
  InprocLoop loop_;
};

}  // namespace

InprocNetwork::InprocNetwork() : state_(std::make_shared<State>()) {}
InprocNetwork::~InprocNetwork() = default;

std::unique_ptr<Transport> InprocNetwork::make_transport() { return std::make_unique<InprocTransport>(state_); }

}  // namespace paceline::transport
