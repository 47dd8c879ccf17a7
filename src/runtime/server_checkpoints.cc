#include "runtime/server_checkpoints.h"

#include <utility>

#include "runtime/saved_model.h"

namespace paceline::runtime {
namespace {

struct Copy {
  PartHead head;
  std::vector<float> numbers;  // of all arrays, one behind the other
};

// The server's parts, ascending.
std::vector<std::uint32_t> parts_of(const paramserver::ServerCore& core) {
  const scheduling::UnitPlan& plan = core.plan().units();
  std::vector<std::uint32_t> parts;
  for (const std::uint32_t unit : plan.of_server[static_cast<std::size_t>(core.rank().value)]) {
    for (std::uint32_t i = 0; i < plan.units[unit].parts; ++i) parts.push_back(plan.units[unit].first_part + i);
  }
  return parts;
}

Copy copy_of(const paramserver::ServerCore& core, Iteration iteration) {
  Copy copy;
  copy.head.role = "server";
  copy.head.rank = core.rank().value;
  copy.head.iteration = iteration;
  const paramserver::JobPlan& plan = core.plan();
  for (const std::uint32_t part : parts_of(core)) {
    const auto snapshot = core.export_part(part);
    SavedArray array;
    array.name = plan.table().tensors[plan.units().parts[part].tensor].name;
    array.offset = plan.units().parts[part].offset;
    array.elements = static_cast<std::int64_t>(snapshot.value.size());
    array.planes = static_cast<std::int64_t>(snapshot.state.size() / snapshot.value.size());
    array.steps = snapshot.steps;
    copy.head.arrays.push_back(std::move(array));
    copy.numbers.insert(copy.numbers.end(), snapshot.value.begin(), snapshot.value.end());
    copy.numbers.insert(copy.numbers.end(), snapshot.state.begin(), snapshot.state.end());
  }
  return copy;
}

PartSummary write(Files& files, const std::string& directory, Copy copy) {
  std::vector<std::span<const std::byte>> contents;
  auto rest = std::as_bytes(std::span<const float>(copy.numbers));
  for (const SavedArray& array : copy.head.arrays) {
    const auto bytes = static_cast<std::size_t>(array.elements * (1 + array.planes)) * sizeof(float);
    contents.push_back(rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  const std::string name = copy.head.file_name();
  const auto written = write_part(files, directory, std::move(copy.head), contents);
  return written.ok() ? *written : PartSummary{name, 0, 0, written.status().message()};
}

}  // namespace

ServerCheckpoints::ServerCheckpoints(Files& files, const JobSettings& settings, transport::Loop& loop,
                                     paramserver::ServerService& service,
                                     std::function<void(Iteration, const PartSummary&)> on_saved)
    : files_(files),
      directory_(settings.checkpoint),
      every_(settings.checkpoint_every),
      loop_(loop),
      service_(service),
      on_saved_(std::move(on_saved)),
      complete_(settings.resume_iteration),
      saved_(settings.resume_iteration) {}

ServerCheckpoints::~ServerCheckpoints() { *alive_ = false; }

void ServerCheckpoints::on_iteration_complete(Iteration iteration) {
  complete_ = iteration;
  if (every_ > 0 && iteration % every_ == 0) save();
}

void ServerCheckpoints::save() {
  saved_ = complete_;
  ++pending_;
  if (pending_ > 1) service_.hold_updates();
  auto copy = std::make_shared<Copy>(copy_of(service_.core(), complete_));
  thread_.run([this, copy, alive = alive_, iteration = complete_] {
    const PartSummary summary = write(files_, directory_, std::move(*copy));
    loop_.post([this, alive, iteration, summary] {
      if (*alive) written(iteration, summary);
    });
  });
}

void ServerCheckpoints::written(Iteration iteration, const PartSummary& summary) {
  if (--pending_ <= 1) service_.release_updates();
  on_saved_(iteration, summary);
  if (pending_ == 0 && done_) std::exchange(done_, nullptr)();
}

void ServerCheckpoints::finish(std::function<void()> done) {
  const bool has_units = !service_.core().plan().units().of_server[static_cast<std::size_t>(service_.core().rank().value)].empty();
  if (has_units && complete_ > saved_) save();
  if (pending_ == 0) return done();
  done_ = std::move(done);
}

Status restore_server(Files& files, const std::string& folder, paramserver::ServerCore& core) {
  PACELINE_ASSIGN_OR_RETURN(SavedModel model, SavedModel::open(files, folder));
  const paramserver::JobPlan& plan = core.plan();
  std::vector<float> value, state;
  for (const std::uint32_t part : parts_of(core)) {
    const auto own = core.export_part(part);
    value.resize(own.value.size());
    state.resize(own.state.size());
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t steps, model.read(plan.units().parts[part].offset, value, state));
    PACELINE_RETURN_IF_ERROR(core.import_part({part, value, state, plan.options().first - 1, steps}));
  }
  return {};
}

}  // namespace paceline::runtime
