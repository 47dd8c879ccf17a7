#include "bench/transport/joining.h"

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "job/option.h"
#include "runtime/coordinator.h"
#include "runtime/node.h"
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

// The loops stand still before what lives on them goes, and go after it.
struct Job {
  Job(std::unique_ptr<transport::Transport> of_coordinator, std::unique_ptr<transport::Transport> of_server)
      : coordinating(std::move(of_coordinator)), serving(std::move(of_server)) {}
  ~Job() {
    serving.stop();
    coordinating.stop();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Running coordinating, serving;
  std::unique_ptr<runtime::Coordinator> coordinator;
  std::unique_ptr<runtime::Node> server;
};

wire::TensorTable small_table() {
  return {.tensors = {{.name = "weight", .dtype = "float32", .shape = {64}}}, .layers = {"layer"}};
}

}  // namespace

Result<Duration> join_many(int workers, const std::optional<JobKey>& key) {
  const auto open = [&key] { return transport::open(kPlace, {.key = key}); };
  PACELINE_ASSIGN_OR_RETURN(auto coordinators, open());
  PACELINE_ASSIGN_OR_RETURN(auto servers, open());
  Job job(std::move(coordinators), std::move(servers));

  runtime::CoordinatorOptions about;
  about.workers = workers;
  about.job = draw_number();
  PACELINE_ASSIGN_OR_RETURN(const transport::Address address, job.coordinating.on_loop([&] {
    job.coordinator = std::make_unique<runtime::Coordinator>(
        job.coordinating.transport(), about, runtime::CoordinatorCallbacks{.on_ended = [](const auto&, const auto&) {}});
    return job.coordinator->start();
  }));
  runtime::MemberOptions member;
  member.coordinator = address;
  member.seed = draw_number();
  PACELINE_RETURN_IF_ERROR(job.serving.on_loop([&] {
    job.server = runtime::make_server(job.serving.transport(), member, [](const wire::Stop&) {});
    return job.server->start();
  }));

  member.table = small_table();
  member.settings = to_settings(paceline::job::JobSpec());
  std::vector<std::vector<float>> values(static_cast<std::size_t>(workers), std::vector<float>(64)), gradients = values;
  std::vector<std::unique_ptr<runtime::WorkerProcess>> processes;
  const SystemClock clock;
  const TimePoint start = clock.now();
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    member.seed = draw_number();
    member.wanted_rank = static_cast<std::int32_t>(rank);  // rank 0 gives the values and is asked first
    PACELINE_ASSIGN_OR_RETURN(auto process, runtime::WorkerProcess::begin(open, member, values[rank], gradients[rank]));
    process->shorten_farewell(Duration{0});
    processes.push_back(std::move(process));
  }
  for (const auto& process : processes) {
    PACELINE_ASSIGN_OR_RETURN(const bool joined, process->joined(kPatience));
    if (!joined) return error(ErrorKind::kDeadline, "a worker had not joined after {} s", seconds(kPatience));
  }
  const Duration taken = clock.now() - start;
  return taken;
}

}  // namespace paceline::bench
