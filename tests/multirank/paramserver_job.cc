#include "paramserver_job.h"

#include <algorithm>

#include "paramserver/service/server_carrier.h"
#include "training/reference_dropping.h"
#include "training/reference_wire.h"

namespace paceline::paramserver::testing {
namespace {

session::EndpointOptions options_of(const wire::PeerName& name, const JobSetting& setting) {
  const bool by_layer = setting.options.schedule.order == scheduling::Order::kByLayer;
  return {
      .self = name,
      .job = 5,
      .epoch = 1,
      .seed = setting.seed * 100 + static_cast<std::uint64_t>(name.rank.value) * 2 + (name.roles == wire::Role::kServer ? 1 : 0),
      .silence_deadline = std::chrono::seconds(60),
      .order = by_layer ? session::Order::kByLayer : session::Order::kFirstInFirstOut,
      .chunk = {1024},
      .window = {4096}};
}

// What workers see of the servers' values.
std::vector<float> returned(const job::WireOptions& wire, std::vector<float> values) {
  for (float& value : values) value = training::reference_rounded(wire, value);
  return values;
}

// What an update takes of a worker's gradient.
std::vector<float> received(const job::WireOptions& wire, std::vector<float> gradient) {
  for (float& value : gradient) value = training::reference_sent(wire, value) / static_cast<float>(wire.loss_scale);
  return gradient;
}

}  // namespace

Process::Process(const Backend& backend, const wire::PeerName& name, const JobSetting& setting)
    : node(backend, options_of(name, setting)) {
  node.begin_hook = [this](session::PeerId peer, const wire::MessageHead& head) {
    return end().on_message_begin(names_.at(peer).rank, head);
  };
  node.message_hook = [this](session::PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) {
    end().on_message(names_.at(peer).rank, head, payload);
  };
  node.delivered_hook = [this](session::PeerId peer, std::uint64_t ticket) {
    const auto [role, rank, incarnation] = names_.at(peer);
    const bool among_servers = server != nullptr && role == wire::Role::kServer;
    end().on_delivered(rank, among_servers ? wire::Channel::kServers : wire::Channel::kValues, ticket);
  };
}

Process::~Process() {
  node.rank.stop();
  server.reset();
  worker.reset();
}

void Process::lose(const wire::PeerName& peer) {
  node.rank.on_loop([&] {
    node.lost_hook = [this](session::PeerId id, const Status& reason) {
      end().on_peer_lost(names_.at(id).rank, server != nullptr ? wire::Channel::kGradients : wire::Channel::kValues, reason);
    };
    node.endpoint->drop(peers_.at(peer), "killed by the test");
  });
}

void Process::connect_all() {
  node.rank.on_loop([this] {
    for (const auto& [id, name] : node.peers) {
      peers_[name] = id;
      names_[id] = name;
    }
  });
}

void Process::send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  ++sent[head.kind];
  const wire::Channel channel = channel_of(head.kind);
  const bool to_server = channel == wire::Channel::kGradients || channel == wire::Channel::kServers;
  node.endpoint->send(peers_.at({to_server ? wire::Role::kServer : wire::Role::kWorker, to}), head, payload, ticket);
}

Job::Job(const Backend& backend, JobSetting setting)
    : plan(*job::Plan::make(setting.table, setting.options)), setting_(std::move(setting)), offsets_(setting_.table.offsets()) {
  const auto elements = static_cast<std::size_t>(plan->units().elements);
  const auto all = static_cast<std::size_t>(setting_.options.workers + setting_.options.servers - 1);
  for (std::int32_t s = 0; s < setting_.options.servers; ++s) {
    Process& made = *servers.emplace_back(std::make_unique<Process>(backend, wire::PeerName{wire::Role::kServer, {s}}, setting_));
    made.server = *ServerService::make(
        plan, Rank{s}, made.node.rank.loop(), made,
        {.on_failed = [&made](const Status& why) { made.reported.push_back(why); }, .on_iteration_complete = {}, .on_skipped = {}});
  }
  const std::vector<float> initial = initial_values(setting_.seed, plan->units().elements);
  history_.push_back(returned(setting_.options.wire, initial));
  for (std::int32_t w = 0; w < setting_.options.workers; ++w) {
    Process& made = *workers.emplace_back(std::make_unique<Process>(backend, wire::PeerName{wire::Role::kWorker, {w}}, setting_));
    made.parameters.resize(elements);
    made.gradients.resize(elements);
    if (w == 0 && !setting_.ledger) made.parameters = initial;
    auto house = std::make_unique<exchange::Gatehouse>(
        plan, Rank{w}, gate_rule(plan->options().schedule), made.node.rank.loop(),
        exchange::GatehouseOptions{setting_.stall_deadline, [&made](const Status& why) { made.reported.push_back(why); }});
    const exchange::TensorMemory memory(plan, made.parameters, made.gradients);
    auto carrier = std::make_unique<ServerCarrier>(*house, made, memory);
    made.worker =
        std::make_unique<exchange::GradientExchange>(std::move(house), std::move(carrier), exchange::compression_of(plan, memory));
  }
  for (std::size_t s = 0; s < servers.size(); ++s) {
    const auto address = servers[s]->node.listen(backend.host);
    const wire::PeerName name{wire::Role::kServer, {static_cast<std::int32_t>(s)}};
    for (std::size_t other = s + 1; other < servers.size(); ++other) servers[other]->node.connect(address, name);
    for (auto& worker : workers) worker->node.connect(address, name);
  }
  for (auto& process : servers)
    process->node.wait_until("all peers", [all](session::testing::Node& node) { return node.peers.size() == all; });
  for (auto& process : workers)
    process->node.wait_until("all servers", [this](session::testing::Node& node) { return node.peers.size() == servers.size(); });
  for (auto& process : servers) process->connect_all();
  for (auto& process : workers) process->connect_all();

  Reference reference(setting_.table, setting_.options.update, initial);
  std::vector<training::ReferenceDropping> dropping(workers.size(), {setting_.options.wire, offsets_});
  for (Iteration i = setting_.options.first; i < setting_.options.first + setting_.iterations; ++i) {
    std::vector<std::vector<float>> gradients;
    std::vector<std::vector<bool>> unused(workers.size());
    for (std::size_t w = 0; w < workers.size(); ++w) {
      gradients.push_back(
          received(setting_.options.wire, gradient_of(setting_.seed, static_cast<std::int32_t>(w), i, plan->units().elements)));
      for (std::uint32_t t = 0; t < setting_.table.tensors.size(); ++t)
        unused[w].push_back(is_unused(setting_.seed, static_cast<std::int32_t>(w), i, t, setting_.unused_per_cent));
      std::vector<char> used;
      for (const bool one : unused[w]) used.push_back(one ? 0 : 1);
      const float coefficient = dropping[w].clip_coefficient(workers.size(), used, gradients[w]);
      for (std::size_t t = 0; t < setting_.table.tensors.size(); ++t) {
        if (setting_.options.wire.drops() && !unused[w][t]) dropping[w].drop(t, i, coefficient, gradients[w]);
      }
    }
    reference.train(i, gradients, unused);
    history_.push_back(returned(setting_.options.wire, reference.parameters));
  }
}

Job::~Job() {
  for (auto& process : workers) process->node.rank.stop();
  for (auto& process : servers) process->node.rank.stop();
}

const std::vector<float>& Job::expected() { return history_.back(); }

void Job::train(const AtIteration& at_iteration, const Vanishes& vanishes) {
  scratch_.resize(workers.size());
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    threads.emplace_back(
        [&, w] { workers[w]->failure = train_one(*workers[w], static_cast<std::int32_t>(w), at_iteration, vanishes); });
  }
  for (auto& thread : threads) thread.join();
}

Status Job::train_one(Process& process, std::int32_t worker, const AtIteration& at_iteration, const Vanishes& vanishes) {
  PACELINE_RETURN_IF_ERROR(process.worker->start());
  const Iteration last = setting_.options.first + setting_.iterations - 1;
  Iteration i = setting_.options.first;
  for (;; ++i) {
    if (plan->uneven()) {
      const auto number = process.worker->next_mini_batch();
      if (!number.ok()) return number.status();
      if (**number > setting_.iterations * setting_.options.workers) break;
    } else if (i > last) {
      break;
    }
    PACELINE_RETURN_IF_ERROR(iterate(process, worker, i, at_iteration, vanishes));
    ++process.iterations;
  }
  return process.worker->finish(i - 1);
}

// What servers see of a worker that was killed.
Status Job::vanish(Process& process, std::int32_t worker) {
  Status lost = error(ErrorKind::kPeerLost, "worker {} vanished", worker);
  process.worker->cancel(lost);
  for (auto& server : servers) server->lose({wire::Role::kWorker, {worker}});
  return lost;
}

// Runs work(thread) in each of them and returns the first failure.
template <typename Work>
Status in_threads(std::uint32_t threads, Work work) {
  if (threads == 1) return work(0);
  std::vector<Status> ended(threads);
  std::vector<std::thread> others;
  for (std::uint32_t other = 1; other < threads; ++other) others.emplace_back([&, other] { ended[other] = work(other); });
  ended[0] = work(0);
  for (auto& other : others) other.join();
  const auto failed = std::ranges::find_if(ended, [](const Status& status) { return !status.ok(); });
  return failed == ended.end() ? Status() : *failed;
}

Status Job::check_layer(Process& process, std::int32_t worker, Layer layer, Iteration iteration) {
  PACELINE_RETURN_IF_ERROR(process.worker->wait_layer(layer, iteration));
  if (plan->uneven()) return {};
  const auto& expected_now = history_[static_cast<std::size_t>(iteration - setting_.options.first)];
  const auto units = plan->units().of_layer[static_cast<std::size_t>(layer.index)];
  for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
    const auto offset = static_cast<std::size_t>(plan->units().units[unit].offset),
               count = static_cast<std::size_t>(plan->units().units[unit].elements);
    if (!same_bits(std::span<const float>(process.parameters).subspan(offset, count),
                   std::span<const float>(expected_now).subspan(offset, count))) {
      return error(ErrorKind::kCorrupt, "worker {} has other values in layer {} of iteration {}", worker, layer.index, iteration);
    }
  }
  return {};
}

Status Job::make_gradient(Process& process, std::int32_t worker, std::uint32_t tensor, Iteration iteration) {
  for (std::int64_t at = offsets_[tensor]; at < offsets_[tensor + 1]; ++at)
    process.gradients[static_cast<std::size_t>(at)] =
        setting_.ledger ? 1.0F : gradient_element(setting_.seed, worker, iteration, at);
  return process.worker->gradient_ready(tensor);
}

Status Job::iterate(Process& process, std::int32_t worker, Iteration iteration, const AtIteration& at_iteration,
                    const Vanishes& vanishes) {
  PACELINE_RETURN_IF_ERROR(in_threads(setting_.threads, [&](std::uint32_t) {
    Status status;
    for (Layer layer{0}; layer.index < plan->layers() && status.ok(); ++layer.index)
      status = check_layer(process, worker, layer, iteration);
    return status;
  }));
  PACELINE_RETURN_IF_ERROR(process.worker->wait_gradients_free());
  if (at_iteration) at_iteration(worker, iteration);
  const auto tensors = static_cast<std::uint32_t>(setting_.table.tensors.size());
  const auto unused = [&](std::uint32_t tensor) {
    return is_unused(setting_.seed, worker, iteration, tensor, setting_.unused_per_cent);
  };
  PACELINE_RETURN_IF_ERROR(in_threads(setting_.threads, [&](std::uint32_t thread) {
    Status status;
    for (std::uint32_t tensor = tensors; tensor-- > 0 && status.ok();) {
      if (tensor % setting_.threads != thread || unused(tensor)) continue;
      const bool goes = vanishes && tensor == tensors / 2 && vanishes(worker, iteration);
      status = goes ? vanish(process, worker) : make_gradient(process, worker, tensor, iteration);
    }
    return status;
  }));
  auto& all_unused = scratch_[static_cast<std::size_t>(worker)];
  all_unused.clear();
  for (std::uint32_t tensor = tensors; tensor-- > 0;) {
    if (unused(tensor)) all_unused.push_back(tensor);
  }
  PACELINE_RETURN_IF_ERROR(process.worker->backward_done(iteration, all_unused));
  process.account += process.worker->take_account();
  return {};
}

}  // namespace paceline::paramserver::testing
