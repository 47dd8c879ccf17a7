#include "paramserver/core/server_books.h"

#include <utility>

namespace paceline::paramserver {

ServerBooks::ServerBooks(std::shared_ptr<const job::Plan> plan, Rank server) : plan_(std::move(plan)), server_(server) {
  const Iteration first = plan_->options().first;
  workers_.resize(static_cast<std::size_t>(plan_->options().workers));
  for (Worker& worker : workers_) worker.first = worker.current = worker.started = first;
  units_.resize(plan_->units().of_server[static_cast<std::size_t>(server_.value)].size());
  for (Unit& unit : units_) unit.version = first - 1;
  flags_.assign(units_.size() * workers_.size(), 0);
}

Status ServerBooks::check(Rank worker, std::uint32_t unit) const {
  if (!exists(worker))
    return error(ErrorKind::kBadRequest, "a message came from worker {}; the job has {} workers", worker.value, workers());
  if (!at(worker).live) return error(ErrorKind::kBadRequest, "a message came from worker {}, which has left the job", worker.value);
  if (unit >= plan_->units().units.size()) {
    return error(ErrorKind::kBadRequest, "worker {} sent a message about unit {}; the job has {} units", worker.value, unit,
                 plan_->units().units.size());
  }
  if (const Rank home = plan_->units().units[unit].server; home != server_) {
    return error(ErrorKind::kBadRequest, "worker {} sent a message about unit {} to server {}; the unit lives on server {}",
                 worker.value, unit, server_.value, home.value);
  }
  return {};
}

std::string ServerBooks::unit_text(std::uint32_t unit) const {
  const auto& units = plan_->units();
  return fmt::format("{} (tensor \"{}\", unit {})", plan_->layer_text(units.units[unit].layer),
                     plan_->table().tensors[units.first_tensor(unit)].name, unit);
}

}  // namespace paceline::paramserver
