// The messages of a stepped job, and its servers.
#include "paramserver/core/system_testing.h"

namespace paceline::paramserver::testing {
namespace {

bool goes_to_worker(const wire::Message& message) {
  const wire::Channel channel = channel_of(message);
  return channel == wire::Channel::kValues || channel == wire::Channel::kPace;
}

wire::Values values_of(const wire::Message& message) {
  if (const auto* value = std::get_if<wire::Value>(&message)) return as_values(*value);
  return std::get<wire::Values>(message);
}

}  // namespace

std::size_t System::earliest_like(std::size_t index) const {
  const Transit& chosen = messages_[index];
  const wire::MessageKind kind = kind_of(chosen.message);
  if (kind != wire::MiniBatch::kKind && kind != wire::Barrier::kKind && kind != wire::VerdictPart::kKind) return index;
  const auto first = std::ranges::find_if(messages_, [&](const Transit& other) {
    return kind_of(other.message) == kind && other.from == chosen.from && other.to == chosen.to;
  });
  return static_cast<std::size_t>(first - messages_.begin());
}

void System::step_message(std::size_t chosen) {
  const std::size_t index = earliest_like(chosen);
  Transit& transit = messages_[index];
  if (transit.state == Transit::State::kSent) {
    transit.state = Transit::State::kBegun;
    if (!transit.payload.empty()) begin(transit);
    return;
  }
  if (transit.state == Transit::State::kBegun) {
    transit.state = Transit::State::kReceived;
    if (transit.arena != nullptr) {
      deal_out(transit);
    } else if (const auto* pushes = std::get_if<wire::Pushes>(&transit.message)) {
      deal_out_gradients(transit, *pushes);
    } else {
      std::ranges::copy(transit.payload, transit.place.begin());
    }
    const Transit received = transit;
    receive(received);
    return;
  }
  const Transit done = transit;
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(index));
  on_sent(done);
}

// The sender hears that it has arrived.
void System::on_sent(const Transit& transit) {
  if (transit.payload.empty()) return;
  const wire::MessageKind kind = kind_of(transit.message);
  if (goes_to_worker(transit.message)) return servers_[static_cast<std::size_t>(transit.from.value)]->on_delivered(transit.ticket);
  if (kind == wire::SquareSum::kKind) return;
  Worker& worker = *workers_[static_cast<std::size_t>(transit.from.value)];
  const std::uint32_t unit = *wire::unit_of(transit.message);
  if (kind == wire::Initial::kKind) return worker.core.on_initial_received(unit);
  worker.core.on_push_delivered(unit, now_, sends_);
  send_all(worker);
}

void System::begin(Transit& transit) {
  const auto to = static_cast<std::size_t>(transit.to.value);
  const std::uint64_t bytes = transit.payload.size();
  if (const auto* pushes = std::get_if<wire::Pushes>(&transit.message)) return begin_gradients(transit, *pushes);
  if (std::holds_alternative<wire::VerdictPart>(transit.message)) {
    transit.place = places_.emplace_back(bytes);
  } else if (goes_to_worker(transit.message)) {
    Worker& worker = *workers_[to];
    using Where = Result<PushLedger::Place>;
    const auto where = wire::deliver_begin<Where>(worker.core, transit.from, transit.message, bytes, now_).value();
    ASSERT_TRUE(where.ok()) << "seed " << job_.seed << ": " << where.status().message();
    transit.arena = *where == PushLedger::Place::kStaging ? &worker.staging : &worker.parameters;
  } else {
    const auto place = wire::deliver_begin<Server::Place>(*servers_[to], transit.from, transit.message, bytes).value();
    ASSERT_TRUE(place.ok()) << "seed " << job_.seed << ": " << place.status().message();
    transit.place = *place;
  }
}

void System::begin_gradients(Transit& transit, const wire::Pushes& pushes) {
  for (const std::uint32_t unit : plan_->units().between(pushes.unit, pushes.last)) {
    const auto place = servers_[static_cast<std::size_t>(transit.to.value)]->on_begin(
        transit.from, wire::Push{.unit = unit, .iteration = pushes.iteration},
        static_cast<std::uint64_t>(plan_->units().units[unit].elements) * sizeof(float));
    ASSERT_TRUE(place.ok()) << "seed " << job_.seed << ": " << place.status().message();
    transit.places.push_back(*place);
  }
}

void System::deal_out_gradients(const Transit& transit, const wire::Pushes& pushes) {
  const auto units = plan_->units().between(pushes.unit, pushes.last);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto& gradients = workers_[static_cast<std::size_t>(transit.from.value)]->gradients;
    std::ranges::copy(bytes_of(gradients, units[i]), transit.places[i].begin());
  }
}

void System::deal_out(const Transit& transit) {
  auto rest = transit.payload;
  const wire::Values values = values_of(transit.message);
  for (const std::uint32_t unit : workers_[static_cast<std::size_t>(transit.to.value)]->core.units_of(values)) {
    const auto place = place_of(*transit.arena, unit);
    std::ranges::copy(rest.first(place.size()), place.begin());
    rest = rest.subspan(place.size());
  }
  if (values.unit != values.last) ++batched_values;
}

void System::receive(const Transit& transit) {
  const auto& [from, to, message] = std::tie(transit.from, transit.to, transit.message);
  if (goes_to_worker(message)) {
    Worker& worker = *workers_[static_cast<std::size_t>(to.value)];
    if (const auto* handed_out = std::get_if<wire::MiniBatch>(&message)) return worker.handed_out.push_back(handed_out->number);
    if (const auto* part = std::get_if<wire::VerdictPart>(&message)) return receive_verdict(transit, part->iteration);
    const Status status = wire::deliver(worker.core, from, message, now_, sends_).value();
    ASSERT_TRUE(status.ok()) << status.message();
    return send_all(worker);
  }
  Server& server = *servers_[static_cast<std::size_t>(to.value)];
  const auto* pushes = std::get_if<wire::Pushes>(&message);
  if (pushes == nullptr) return carry_out(server, wire::deliver(server, from, message, now_, leaving_).value());
  Status status;
  for (const std::uint32_t unit : plan_->units().between(pushes->unit, pushes->last)) {
    if (status.ok()) status = server.on(from, wire::Push{.unit = unit, .iteration = pushes->iteration}, now_, leaving_);
  }
  carry_out(server, status);
}

void System::receive_verdict(const Transit& transit, Iteration iteration) {
  Worker& worker = *workers_[static_cast<std::size_t>(transit.to.value)];
  exchange::VerdictPart part(job_.table.tensors.size());
  part.read(transit.place);
  const Status status = worker.verdicts.on_part(transit.from, iteration, part, worker.gates.current());
  ASSERT_TRUE(status.ok()) << status.message();
  if (!worker.gates.all_open(worker.gates.current())) ++early_verdicts;
}

void System::tell_barriers(const sync::BarrierQuestion& question) {
  const auto barriers = sync::answer(question);
  for (std::size_t i = 0; i < barriers.size(); ++i) {
    for (Rank server{0}; server.value < job_.options.servers; ++server.value) {
      if (plan_->units().of_server[static_cast<std::size_t>(server.value)].empty()) continue;
      post({Rank{0}, server, wire::Barrier{static_cast<std::uint32_t>(question.workers[i].value), barriers[i]}});
    }
  }
}

void System::carry_out(Server& server, const Status& status) {
  ASSERT_TRUE(status.ok() || status.kind() == ErrorKind::kCorrupt) << "seed " << job_.seed << ": " << status.message();
  if (!status.ok()) stops.push_back(status);
  if (const auto skipped = server.take_skipped()) skips.push_back(skipped->second);
  if (const auto complete = server.take_complete()) check_saved(server, *complete);
  for (const Leaving& one : leaving_) post({server.rank(), one.to, one.message, one.sent.payload, one.sent.ticket});
  leaving_.clear();
  if (!server.paces()) return;
  if (const auto superstep = server.take_superstep()) supersteps.push_back(*superstep);
  if (const auto question = server.take_question()) tell_barriers(*question);
}

// Every unit has made its update of `iteration`, and none a later one.
void System::check_saved(const Server& server, Iteration iteration) {
  for (std::uint32_t part = 0; part < plan_->units().parts.size(); ++part) {
    const scheduling::Part& planned = plan_->units().parts[part];
    if (plan_->units().units[planned.unit].server != server.rank()) continue;
    const auto saved = server.export_part(part);
    ASSERT_EQ(saved.version, planned.unit < plan_->units().moving ? iteration : job_.options.first - 1);
    const std::span<const float> expected(parameters_after(iteration));
    ASSERT_TRUE(same_bits(saved.value,
                          expected.subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements))))
        << "seed " << job_.seed;
  }
  if (server.rank() == Rank{0}) completed.push_back(iteration);
}

}  // namespace paceline::paramserver::testing
