#include "harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "transport/inproc/inproc_transport.h"
#include "transport/open/open.h"

namespace paceline::transport::testing {
namespace {

Backend opened(const std::string& name, const std::string& host, const OpenOptions& options) {
  return {name, [host, options] { return std::move(open({host, 0}, options)).value(); }, host};
}

// All connections of `inner` are for data.
class ForData final : public Transport {
 public:
  explicit ForData(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  Loop& loop() override { return inner_->loop(); }
  Result<std::unique_ptr<Listener>> listen(const Address& address, const ListenOptions& options, Accepted accepted) override {
    ListenOptions data = options;
    data.plane = Plane::kData;
    return inner_->listen(address, data, std::move(accepted));
  }
  void connect(const Address& address, const ConnectOptions& options, Connected connected) override {
    inner_->connect(address, {options.deadline, Plane::kData}, std::move(connected));
  }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace

Backend inproc_backend() {
  auto network = std::make_shared<InprocNetwork>();
  return {"inproc", [network] { return std::move(open({"node", 0}, {.network = network.get()})).value(); }, "node"};
}

Backend unix_backend() {
  struct Folder {
    ~Folder() {  // not what is in it: who listened there has removed that
      std::error_code failure;
      EXPECT_TRUE(std::filesystem::remove(path, failure)) << path << ": " << failure.message();
    }
    std::string path = std::filesystem::temp_directory_path() / "paceline-conformance-XXXXXX";
  };
  const auto folder = std::make_shared<Folder>();
  PACELINE_CHECK(::mkdtemp(folder->path.data()) != nullptr, "cannot make {}", folder->path);
  Backend backend = opened("unix", "unix:" + folder->path + "/socket", {});
  backend.make = [make = backend.make, folder] { return make(); };
  return backend;
}

Backend tcp_backend() { return opened("tcp", "127.0.0.1", {}); }
Backend tls_backend() { return opened("tls", "127.0.0.1", {.key = JobKey::draw()}); }
Backend clear_data_backend() {
  Backend backend = opened("clear_data", "127.0.0.1", {.key = JobKey::draw().leaving_data_clear()});
  backend.make = [make = backend.make] { return std::make_unique<ForData>(make()); };
  return backend;
}
Backend faultless_backend() { return opened("faultless", "127.0.0.1", {.faults = FaultOptions()}); }
Backend faultless_tls_backend() { return opened("faultless_tls", "127.0.0.1", {.key = JobKey::draw(), .faults = FaultOptions()}); }

std::string backend_name(const ::testing::TestParamInfo<MakeBackend>& info) { return info.param().name; }

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::size_t threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

LeakCheck::LeakCheck() {
  std::thread([] {}).join();  // the thread sanitizer starts a thread of its own with the first one
  descriptors_ = open_descriptors();
  threads_ = threads();
}

LeakCheck::~LeakCheck() {
  EXPECT_EQ(open_descriptors(), descriptors_) << "descriptors were leaked";
  // A joined thread leaves /proc a moment later.
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (threads() > threads_ && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_LE(threads(), threads_) << "threads were leaked";
}

void give_up(const std::string& on_what) {
  std::fprintf(stderr, "waited in vain for: %s\n", on_what.c_str());
  std::abort();
}

Rank::Rank(const Backend& backend) : transport_(backend.make()), thread_([this] { loop().run(); }) {}

Rank::~Rank() { stop(); }

void Rank::stop() {
  if (!thread_.joinable()) return;
  loop().stop();
  thread_.join();
}

void Rank::destroy_transport() { transport_.reset(); }

void Rank::on_loop(const std::function<void()>& work) {
  auto done = std::make_shared<std::promise<void>>();
  auto waiting = done->get_future();
  loop().post([&work, done] {
    work();
    done->set_value();
  });
  if (waiting.wait_for(kPatience) != std::future_status::ready) give_up("work posted to a loop");
}

void End::adopt(std::unique_ptr<Connection> adopted) { connection = std::move(adopted); }

void End::start() {
  rank_.on_loop([this] { connection->start(*this); });
}

void End::send_here(wire::FrameHeader header, std::vector<std::byte> body, std::vector<std::byte> payload, std::uint64_t ticket) {
  borrowed_.push_back(std::move(payload));
  connection->send(wire::seal(header, body, borrowed_.back()), borrowed_.back(), ticket);
}

void End::send(wire::FrameHeader header, std::vector<std::byte> body, std::vector<std::byte> payload, std::uint64_t ticket) {
  rank_.on_loop([&] { send_here(header, std::move(body), std::move(payload), ticket); });
}

void End::send_raw(wire::SealedHead head, std::vector<std::byte> payload, std::uint64_t ticket) {
  rank_.on_loop([&] {
    if (connection == nullptr) return;
    borrowed_.push_back(std::move(payload));
    connection->send(head, borrowed_.back(), ticket);
  });
}

void End::close() {
  rank_.on_loop([this] { connection->close(); });
}

void End::destroy() {
  rank_.on_loop([this] {
    connection.reset();
    borrowed_.clear();
  });
}

void End::record(const std::function<void()>& what) {
  const std::lock_guard lock(mutex_);
  what();
  changed_.notify_all();
}

void End::wait_until(const std::string& what, const std::function<bool(const End&)>& condition) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [&] { return condition(*this); })) give_up(what);
}

std::span<std::byte> End::on_head(const wire::FrameHeader& header, std::span<const std::byte>) {
  if (head_hook) return head_hook(header);
  place_ = std::vector<std::byte>(header.payload_bytes);  // a new place each time
  return place_;
}

void End::on_frame(const Frame& frame) {
  record([&] {
    received.push_back({frame.header,
                        {frame.body.begin(), frame.body.end()},
                        {frame.payload.begin(), frame.payload.end()},
                        frame.payload.data(),
                        place_.data()});
  });
  if (frame_hook) frame_hook(frame);
}

void End::on_sent(std::uint64_t ticket) {
  if (first_borrowed_ < borrowed_.size()) borrowed_[first_borrowed_++] = {};  // no longer needed: whoever still reads it is found
  record([&] { sent.push_back(ticket); });
  if (sent_hook) sent_hook(ticket);
}

void End::on_closed(const Status& status) {
  borrowed_.clear();
  place_ = {};
  record([&] {
    ++closed;
    reason = status;
  });
  if (closed_hook) closed_hook(status);
}

World::World(const Backend& backend, int ranks) : backend_(backend) {
  for (int i = 0; i < ranks; ++i) ranks_.push_back(std::make_unique<Rank>(backend));
}

World::~World() {
  stop();
  ends_.clear();
  listeners_.clear();
}

void World::stop() {
  for (const auto& rank : ranks_) rank->stop();
}

void World::destroy_transports() {
  for (const auto& rank : ranks_) rank->destroy_transport();
}

End& World::add(Rank& rank) {
  const std::lock_guard lock(mutex_);
  ends_.push_back(std::make_unique<End>(rank));
  return *ends_.back();
}

Address World::listen(int index, const ListenOptions& options, std::function<void(End&)> accepted) {
  Address address;
  Rank& listening = rank(index);
  listening.on_loop([&] {
    auto listener = listening.transport().listen({backend_.host, 0}, options,
                                                 [this, &listening, accepted](std::unique_ptr<Connection> connection) {
                                                   End& end = add(listening);
                                                   end.adopt(std::move(connection));
                                                   if (accepted) {
                                                     accepted(end);
                                                   } else {
                                                     end.connection->admit();
                                                   }
                                                   const std::lock_guard lock(mutex_);
                                                   accepted_.push_back(&end);
                                                   changed_.notify_all();
                                                 });
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    address = listener.value()->address();
    listeners_.push_back(std::move(listener).value());
  });
  return address;
}

Result<std::unique_ptr<Connection>> World::try_connect(int from, const Address& to, Duration deadline) {
  std::promise<Result<std::unique_ptr<Connection>>> promise;
  auto future = promise.get_future();
  rank(from).on_loop([&] {
    rank(from).transport().connect(
        to, deadline, [&promise](Result<std::unique_ptr<Connection>> result) { promise.set_value(std::move(result)); });
  });
  if (future.wait_for(kPatience) != std::future_status::ready) give_up("connect to " + to.text());
  return future.get();
}

End& World::connect(int from, const Address& to) {
  auto connection = try_connect(from, to);
  PACELINE_CHECK(connection.ok(), "{}", connection.status().message());
  End& end = add(rank(from));
  rank(from).on_loop([&] { end.adopt(std::move(connection).value()); });
  return end;
}

End& World::wait_accepted(std::size_t index) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [&] { return accepted_.size() > index; })) give_up("an accepted connection");
  return *accepted_[index];
}

std::size_t World::accepted() {
  const std::lock_guard lock(mutex_);
  return accepted_.size();
}

World::Pair World::pair(int listening, int connecting) {
  const std::size_t before = accepted();
  const Address address = listen(listening);
  End& connected = connect(connecting, address);
  return {wait_accepted(before), connected};
}

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; i += sizeof(std::uint64_t)) {
    const std::uint64_t eight = random();
    std::memcpy(bytes.data() + i, &eight, std::min(sizeof eight, count - i));
  }
  return bytes;
}

}  // namespace paceline::transport::testing
