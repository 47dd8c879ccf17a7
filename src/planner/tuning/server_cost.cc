#include "planner/tuning/server_cost.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "job/make_plan.h"
#include "paramserver/core/server.h"

namespace paceline::tuning {
namespace {

constexpr std::int64_t kElements = 50'000;  // one slice
constexpr Iteration kIterations = 8;
constexpr std::uint32_t kUnit = 0;

// What of the settings the update of a unit follows from. The one unit is all that clipping waits for.
job::JobSpec updates_of(const job::JobSpec& settings) {
  job::JobSpec updates;
  updates.schedule.name = "slicing";  // every value goes back unasked, as the next push requires
  updates.update = settings.update;
  updates.learning_rate = settings.learning_rate;
  updates.update.told_rates = false;  // nobody tells any here, and a step costs as much
  updates.wire = settings.wire;
  return updates;
}

// One unit of one server that all workers push to.
class Server {
 public:
  static Result<Server> make(const job::JobSpec& settings, std::int32_t workers) {
    wire::TensorTable table;
    table.layers = {"measured"};
    table.tensors = {{"measured", "float32", {kElements}, Layer{0}, 0}};
    PACELINE_ASSIGN_OR_RETURN(const auto plan, job::make_plan(updates_of(settings), table, workers, 1, 1));
    PACELINE_ASSIGN_OR_RETURN(auto core, paramserver::Server::make(plan, Rank{0}));
    return Server(plan, std::move(core));
  }

  Status begin() {
    constexpr std::uint64_t kBytes = kElements * sizeof(float);  // initial values are never narrow
    const wire::Initial initial{.unit = kUnit};
    PACELINE_RETURN_IF_ERROR(core_->on_begin(Rank{0}, initial, kBytes).status());
    PACELINE_RETURN_IF_ERROR(core_->on(Rank{0}, initial, clock_.now(), leaving_));
    receive();
    return {};
  }

  // How long all pushes of an iteration take.
  Result<Duration> iterate(Iteration iteration) {
    const wire::Push push{.unit = kUnit, .iteration = iteration};
    for (std::int32_t rank = 0; rank < plan_->options().workers; ++rank) {
      PACELINE_ASSIGN_OR_RETURN(const auto place, core_->on_begin(Rank{rank}, push, plan_->payload_bytes(kUnit)));
      std::ranges::fill(place, std::byte{0});
    }
    const TimePoint began = clock_.now();
    for (std::int32_t rank = 0; rank < plan_->options().workers; ++rank)
      PACELINE_RETURN_IF_ERROR(core_->on(Rank{rank}, push, began, leaving_));
    const Duration took = clock_.now() - began;
    receive();
    return took;
  }

 private:
  Server(std::shared_ptr<const job::Plan> plan, std::unique_ptr<paramserver::Server> core)
      : plan_(std::move(plan)), core_(std::move(core)) {}

  // The workers have got what was sent.
  void receive() {
    for (const paramserver::Leaving& left : std::exchange(leaving_, {})) {
      if (std::holds_alternative<wire::Value>(left.message)) core_->on_delivered(left.sent.ticket);
    }
  }

  SystemClock clock_;
  std::shared_ptr<const job::Plan> plan_;
  std::unique_ptr<paramserver::Server> core_;
  std::vector<paramserver::Leaving> leaving_;
};

}  // namespace

Result<double> measured_server_cost(const job::JobSpec& settings, std::int32_t workers) {
  PACELINE_ASSIGN_OR_RETURN(Server server, Server::make(settings, workers));
  PACELINE_RETURN_IF_ERROR(server.begin());
  Duration least = Duration::max();
  for (Iteration iteration = 1; iteration <= kIterations; ++iteration) {
    PACELINE_ASSIGN_OR_RETURN(const Duration took, server.iterate(iteration));
    least = std::min(least, took);
  }
  return seconds(least) / static_cast<double>(workers) / static_cast<double>(kElements * std::int64_t{sizeof(float)});
}

}  // namespace paceline::tuning
