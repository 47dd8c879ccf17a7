#include "runtime/saved_state.h"

#include <utility>
#include <vector>

#include "checkpoint/saved_model.h"

namespace paceline::runtime {
namespace {

checkpoint::StateCopy copy_for(std::int32_t server) {
  checkpoint::StateCopy copy;
  copy.head.role = "server";
  copy.head.rank = server;
  return copy;
}

void add_part(checkpoint::StateCopy& copy, const job::Plan& plan, std::uint32_t part, std::span<const float> value,
              std::span<const float> state, std::int64_t steps) {
  checkpoint::SavedArray array;
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

checkpoint::StateCopy copy_of(const paramserver::Server& core) {
  checkpoint::StateCopy copy = copy_for(core.rank().value);
  for (const std::uint32_t part : parts_of(core)) {
    const auto snapshot = core.export_part(part);
    add_part(copy, core.plan(), part, snapshot.value, snapshot.state, snapshot.steps);
  }
  return copy;
}

checkpoint::StateCopy copy_of(const collectives::CollectiveCarrier& carrier) {
  checkpoint::StateCopy copy = copy_for(0);
  const auto& parts = carrier.plan().units().parts;
  for (std::uint32_t part = 0; part < parts.size(); ++part) {
    const auto own = carrier.shard().save(part);
    add_part(copy, carrier.plan(), part, carrier.memory().part_parameters(part), own.state, own.steps);
  }
  return copy;
}

}  // namespace

checkpoint::StateSource source_of(paramserver::ServerService& service) {
  const paramserver::Server& core = service.core();
  return {[&core] { return copy_of(core); }, [&service] { service.hold_updates(); }, [&service] { service.release_updates(); },
          !parts_of(core).empty()};
}

checkpoint::StateSource source_of(collectives::CollectiveCarrier& carrier) {
  return {[&carrier] { return copy_of(carrier); }, [&carrier] { carrier.hold_updates(); },
          [&carrier] { carrier.release_updates(); }, !carrier.plan().units().parts.empty()};
}

Status restore_state(Files& files, const std::string& folder, const checkpoint::CheckpointSeal& seal, paramserver::Server& core) {
  PACELINE_ASSIGN_OR_RETURN(checkpoint::SavedModel model, checkpoint::SavedModel::open(files, folder, seal));
  const job::Plan& plan = core.plan();
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
Status restore_state(Files& files, const std::string& folder, const checkpoint::CheckpointSeal& seal,
                     collectives::CollectiveCarrier& carrier) {
  PACELINE_ASSIGN_OR_RETURN(checkpoint::SavedModel model, checkpoint::SavedModel::open(files, folder, seal));
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
