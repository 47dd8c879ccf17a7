#include "collective_world.h"

#include <thread>

#include "session/channels.h"

namespace paceline::collectives::testing {

using session::PeerId;
using transport::testing::give_up;
using transport::testing::kPatience;
using wire::PeerName;

CollectiveRank::CollectiveRank(const Backend& backend, int rank, int ranks, session::EndpointOptions options)
    : rank_(rank), ranks_(ranks), loop_(backend) {
  options.self = {wire::Role::kWorker, Rank{rank}};
  options.seed = static_cast<std::uint64_t>(rank) + 1;
  loop_.on_loop([&] {
    endpoint_ = std::make_unique<session::Endpoint>(loop_.transport(), options, *this);
    engine_ = std::make_unique<Engine>(Rank{rank}, ranks, endpoint_->channels());
    endpoint_->channels().open(wire::Channel::kCollective, engine_.get(), engine_.get());
  });
  if (ranks == 1) all_there_.set_value();
}

CollectiveRank::~CollectiveRank() {
  loop_.stop();
  endpoint_.reset();
  engine_.reset();
}

transport::Address CollectiveRank::listen(const std::string& host) {
  transport::Address where;
  loop_.on_loop([&] { where = endpoint_->listen({host, 0}).value(); });
  return where;
}

void CollectiveRank::connect(const transport::Address& to, int rank) {
  loop_.on_loop([&] { endpoint_->connect(to, {wire::Role::kWorker, Rank{rank}}, std::chrono::minutes(1)); });
}

void CollectiveRank::wait_connected() {
  if (all_there_.get_future().wait_for(kPatience) != std::future_status::ready) give_up("all ranks to be connected");
}

std::unique_ptr<Communicator> CollectiveRank::communicator(const CommunicatorOptions& options) {
  return std::make_unique<Communicator>(*engine_, post(), world_group(Rank{rank_}, ranks_), options);
}

Communicator::Post CollectiveRank::post() {
  return [this](std::function<void()> work) { loop_.loop().post(std::move(work)); };
}

void CollectiveRank::leave() {
  std::promise<void> left;
  loop_.on_loop([&] { endpoint_->close(std::chrono::seconds(10), [&] { left.set_value(); }); });
  if (left.get_future().wait_for(kPatience) != std::future_status::ready) give_up("close()");
}

void CollectiveRank::kill() {
  loop_.stop();
  endpoint_.reset();
  loop_.destroy_transport();
}

session::EndpointCounters CollectiveRank::counters() {
  session::EndpointCounters counters;
  loop_.on_loop([&] { counters = endpoint_->counters(); });
  return counters;
}

std::size_t CollectiveRank::unfinished() {
  std::size_t count = 0;
  loop_.on_loop([&] { count = engine_->unfinished(); });
  return count;
}

void CollectiveRank::on_peer(PeerId peer, const PeerName& name) {
  endpoint_->channels().reach(wire::Channel::kCollective, name.rank, peer);
  endpoint_->channels().hear(wire::Channel::kCollective, name.rank, peer);
  if (++connected_ == ranks_ - 1) all_there_.set_value();
}

CollectiveWorld::CollectiveWorld(const Backend& backend, int ranks, const session::EndpointOptions& options) {
  std::vector<transport::Address> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back(std::make_unique<CollectiveRank>(backend, rank, ranks, options));
    addresses.push_back(ranks_.back()->listen(backend.host));
    for (int other = 0; other < rank; ++other) ranks_.back()->connect(addresses[static_cast<std::size_t>(other)], other);
  }
  for (const auto& rank : ranks_) rank->wait_connected();
}

void CollectiveWorld::run(const CommunicatorOptions& options, const std::function<void(Communicator&)>& work) {
  std::vector<std::thread> threads;
  for (const auto& rank : ranks_) {
    threads.emplace_back([&] {
      const auto communicator = rank->communicator(options);
      work(*communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void CollectiveWorld::leave() {
  for (const auto& rank : ranks_) rank->leave();
}

}  // namespace paceline::collectives::testing
