#include "runtime/state_checkpoints.h"

#include <utility>

#include "runtime/saved_model.h"

namespace paceline::runtime {
namespace {

StateCopy copy_for(std::int32_t server) {
  StateCopy copy;
  copy.head.role = "server";
  copy.head.rank = server;
  return copy;
}

void add_part(StateCopy& copy, const paramserver::JobPlan& plan, std::uint32_t part, std::span<const float> value,
              std::span<const float> state, std::int64_t steps) {
  SavedArray array;
  array.name = plan.table().tensors[plan.units().parts[part].tensor].name;
  array.offset = plan.units().parts[part].offset;
  array.elements = static_cast<std::int64_t>(value.size());
  array.planes = static_cast<std::int64_t>(state.size() / value.size());
  array.steps = steps;
  copy.head.arrays.push_back(std::move(array));
  copy.numbers.insert(copy.numbers.end(), value.begin(), value.end());
  copy.numbers.insert(copy.numbers.end(), state.begin(), state.end());
}

// The server's parts, ascending.
std::vector<std::uint32_t> parts_of(const paramserver::Server& core) {
  const scheduling::UnitPlan& plan = core.plan().units();
  std::vector<std::uint32_t> parts;
  for (const std::uint32_t unit : plan.of_server[static_cast<std::size_t>(core.rank().value)]) {
    for (std::uint32_t i = 0; i < plan.units[unit].parts; ++i) parts.push_back(plan.units[unit].first_part + i);
  }
  return parts;
}

StateCopy copy_of(const paramserver::Server& core) {
  StateCopy copy = copy_for(core.rank().value);
  for (const std::uint32_t part : parts_of(core)) {
    const auto snapshot = core.export_part(part);
    add_part(copy, core.plan(), part, snapshot.value, snapshot.state, snapshot.steps);
  }
  return copy;
}

StateCopy copy_of(const collectives::CollectiveCarrier& carrier) {
  StateCopy copy = copy_for(0);
  const auto& parts = carrier.plan().units().parts;
  for (std::uint32_t part = 0; part < parts.size(); ++part) {
    const auto own = carrier.shard().save(part);
    add_part(copy, carrier.plan(), part, carrier.memory().part_parameters(part), own.state, own.steps);
  }
  return copy;
}

PartSummary write(Files& files, const std::string& directory, const CheckpointSeal& seal, StateCopy copy) {
  std::vector<std::span<const std::byte>> contents;
  auto rest = std::as_bytes(std::span<const float>(copy.numbers));
  for (const SavedArray& array : copy.head.arrays) {
    const auto bytes = static_cast<std::size_t>(array.elements * (1 + array.planes)) * sizeof(float);
    contents.push_back(rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  const std::string name = copy.head.file_name();
  const auto written = write_part(files, directory, std::move(copy.head), contents, seal);
  return written.ok() ? *written : PartSummary{.name = name, .failure = written.status().message()};
}

}  // namespace

StateSource source_of(paramserver::ServerService& service) {
  const paramserver::Server& core = service.core();
  return {[&core] { return copy_of(core); }, [&service] { service.hold_updates(); }, [&service] { service.release_updates(); },
          !parts_of(core).empty()};
}

StateSource source_of(collectives::CollectiveCarrier& carrier) {
  return {[&carrier] { return copy_of(carrier); }, [&carrier] { carrier.hold_updates(); },
          [&carrier] { carrier.release_updates(); }, !carrier.plan().units().parts.empty()};
}

StateCheckpoints::StateCheckpoints(Files& files, const job::JobSpec& settings, CheckpointSeal seal, transport::Loop& loop,
                                   StateSource source, std::function<void(Iteration, const PartSummary&)> on_saved)
    : files_(files),
      directory_(settings.saving.directory),
      every_(settings.saving.every),
      seal_(std::move(seal)),
      loop_(loop),
      source_(std::move(source)),
      on_saved_(std::move(on_saved)),
      complete_(settings.saving.iteration),
      saved_(settings.saving.iteration) {}

StateCheckpoints::~StateCheckpoints() { *alive_ = false; }

void StateCheckpoints::on_iteration_complete(Iteration iteration) {
  complete_ = iteration;
  if (every_ > 0 && iteration % every_ == 0) save();
}

void StateCheckpoints::save() {
  saved_ = complete_;
  ++pending_;
  if (pending_ > 1) source_.hold();
  auto copy = std::make_shared<StateCopy>(source_.copy());
  copy->head.iteration = complete_;
  thread_.run([this, copy, alive = alive_, iteration = complete_] {
    const PartSummary summary = write(files_, directory_, seal_, std::move(*copy));
    loop_.post([this, alive, iteration, summary] {
      if (*alive) written(iteration, summary);
    });
  });
}

void StateCheckpoints::written(Iteration iteration, const PartSummary& summary) {
  if (--pending_ <= 1) source_.release();
  on_saved_(iteration, summary);
  if (pending_ == 0 && done_) std::exchange(done_, nullptr)();
}

void StateCheckpoints::finish(std::function<void()> done) {
  if (source_.has_state && complete_ > saved_) save();
  if (pending_ == 0) return done();
  done_ = std::move(done);
}

Status restore_state(Files& files, const std::string& folder, const CheckpointSeal& seal, paramserver::Server& core) {
  PACELINE_ASSIGN_OR_RETURN(SavedModel model, SavedModel::open(files, folder, seal));
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

// The values come from rank 0, as at every job's start.
Status restore_state(Files& files, const std::string& folder, const CheckpointSeal& seal, collectives::CollectiveCarrier& carrier) {
  PACELINE_ASSIGN_OR_RETURN(SavedModel model, SavedModel::open(files, folder, seal));
  const auto& parts = carrier.plan().units().parts;
  std::vector<float> value, state;
  for (std::uint32_t part = 0; part < parts.size(); ++part) {
    value.resize(static_cast<std::size_t>(parts[part].elements));
    state.resize(carrier.shard().save(part).state.size());
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t steps, model.read(parts[part].offset, value, state));
    PACELINE_RETURN_IF_ERROR(carrier.shard().load(part, {state, steps}));
  }
  return {};
}

}  // namespace paceline::runtime
