#include "runtime/saved_state.h"

#include <utility>
#include <vector>

#include "checkpoint/saved_model.h"

namespace paceline::runtime {
namespace {

// Where a part lies, which stays there while updates are held.
struct HeldPart {
  std::uint32_t part = 0;
  std::span<const float> value, state;
  std::int64_t steps = 0;
};

checkpoint::StateCopy copy_of(const job::Plan& plan, std::int32_t server, const std::vector<HeldPart>& parts) {
  checkpoint::StateCopy copy;
  copy.head.role = "server";
  copy.head.rank = server;
  for (const HeldPart& held : parts) {
    checkpoint::SavedArray array;
    array.name = plan.table().tensors[plan.units().parts[held.part].tensor].name;
    array.offset = plan.units().parts[held.part].offset;
    array.elements = static_cast<std::int64_t>(held.value.size());
    array.planes = static_cast<std::int64_t>(held.state.size() / held.value.size());
    array.steps = held.steps;
    copy.head.arrays.push_back(std::move(array));
    copy.numbers.insert(copy.numbers.end(), held.value.begin(), held.value.end());
    copy.numbers.insert(copy.numbers.end(), held.state.begin(), held.state.end());
  }
  return copy;
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

std::vector<HeldPart> held(const paramserver::Server& core) {
  std::vector<HeldPart> parts;
  for (const std::uint32_t part : parts_of(core)) {
    const auto snapshot = core.export_part(part);
    parts.push_back({part, snapshot.value, snapshot.state, snapshot.steps});
  }
  return parts;
}

std::vector<HeldPart> held(const collectives::CollectiveCarrier& carrier) {
  std::vector<HeldPart> parts;
  const auto count = static_cast<std::uint32_t>(carrier.plan().units().parts.size());
  for (std::uint32_t part = 0; part < count; ++part) {
    const auto own = carrier.shard().save(part);
    parts.push_back({part, carrier.memory().part_parameters(part), own.state, own.steps});
  }
  return parts;
}

}  // namespace

// Where the parts lie is looked up on the loop: meanwhile the loop goes on, and may make room for more of them elsewhere.
checkpoint::StateSource source_of(paramserver::ServerService& service) {
  const paramserver::Server& core = service.core();
  return {.hold =
              [&service, &core] {
                service.hold_updates();
                return [&core, parts = held(core)] { return copy_of(core.plan(), core.rank().value, parts); };
              },
          .release = [&service] { service.release_updates(); },
          .has_state = !parts_of(core).empty()};
}

checkpoint::StateSource source_of(collectives::CollectiveCarrier& carrier) {
  return {.hold =
              [&carrier] {
                carrier.hold_updates();
                return [&carrier, parts = held(carrier)] { return copy_of(carrier.plan(), 0, parts); };
              },
          .release = [&carrier] { carrier.release_updates(); },
          .has_state = !carrier.plan().units().parts.empty()};
}

Status restore_state(Files& files, const job::Saving& saving, const checkpoint::CheckpointSeal& seal, paramserver::Server& core) {
  PACELINE_ASSIGN_OR_RETURN(checkpoint::SavedModel model, checkpoint::SavedModel::open(files, saving, seal));
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
Status restore_state(Files& files, const job::Saving& saving, const checkpoint::CheckpointSeal& seal,
                     collectives::CollectiveCarrier& carrier) {
  PACELINE_ASSIGN_OR_RETURN(checkpoint::SavedModel model, checkpoint::SavedModel::open(files, saving, seal));
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
