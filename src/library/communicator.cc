#include "library/communicator.h"

#include <cmath>

#include "base/secret.h"
#include "collectives/exec/calibration.h"
#include "library/node.h"
#include "library/structs.h"

namespace paceline::library {
namespace {

struct Opening {
  runtime::CollectiveProcessOptions process;
  collectives::CommunicatorOptions communicator;
  bool measure = true;
};

// `usual` stands for 0.
Result<Duration> duration_of(const char* name, double value, double least, double usual) {
  if (value == 0) value = usual;
  if (!(value >= least && value <= 1e6)) return refusal("illegal", name, "{} is {}; legal: {} to 1000000", name, value, least);
  return from_seconds(value);
}

Status set_link(const paceline_link* given, Opening& opening) {
  if (given == nullptr) return {};
  PACELINE_ASSIGN_OR_RETURN(const paceline_link link, read_struct(given, "link"));
  for (const double value : {link.alpha, link.beta, link.gamma}) {
    if (!(value >= 0) || !std::isfinite(value))
      return refusal("illegal", "link", "link has a constant of {}; legal: 0 or more", value);
  }
  opening.communicator.rules.link = {link.alpha, link.beta, link.gamma};
  opening.measure = false;
  return {};
}

Status set_times(const paceline_communicator_options& options, Opening& opening) {
  auto& process = opening.process;
  PACELINE_ASSIGN_OR_RETURN(process.connect_deadline, duration_of("connect_seconds", options.connect_seconds, 0.001, 30));
  PACELINE_ASSIGN_OR_RETURN(process.silence_deadline, duration_of("silence_seconds", options.silence_seconds, 0.01, 10));
  PACELINE_ASSIGN_OR_RETURN(opening.communicator.stall_deadline, duration_of("stall_seconds", options.stall_seconds, 0.001, 600));
  PACELINE_ASSIGN_OR_RETURN(process.spin, duration_of("spin_seconds", options.spin_seconds, 0, 0));
  return {};
}

Status set_ranks(const paceline_communicator_options& options, Opening& opening) {
  auto& process = opening.process;
  process.self = Rank{options.rank};
  process.ranks = options.ranks;
  const bool meets = options.coordinator != nullptr;
  if ((options.address_count == 0) != meets)
    return refusal("contradiction", "addresses", "give either the addresses of all ranks or the coordinator's, not {}",
                   meets ? "both" : "neither");
  if (!meets && options.ranks != 0 && static_cast<std::size_t>(options.ranks) != options.address_count)
    return refusal("contradiction", "ranks", "{} ranks, but {} addresses", options.ranks, options.address_count);
  if (options.address_count > 0) PACELINE_RETURN_IF_ERROR(check_given(options.addresses, "addresses"));
  for (std::size_t rank = 0; rank < options.address_count; ++rank) {
    PACELINE_ASSIGN_OR_RETURN(const transport::Address address, address_of(options.addresses[rank], "addresses"));
    process.addresses.push_back(address);
  }
  if (!meets) return {};
  PACELINE_ASSIGN_OR_RETURN(process.meeting, address_of(options.coordinator, "coordinator"));
  if (process.meeting.port != 0) return {};
  return refusal("illegal", "coordinator", "coordinator {} has port 0; give the port at which rank 0 listens", options.coordinator);
}

Status set_key(const paceline_communicator_options& options, runtime::CollectiveProcessOptions& process) {
  std::vector<transport::Address> places = process.addresses;
  if (places.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const transport::Address own, own_place_of(process.bind.c_str(), "bind", process.meeting));
    places = {process.meeting, own};
  }
  PACELINE_ASSIGN_OR_RETURN(process.key, key_of(options.job_key_file, options.security, places));
  return {};
}

Result<Opening> opening_of(const paceline_communicator_options& options) {
  Opening opening;
  PACELINE_RETURN_IF_ERROR(set_ranks(options, opening));
  PACELINE_RETURN_IF_ERROR(set_times(options, opening));
  PACELINE_RETURN_IF_ERROR(set_link(options.link, opening));
  if (options.bind != nullptr) opening.process.bind = options.bind;
  PACELINE_RETURN_IF_ERROR(set_key(options, opening.process));
  opening.process.release = PACELINE_VERSION;
  opening.process.seed = draw_id();
  if (options.rank_order != 0) opening.communicator.rules.order = collectives::SumOrder::kRank;
  if (options.unconfirmed != 0) opening.communicator.rules.agreement = collectives::Agreement::kWithData;
  return opening;
}

collectives::Communicator::Post post_to(const std::shared_ptr<runtime::CollectiveProcess>& process) {
  return [loop = process.get()](std::function<void()> work) { loop->post(std::move(work)); };
}

// What only exists at this border: numbers that are none of the enums.
Status check_numbers(const paceline_call& call) {
  if (call.operation < PACELINE_BROADCAST || call.operation > PACELINE_SCATTER)
    return refusal("illegal", "operation", "{} is no operation; legal: 1 to {}", call.operation,
                   static_cast<int>(PACELINE_SCATTER));
  const char* const name = collectives::to_string(static_cast<collectives::CollectiveKind>(call.operation - PACELINE_BROADCAST));
  if (call.operation != PACELINE_BARRIER && (call.type < 0 || call.type >= std::ssize(collectives::kMovedTypes)))
    return refusal("illegal", "type", "{}: {} is no element type; legal: 0 to {}", name, call.type,
                   collectives::kMovedTypes.size() - 1);
  if (call.reduction < PACELINE_SUM || call.reduction > PACELINE_MEAN)
    return refusal("illegal", "reduction", "{}: {} is no reduction; legal: sum, max, min, mean", name, call.reduction);
  if (call.algorithm < PACELINE_BEST || call.algorithm > PACELINE_DIRECT)
    return refusal("illegal", "algorithm", "{}: {} is no algorithm; legal: 0 to {}", name, call.algorithm,
                   static_cast<int>(PACELINE_DIRECT));
  const bool has_parts = call.operation == PACELINE_ALLTOALL;
  if (has_parts != (call.gives != nullptr) || has_parts != (call.takes != nullptr))
    return refusal("illegal", "gives", "{}: gives and takes {}", name,
                   has_parts ? "say how much goes where" : "are of all-to-all alone");
  if (call.priority < 0) return refusal("illegal", "priority", "{}: priority {}; legal: 0 or more", name, call.priority);
  return {};
}

collectives::Call call_of(const paceline_call& given, std::size_t ranks) {
  using collectives::CollectiveKind;
  collectives::Call call;
  call.kind = static_cast<CollectiveKind>(given.operation - PACELINE_BROADCAST);
  call.reduction = static_cast<collectives::ReductionKind>(given.reduction);
  call.root = collectives::is_rooted(call.kind) ? given.root : 0;
  call.priority = Layer{given.priority};
  if (given.algorithm != PACELINE_BEST) call.algorithm = static_cast<collectives::Algorithm>(given.algorithm - 1);
  if (given.block_bytes != 0) call.block = Bytes{given.block_bytes};
  if (call.kind == CollectiveKind::kBarrier) return call;
  call.input = call.kind == CollectiveKind::kBroadcast ? nullptr : given.input;
  call.output = given.output;
  call.dtype = static_cast<tensor::DType>(given.type);
  call.count = given.count;
  if (call.kind == CollectiveKind::kAlltoall) {
    call.count = 0;
    call.gives.assign(given.gives, given.gives + ranks);
    call.takes.assign(given.takes, given.takes + ranks);
  }
  return call;
}

static_assert(static_cast<int>(PACELINE_BFLOAT16) == static_cast<int>(tensor::DType::kBFloat16));
static_assert(static_cast<int>(PACELINE_MEAN) == static_cast<int>(collectives::ReductionKind::kMean));
static_assert(static_cast<int>(PACELINE_DIRECT) == static_cast<int>(collectives::Algorithm::kDirect) + 1);
static_assert(static_cast<int>(PACELINE_SCATTER) == static_cast<int>(collectives::CollectiveKind::kScatter) + 1);
static_assert(static_cast<std::size_t>(PACELINE_FLOAT8_E8M0FNU) == collectives::kMovedTypes.size() - 1);

}  // namespace

Result<std::shared_ptr<Ranks>> Ranks::open(const paceline_communicator_options& options) {
  PACELINE_ASSIGN_OR_RETURN(Opening opening, opening_of(options));
  auto ranks = std::make_shared<Ranks>();
  {
    const SignalsBlocked quiet;
    PACELINE_ASSIGN_OR_RETURN(ranks->process_, runtime::CollectiveProcess::connect(std::move(opening.process)));
  }
  runtime::CollectiveProcess& process = *ranks->process_;
  const auto post = post_to(ranks->process_);
  opening.communicator.driver = &process.driver();
  auto& rules = opening.communicator.rules;
  PACELINE_RETURN_IF_ERROR(collectives::check_alike(process.engine(), post, process.rank(), process.ranks(), opening.communicator,
                                                    {{"rank_order", options.rank_order != 0 ? 1.0 : 0.0},
                                                     {"confirm", options.unconfirmed != 0 ? 0.0 : 1.0},
                                                     {"link (1: given, 0: measured)", opening.measure ? 0.0 : 1.0},
                                                     {"link.alpha", rules.link.alpha},
                                                     {"link.beta", rules.link.beta},
                                                     {"link.gamma", rules.link.gamma}}));
  if (opening.measure) {
    PACELINE_ASSIGN_OR_RETURN(const auto calibration, collectives::calibrate(process.engine(), post, process.rank(),
                                                                             process.ranks(), opening.communicator));
    rules.link = calibration.fit.cost;
    rules.latency = calibration.latency;
    rules.crowding = calibration.crowding;
    rules.expected = calibration.expected;
    rules.links = calibration.links;
    ranks->links_.residual = calibration.fit.residual;
  }
  ranks->links_.alpha = rules.link.alpha;
  ranks->links_.beta = rules.link.beta;
  ranks->links_.gamma = rules.link.gamma;
  ranks->all_ = std::make_unique<collectives::Communicator>(
      process.engine(), post, collectives::world_group(process.rank(), process.ranks()), opening.communicator);
  return ranks;
}

Result<std::shared_ptr<Ranks>> Ranks::group(std::int64_t id, std::span<const std::int32_t> ranks) const {
  if (id < 1) return refusal("illegal", "id", "group {} cannot be; legal: 1 and more", id);
  const std::lock_guard lock(ids_->mutex);
  if (ids_->used.contains(id)) return refusal("illegal", "id", "group {} was made before; each id is used once", id);
  auto group = std::make_shared<Ranks>();
  PACELINE_ASSIGN_OR_RETURN(group->all_, all_->subgroup(static_cast<std::uint64_t>(id), {ranks.begin(), ranks.end()}));
  ids_->used.insert(id);
  group->ids_ = ids_;
  group->process_ = process_;
  group->links_ = links_;
  return group;
}

paceline_communicator_info Ranks::info() const {
  paceline_communicator_info info{};
  info.rank = all_->rank();
  info.ranks = all_->size();
  info.alpha = links_.alpha;
  info.beta = links_.beta;
  info.gamma = links_.gamma;
  info.residual = links_.residual;
  return info;
}

Result<std::shared_ptr<Operation>> begin_operation(std::shared_ptr<Ranks> ranks, const paceline_call& call) {
  PACELINE_RETURN_IF_ERROR(check_numbers(call));
  PACELINE_ASSIGN_OR_RETURN(collectives::Request request,
                            ranks->all().start(call_of(call, static_cast<std::size_t>(ranks->all().size()))));
  return std::make_shared<Operation>(std::move(ranks), std::move(request));
}

Result<bool> Operation::wait(Duration limit) {
  const auto over = request_.wait(limit);
  if (!over) return false;
  PACELINE_RETURN_IF_ERROR(*over);
  return true;
}

std::string Operation::choice() const {
  const auto& choice = request_.choice();
  return choice.algorithm ? fmt::format("{}, predicted {:.6f} s", choice.text(), choice.seconds) : choice.text();
}

}  // namespace paceline::library
