#include "bench/transport/joining.h"

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "job/option.h"
#include "runtime/coordinator.h"
#include "runtime/server_process.h"
#include "runtime/worker_process.h"
#include "transport/open/open.h"

namespace paceline::bench {
namespace {

constexpr Duration kPatience = std::chrono::minutes(1);
const transport::Address kPlace{"127.0.0.1", 0};

// A transport whose loop runs on a thread until this is destroyed; what lives on it is destroyed after that.
class Running {
 public:
  explicit Running(std::unique_ptr<transport::Transport> transport)
      : transport_(std::move(transport)), thread_([this] { transport_->loop().run(); }) {}
  ~Running() { stop(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void stop() {
    if (!thread_.joinable()) return;
    transport_->loop().stop();
    thread_.join();
  }
  transport::Transport& transport() { return *transport_; }
  // Runs `work` on the loop and waits for it.
  template <typename Work>
  auto on_loop(Work work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto done = task.get_future();
    transport_->loop().post([&task] { task(); });
    return done.get();
  }

 private:
  std::unique_ptr<transport::Transport> transport_;
  std::thread thread_;
};

wire::TensorTable small_table() {
  return {.tensors = {{.name = "weight", .dtype = "float32", .shape = {64}}}, .layers = {"layer"}};
}

}  // namespace

Result<Duration> join_many(int workers, const std::optional<JobKey>& key) {
  const auto open = [&key] { return transport::open(kPlace, {.key = key}); };
  PACELINE_ASSIGN_OR_RETURN(auto coordinators, open());
  PACELINE_ASSIGN_OR_RETURN(auto servers, open());
  std::unique_ptr<runtime::Coordinator> coordinator;
  std::unique_ptr<runtime::ServerProcess> server;
  Running coordinating(std::move(coordinators)), serving(std::move(servers));

  runtime::CoordinatorOptions about;
  about.workers = workers;
  about.job = draw_number();
  PACELINE_ASSIGN_OR_RETURN(const transport::Address address, coordinating.on_loop([&] {
    coordinator = std::make_unique<runtime::Coordinator>(
        coordinating.transport(), about, runtime::CoordinatorCallbacks{.on_ended = [](const auto&, const auto&) {}});
    return coordinator->start();
  }));
  runtime::MemberOptions member;
  member.coordinator = address;
  member.seed = draw_number();
  PACELINE_RETURN_IF_ERROR(serving.on_loop([&] {
    server = std::make_unique<runtime::ServerProcess>(serving.transport(), member, [](const wire::Stop&) {});
    return server->start();
  }));

  member.table = small_table();
  member.settings = to_settings(job::JobSpec());
  std::vector<std::vector<float>> values(static_cast<std::size_t>(workers), std::vector<float>(64)), gradients = values;
  std::vector<std::unique_ptr<runtime::WorkerProcess>> processes;
  const SystemClock clock;
  const TimePoint start = clock.now();
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    member.seed = draw_number();
    PACELINE_ASSIGN_OR_RETURN(auto process, runtime::WorkerProcess::begin(open, member, values[rank], gradients[rank]));
    process->shorten_farewell(Duration{0});
    processes.push_back(std::move(process));
  }
  for (const auto& process : processes) {
    PACELINE_ASSIGN_OR_RETURN(const bool joined, process->joined(kPatience));
    if (!joined) return error(ErrorKind::kDeadline, "a worker had not joined after {} s", seconds(kPatience));
  }
  const Duration taken = clock.now() - start;
  processes.clear();
  serving.stop();
  coordinating.stop();
  return taken;
}

}  // namespace paceline::bench
