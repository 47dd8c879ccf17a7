#include "runtime/collective_process.h"

#include <fmt/ranges.h>

#include "transport/open/open.h"
#include "wire/control.h"

namespace paceline::runtime {
namespace {

using session::PeerId;
using wire::MessageHead;
using wire::MessageKind;
using wire::PeerName;
using wire::Role;

constexpr Duration kFarewell = std::chrono::seconds(10);
constexpr Rank kMeetingRank{0};

PeerName name_of(Rank rank) { return {Role::kWorker, rank}; }

// Ranks with another list are of another job, and refuse each other. Never 0.
std::uint64_t job_of(const std::vector<transport::Address>& addresses) {
  std::uint64_t job = 0xcbf29ce484222325ULL;
  for (const auto& address : addresses) {
    for (const char c : address.text() + "\n") job = (job ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return job == 0 ? 1 : job;
}

// What only those know who were given the list.
Secret secret_of(const std::vector<transport::Address>& addresses) {
  std::string list = "paceline list of ranks";
  for (const auto& address : addresses) list += "\n" + address.text();
  return prove(kNoSecret, {std::as_bytes(std::span(list))});
}

Status check(const CollectiveProcessOptions& options) {
  if (options.ranks < 1 || options.ranks > wire::kMostCollectiveRanks)
    return error(ErrorKind::kBadRequest, "{} ranks; legal: 1 to {}", options.ranks, wire::kMostCollectiveRanks);
  if (options.self.value < 0 || options.self.value >= options.ranks) {
    return error(ErrorKind::kBadRequest, "rank {} is none of the {} ranks; legal: 0 to {}", options.self.value, options.ranks,
                 options.ranks - 1);
  }
  for (std::size_t i = 0; i < options.addresses.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (options.addresses[i] == options.addresses[j])
        return error(ErrorKind::kBadRequest, "ranks {} and {} have the same address, {}", j, i, options.addresses[i].text());
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<CollectiveProcess>> CollectiveProcess::connect(CollectiveProcessOptions options) {
  if (!options.addresses.empty()) options.ranks = static_cast<std::int32_t>(options.addresses.size());
  PACELINE_RETURN_IF_ERROR(check(options));
  std::unique_ptr<CollectiveProcess> process(new CollectiveProcess(std::move(options)));
  const auto& given = process->options_;
  const transport::Address& place = process->meets() ? given.meeting : given.addresses[static_cast<std::size_t>(given.self.value)];
  PACELINE_ASSIGN_OR_RETURN(process->transport_, transport::open(place, {.key = given.key, .spin = given.spin}));
  PACELINE_RETURN_IF_ERROR(process->start());
  auto ready = process->ready_.get_future();
  process->driver_ = std::make_unique<LoopDriver>(process->transport_->loop());
  PACELINE_RETURN_IF_ERROR(ready.get());
  return process;
}

Status CollectiveProcess::start() {
  ids_.resize(static_cast<std::size_t>(options_.ranks));
  session::EndpointOptions endpoint;
  // Whoever goes to a meeting has its rank, for others, when all have met.
  endpoint.self = meets() && options_.self != kMeetingRank ? name_of(Rank{-1}) : name_of(options_.self);
  endpoint.job = meets() ? 0 : job_of(options_.addresses);
  if (!meets()) endpoint.secret = secret_of(options_.addresses);
  endpoint.epoch = 1;
  endpoint.seed = options_.seed;
  endpoint.silence_deadline = options_.silence_deadline;
  PACELINE_ASSIGN_OR_RETURN(endpoint, session::validated(endpoint));
  endpoint_ = std::make_unique<session::Endpoint>(*transport_, endpoint, *this);
  engine_ = std::make_unique<collectives::Engine>(options_.self, options_.ranks, endpoint_->channels());
  endpoint_->channels().open(wire::Channel::kCollective, engine_.get(), engine_.get());
  listed_ = !meets() || options_.self == kMeetingRank;

  const auto own = static_cast<std::size_t>(options_.self.value);
  transport::Address where = !meets() ? options_.addresses[own] : options_.meeting;
  if (meets() && options_.self != kMeetingRank) {
    PACELINE_ASSIGN_OR_RETURN(where, transport::own_place(options_.bind, options_.meeting));
  }
  if (options_.ranks > 1) {
    PACELINE_ASSIGN_OR_RETURN(const transport::Address address, endpoint_->listen(where));
    listening_ = address.text();
  }
  transport_->loop().post([this] {
    transport_->loop().run_after(options_.connect_deadline, [this] {
      settle(error(ErrorKind::kDeadline, "rank {} waited {:.1f} s; {}", options_.self.value, seconds(options_.connect_deadline),
                   missing())
                 .because({"absent", ""}));
    });
    if (!meets()) {
      for (std::int32_t rank = 0; rank < options_.self.value; ++rank)
        connect_to(Rank{rank}, options_.addresses[static_cast<std::size_t>(rank)]);
    } else if (options_.self != kMeetingRank) {
      connect_to(kMeetingRank, options_.meeting);
    }
    check_complete();
  });
  return {};
}

CollectiveProcess::~CollectiveProcess() {
  if (driver_ != nullptr) {
    std::promise<void> left;
    post([&] {
      endpoint_->close(
          kFarewell, [&] { left.set_value(); }, farewell_);
    });
    left.get_future().wait();
    driver_.reset();
  }
  endpoint_.reset();
  engine_.reset();
}

void CollectiveProcess::fail(const std::string& why) {
  post([this, why] { farewell_ = "it has failed: " + why; });
}

void CollectiveProcess::connect_to(Rank rank, const transport::Address& address) {
  endpoint_->connect(address, name_of(rank), options_.connect_deadline);
}

std::string CollectiveProcess::missing() const {
  std::vector<std::int32_t> absent;
  for (std::int32_t rank = 0; rank < options_.ranks; ++rank) {
    if (rank != options_.self.value && ids_[static_cast<std::size_t>(rank)] == 0) absent.push_back(rank);
  }
  if (absent.empty()) return "rank 0 has not told where the others are";
  return fmt::format("of {} ranks {} {} did not come", options_.ranks, absent.size() == 1 ? "rank" : "ranks",
                     fmt::join(absent, ", "));
}

void CollectiveProcess::settle(const Status& how) {
  if (std::exchange(settled_, true)) return;
  ready_.set_value(how);
}

void CollectiveProcess::check_complete() {
  if (listed_ && (!meets() || options_.self != kMeetingRank || options_.ranks == 1) &&
      names_.size() + 1 == static_cast<std::size_t>(options_.ranks))
    settle({});
}

// The meeting: Join and Welcome (wire/control.h) carry the addresses.

void CollectiveProcess::introduce(PeerId meeting) {
  wire::Join join;
  join.wanted_rank = options_.self.value;
  join.world_workers = options_.ranks;
  join.address = listening_;
  join.release = options_.release;
  auto payload = encode(join);
  MessageHead head{.kind = MessageKind::kJoin, .layer = wire::kControlLayer};
  head.payload_bytes = payload.size();
  endpoint_->send_owned(meeting, head, std::move(payload));
}

bool CollectiveProcess::is_meeting() const {
  return meets() && options_.self == kMeetingRank && introduced_.size() + 1 < static_cast<std::size_t>(options_.ranks);
}

void CollectiveProcess::on_introduced(PeerId peer, std::span<const std::byte> payload) {
  if (!is_meeting()) return;  // it has been refused
  const auto join = wire::decode_join(payload);
  if (!join.ok()) return refuse(peer, join.status());
  const Rank from{join->wanted_rank};
  if (join->world_workers != options_.ranks) {
    return refuse_all(error(ErrorKind::kBadRequest, "rank {} expects {} ranks, rank 0 expects {}; give the same number everywhere",
                            from.value, join->world_workers, options_.ranks)
                          .because({"disagree", ""}));
  }
  if (join->release != options_.release) {
    return refuse_all(error(ErrorKind::kBadRequest, "rank {} runs release {}, rank 0 release {}; run the same everywhere",
                            from.value, join->release, options_.release)
                          .because({"release", ""}));
  }
  if (from <= kMeetingRank || from.value >= options_.ranks) {
    return refuse(peer, error(ErrorKind::kBadRequest,
                              "rank {} is none of the ranks that come to rank 0 of {}; give every process its own rank", from.value,
                              options_.ranks)
                            .because({"turned-away", ""}));
  }
  if (const PeerId other = ids_[static_cast<std::size_t>(from.value)]; other != 0) {
    return refuse(peer, error(ErrorKind::kBadRequest, "{} is already in this job at {}; give every process its own rank",
                              name_of(from).text(), endpoint_->address_of(other))
                            .because({"turned-away", ""}));
  }
  joiners_.remove(peer);
  endpoint_->set_name(peer, name_of(from));
  meet(peer, from);
  introduced_[from] = join->address;
  if (introduced_.size() + 1 == static_cast<std::size_t>(options_.ranks)) on_all_introduced();
}

void CollectiveProcess::on_all_introduced() {
  wire::Welcome welcome;
  welcome.workers = options_.ranks;
  welcome.job = draw_number();
  welcome.epoch = 1;
  welcome.secret = draw_secret();
  endpoint_->set_identity(name_of(options_.self), welcome.job, welcome.epoch, welcome.secret);
  welcome.servers.push_back(listening_);
  for (const auto& [rank, address] : introduced_) welcome.servers.push_back(address);
  for (const auto& [rank, address] : introduced_) {
    welcome.rank = rank.value;
    auto payload = encode(welcome);
    MessageHead head{.kind = MessageKind::kWelcome, .layer = wire::kControlLayer};
    head.payload_bytes = payload.size();
    endpoint_->send_owned(ids_[static_cast<std::size_t>(rank.value)], head, std::move(payload));
  }
  for (const PeerId late : joiners_.all()) {
    const Status reason =
        error(ErrorKind::kBadRequest, "all {} ranks have met already", options_.ranks).because({"turned-away", ""});
    refuse(late, reason);
    endpoint_->drop(late, reason.message());
  }
  settle({});
}

void CollectiveProcess::refuse(PeerId peer, const Status& reason) {
  auto payload = encode(wire::stop_for(reason));
  MessageHead head{.kind = MessageKind::kStop, .layer = wire::kControlLayer};
  head.payload_bytes = payload.size();
  endpoint_->send_owned(peer, head, std::move(payload));
}

void CollectiveProcess::refuse_all(const Status& reason) {
  for (const PeerId joiner : joiners_.all()) refuse(joiner, reason);
  for (const auto& [peer, rank] : names_) refuse(peer, reason);
  settle(reason);
}

void CollectiveProcess::on_list(std::span<const std::byte> payload) {
  const auto welcome = wire::decode_welcome(payload);
  if (!welcome.ok()) return settle(welcome.status());
  if (welcome->servers.size() != ids_.size() || listed_)
    return settle(error(ErrorKind::kCorrupt, "rank 0 sent a list of {} ranks instead of {}", welcome->servers.size(), ids_.size()));
  listed_ = true;
  endpoint_->set_identity(name_of(options_.self), welcome->job, welcome->epoch, welcome->secret);
  for (std::int32_t rank = 1; rank < options_.self.value; ++rank) {
    const auto address = transport::parse_address(welcome->servers[static_cast<std::size_t>(rank)]);
    if (!address.ok()) return settle(address.status());
    connect_to(Rank{rank}, *address);
  }
  check_complete();
}

// What passes between the engines goes by their channel.
void CollectiveProcess::meet(PeerId peer, Rank rank) {
  ids_[static_cast<std::size_t>(rank.value)] = peer;
  names_[peer] = rank;
  endpoint_->channels().reach(wire::Channel::kCollective, rank, peer);
  endpoint_->channels().hear(wire::Channel::kCollective, rank, peer);
}

Status CollectiveProcess::on_hello(const PeerName& name) {
  if (is_meeting()) {
    if (name == name_of(Rank{-1})) return {};
    return error(ErrorKind::kBadRequest, "{} cannot join the ranks that meet here", name.text()).because({"turned-away", ""});
  }
  if (names_.size() + 1 == static_cast<std::size_t>(options_.ranks))
    return error(ErrorKind::kBadRequest, "all {} ranks are there; {} is none of them", options_.ranks, name.text())
        .because({"turned-away", ""});
  const bool comes = listed_ && (!meets() || options_.self != kMeetingRank);
  if (comes && name == name_of(name.rank) && name.rank > options_.self && name.rank.value < options_.ranks) return {};
  return error(ErrorKind::kBadRequest, "{} is none of the ranks that connect to rank {} of {}; give every process its own rank",
               name.text(), options_.self.value, options_.ranks)
      .because({"turned-away", ""});
}

void CollectiveProcess::on_peer(PeerId peer, const PeerName& name) {
  if (name.rank.value == -1) {
    if (const auto dropped = joiners_.on_peer(peer, missing_ranks())) endpoint_->drop(dropped->peer, dropped->reason);
    return;
  }
  meet(peer, name.rank);
  if (meets() && name.rank == kMeetingRank) introduce(peer);
  check_complete();
}

Result<std::span<std::byte>> CollectiveProcess::on_message_begin(PeerId peer, const MessageHead& head) {
  if (joiners_.contains(peer)) {
    PACELINE_ASSIGN_OR_RETURN(const auto dropped, joiners_.on_message_begin(peer, head, missing_ranks()));
    if (dropped) endpoint_->drop(dropped->peer, dropped->reason);
    return std::span<std::byte>();
  }
  if (head.payload_bytes > wire::kMaxControlBytes)
    return error(ErrorKind::kBadRequest, "a control message of {} bytes; at most {} are legal", head.payload_bytes,
                 wire::kMaxControlBytes);
  return std::span<std::byte>();
}

void CollectiveProcess::on_message(PeerId peer, const MessageHead& head, std::span<std::byte> payload) {
  if (joiners_.contains(peer)) {
    const Status legal = membership::Joiners::check(head);
    return legal.ok() ? on_introduced(peer, payload) : endpoint_->drop(peer, legal.message());
  }
  const Rank from = names_.at(peer);
  if (head.kind == MessageKind::kWelcome && meets() && from == kMeetingRank) return on_list(payload);
  if (head.kind == MessageKind::kStop && meets() && from == kMeetingRank) {
    const auto stop = wire::decode_stop(payload);
    const Status reason = stop.ok() ? stop->status() : stop.status();
    return settle(reason.ok() ? error(ErrorKind::kCancelled, "rank 0 stopped") : reason);
  }
  endpoint_->drop(peer, "a message that is none of a collective");
}

void CollectiveProcess::on_peer_lost(PeerId peer, const PeerName& name, const Status& reason) {
  joiners_.remove(peer);
  if (name.rank.value == -1) return;  // never one of the ranks
  settle(error(reason.kind(), "rank {}: {}", options_.self.value, reason.message()));
  if (!names_.contains(peer)) return;
  ids_[static_cast<std::size_t>(name.rank.value)] = 0;
}

}  // namespace paceline::runtime
