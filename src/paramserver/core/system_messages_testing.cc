// The messages of a stepped job, and its servers.
#include "paramserver/core/system_testing.h"

namespace paceline::paramserver::testing {

std::size_t System::earliest_like(std::size_t index) const {
  const Message& chosen = messages_[index];
  if (chosen.kind != Message::Kind::kMiniBatch && chosen.kind != Message::Kind::kBarrier && chosen.kind != Message::Kind::kVerdict)
    return index;
  const auto first = std::ranges::find_if(messages_, [&](const Message& other) {
    return other.kind == chosen.kind && other.from == chosen.from && other.to == chosen.to;
  });
  return static_cast<std::size_t>(first - messages_.begin());
}

void System::step_message(std::size_t chosen) {
  const std::size_t index = earliest_like(chosen);
  Message& message = messages_[index];
  if (message.state == Message::State::kSent) {
    message.state = Message::State::kBegun;
    if (!message.payload.empty()) begin(message);
    return;
  }
  if (message.state == Message::State::kBegun) {
    message.state = Message::State::kReceived;
    if (message.arena != nullptr) {
      deal_out(message);
    } else if (message.kind == Message::Kind::kPushes) {
      deal_out_gradients(message);
    } else {
      std::ranges::copy(message.payload, message.place.begin());
    }
    const Message received = message;
    receive(received);
    return;
  }
  const Message done = message;
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(index));
  if ((done.kind == Message::Kind::kPush || done.kind == Message::Kind::kPushes) && !done.payload.empty()) {
    Worker& worker = *workers_[static_cast<std::size_t>(done.from)];
    worker.core.on_push_delivered(done.unit, now_, worker_actions_);
    send_worker_actions(worker);
  }
  if (done.kind == Message::Kind::kInitial) workers_[static_cast<std::size_t>(done.from)]->core.on_initial_received(done.unit);
  if (done.kind == Message::Kind::kValue || done.kind == Message::Kind::kVerdict)
    servers_[static_cast<std::size_t>(done.from)]->on_delivered(done.ticket);
}

void System::begin(Message& message) {
  const auto to = static_cast<std::size_t>(message.to);
  Result<std::span<float>> place = std::span<float>();
  switch (message.kind) {
    case Message::Kind::kInitial:
      place = servers_[to]->place_for_initial(Rank{message.from}, message.unit, message.iteration, message.payload.size());
      break;
    case Message::Kind::kPush:
      place = servers_[to]->place_for_push(Rank{message.from}, message.unit, message.iteration, message.payload.size());
      break;
    case Message::Kind::kPushes:
      return begin_gradients(message);
    case Message::Kind::kSquareSum:
    case Message::Kind::kVerdict:
      message.place = places_.emplace_back(message.payload.size());
      return;
    default: {
      Worker& worker = *workers_[to];
      const auto where = worker.core.on_value_begin(Rank{message.from}, values_of(message), message.payload.size(), now_);
      ASSERT_TRUE(where.ok()) << "seed " << job_.seed << ": " << where.status().message();
      message.arena = *where == PushLedger::Place::kStaging ? &worker.staging : &worker.parameters;
      return;
    }
  }
  ASSERT_TRUE(place.ok()) << "seed " << job_.seed << ": " << place.status().message();
  message.place = std::as_writable_bytes(*place);
}

void System::begin_gradients(Message& message) {
  for (const std::uint32_t unit : pushed_units(message)) {
    const auto place = servers_[static_cast<std::size_t>(message.to)]->place_for_push(
        Rank{message.from}, unit, message.iteration,
        static_cast<std::uint64_t>(plan_->units().units[unit].elements) * sizeof(float));
    ASSERT_TRUE(place.ok()) << "seed " << job_.seed << ": " << place.status().message();
    message.places.push_back(std::as_writable_bytes(*place));
  }
}

void System::deal_out_gradients(const Message& message) {
  const auto units = pushed_units(message);
  for (std::size_t i = 0; i < units.size(); ++i)
    std::ranges::copy(bytes_of(workers_[static_cast<std::size_t>(message.from)]->gradients, units[i]), message.places[i].begin());
}

void System::deal_out(const Message& message) {
  auto rest = message.payload;
  for (const std::uint32_t unit : workers_[static_cast<std::size_t>(message.to)]->core.units_of(values_of(message))) {
    const auto place = place_of(*message.arena, unit);
    std::ranges::copy(rest.first(place.size()), place.begin());
    rest = rest.subspan(place.size());
  }
  if (message.detail != message.unit) ++batched_values;
}

void System::receive(const Message& message) {
  Status status;
  if (message.kind == Message::Kind::kValue || message.kind == Message::Kind::kNotify) {
    Worker& worker = *workers_[static_cast<std::size_t>(message.to)];
    status = message.kind == Message::Kind::kNotify
                 ? worker.core.on_notify(Rank{message.from}, message.unit, message.iteration, worker_actions_)
                 : worker.core.on_value(Rank{message.from}, values_of(message), 1, now_, worker_actions_);
    ASSERT_TRUE(status.ok()) << status.message();
    return send_worker_actions(worker);
  }
  if (message.kind == Message::Kind::kVerdict) {
    Worker& worker = *workers_[static_cast<std::size_t>(message.to)];
    exchange::VerdictPart part(job_.table.tensors.size());
    part.read(message.place);
    status = worker.verdicts.on_part(Rank{message.from}, message.iteration, part, worker.gates.current());
    ASSERT_TRUE(status.ok()) << status.message();
    if (!worker.gates.all_open(worker.gates.current())) ++early_verdicts;
    return;
  }
  if (message.kind == Message::Kind::kMiniBatch)
    return workers_[static_cast<std::size_t>(message.to)]->handed_out.push_back(message.iteration);
  Server& server = *servers_[static_cast<std::size_t>(message.to)];
  const Rank from{message.from};
  switch (message.kind) {
    case Message::Kind::kInitial:
      status = server.on_initial(from, message.unit, message.iteration, now_, actions_);
      break;
    case Message::Kind::kPush:
      status = server.on_push(from, message.unit, message.iteration, message.detail, now_, actions_);
      break;
    case Message::Kind::kPushes:
      for (const std::uint32_t unit : pushed_units(message)) {
        status = server.on_push(from, unit, message.iteration, 0, now_, actions_);
        if (!status.ok()) break;
      }
      break;
    case Message::Kind::kDone:
      status = server.on_done(from, message.iteration, now_, actions_);
      break;
    case Message::Kind::kBarrier:
      status = server.on_barrier(Rank{static_cast<std::int32_t>(message.unit)}, message.iteration, now_, actions_);
      break;
    case Message::Kind::kPull:
      status = server.on_pull(from, message.unit, message.detail, message.iteration, actions_);
      break;
    default:
      status = server.on_square_sum(from, message.iteration, message.place, now_, actions_);
      break;
  }
  ASSERT_TRUE(status.ok()) << "seed " << job_.seed << ": " << status.message();
  for (const ServerAction& action : actions_) carry_out(server, action);
  actions_.clear();
  if (server.paces()) {
    if (const auto superstep = server.take_superstep()) supersteps.push_back(*superstep);
    if (const auto question = server.take_question()) tell_barriers(*question);
  }
}

void System::tell_barriers(const sync::BarrierQuestion& question) {
  const auto barriers = sync::answer(question);
  for (std::size_t i = 0; i < barriers.size(); ++i) {
    for (std::int32_t server = 0; server < job_.options.servers; ++server) {
      if (plan_->units().of_server[static_cast<std::size_t>(server)].empty()) continue;
      post({.kind = Message::Kind::kBarrier,
            .to = server,
            .unit = static_cast<std::uint32_t>(question.workers[i].value),
            .iteration = barriers[i]});
    }
  }
}

void System::carry_out(const Server& server, const ServerAction& action) {
  switch (action.kind) {
    case ServerAction::Kind::kSendValue:
    case ServerAction::Kind::kSendValues:
      return post({Message::Kind::kValue, server.rank().value, action.to.value, action.unit, action.last, action.iteration,
                   action.payload, action.ticket});
    case ServerAction::Kind::kSendVerdict:
      return post(
          {Message::Kind::kVerdict, server.rank().value, action.to.value, 0, 0, action.iteration, action.payload, action.ticket});
    case ServerAction::Kind::kNotify:
      ASSERT_TRUE(action.payload.empty());
      return post({Message::Kind::kNotify, server.rank().value, action.to.value, action.unit, action.last, action.iteration});
    case ServerAction::Kind::kSendSquareSum:
      return post(
          {Message::Kind::kSquareSum, server.rank().value, action.to.value, 0, 0, action.iteration, action.payload, action.ticket});
    case ServerAction::Kind::kIterationComplete:
      for (std::uint32_t part = 0; part < plan_->units().parts.size(); ++part) {
        const scheduling::Part& planned = plan_->units().parts[part];
        if (plan_->units().units[planned.unit].server != server.rank()) continue;
        const auto saved = server.export_part(part);
        ASSERT_EQ(saved.version, planned.unit < plan_->units().moving ? action.iteration : job_.options.first - 1);
        const std::span<const float> expected(parameters_after(action.iteration));
        ASSERT_TRUE(same_bits(
            saved.value, expected.subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements))))
            << "seed " << job_.seed;
      }
      if (server.rank() == Rank{0}) completed.push_back(action.iteration);
      return;
    case ServerAction::Kind::kSendState:
      FAIL() << "nobody asked server " << server.rank().value << " for the optimizer's state";
    case ServerAction::Kind::kMiniBatch:
      return post({.kind = Message::Kind::kMiniBatch,
                   .from = server.rank().value,
                   .to = action.to.value,
                   .unit = action.unit,
                   .iteration = action.iteration});
    case ServerAction::Kind::kSkipped:
      return skips.push_back(action.failure);
    case ServerAction::Kind::kStop:
      return stops.push_back(action.failure);
  }
}

}  // namespace paceline::paramserver::testing
