// What stands behind paceline/collectives.h: translates its plain types to the runtime's and keeps processes, communicators and
// requests alive as long as one of them is in use.
#include "paceline/collectives.h"

#include <array>
#include <cmath>
#include <new>
#include <random>

#include <unistd.h>

#include "collectives/exec/calibration.h"
#include "collectives/exec/communicator.h"
#include "runtime/collective_process.h"

namespace paceline {

using collectives::Call;
using collectives::CollectiveKind;

namespace detail {

struct CommunicatorState {
  ~CommunicatorState() {
    if (!inherited()) return;
    // Its thread and its half of the sessions live in the parent, which waiting or closing here would only disturb.
    static_cast<void>(new (std::nothrow) std::shared_ptr(std::move(process)));
    static_cast<void>(all.release());
  }
  // This process is a fork() of the one that opened it.
  bool inherited() const { return getpid() != opened_by; }

  pid_t opened_by = getpid();
  std::shared_ptr<runtime::CollectiveProcess> process;
  std::unique_ptr<collectives::Communicator> all;
  LinkModel links;

  static CommunicatorState* of(const Communicator& communicator) { return communicator.state_.get(); }
  static std::shared_ptr<CommunicatorState> share(const Communicator& communicator) { return communicator.state_; }
};

struct RequestState {
  RequestState() = default;
  RequestState(RequestState&&) = delete;
  ~RequestState() {
    // It would wait for a thread of the parent.
    if (inherited()) static_cast<void>(new (std::nothrow) collectives::Request(std::move(request)));
  }
  bool inherited() const { return owner != nullptr && owner->inherited(); }

  std::shared_ptr<CommunicatorState> owner;  // outlives the request
  collectives::Request request;
  Outcome refusal;
  std::string choice;

  static Request make(std::unique_ptr<RequestState> state) {
    Request request;
    request.state_ = std::move(state);
    return request;
  }
};

}  // namespace detail

namespace {

using detail::CommunicatorState;
using detail::RequestState;

static_assert(static_cast<int>(ElementType::kBFloat16) == static_cast<int>(tensor::DType::kBFloat16));
static_assert(static_cast<int>(Reduction::kMean) == static_cast<int>(collectives::ReductionKind::kMean));
static_assert(static_cast<int>(Algorithm::kDirect) == static_cast<int>(collectives::Algorithm::kDirect));

Outcome outcome_of(const Status& status) {
  if (status.ok()) return {};
  constexpr std::array kKinds = {Outcome::Kind::kBadRequest, Outcome::Kind::kPeerLost,   Outcome::Kind::kDeadline,
                                 Outcome::Kind::kCancelled,  Outcome::Kind::kOverloaded, Outcome::Kind::kCorrupt,
                                 Outcome::Kind::kIo};
  return {kKinds[static_cast<std::size_t>(status.kind())], status.message()};
}

// ---- Opening

struct Opening {
  runtime::CollectiveProcessOptions process;
  collectives::CommunicatorOptions communicator;
  bool measure = true;
};

Result<Duration> duration_of(const char* name, double value, double least) {
  if (!(value >= least && value <= 1e6)) return error(ErrorKind::kBadRequest, "{} is {}; legal: {} to 1000000", name, value, least);
  return from_seconds(value);
}

Status set_link(const LinkModel& link, Opening& opening) {
  for (const double value : {link.alpha, link.beta, link.gamma}) {
    if (!(value >= 0) || !std::isfinite(value))
      return error(ErrorKind::kBadRequest, "link has a constant of {}; legal: 0 or more", value);
  }
  opening.communicator.rules.link = {link.alpha, link.beta, link.gamma};
  opening.measure = false;
  return {};
}

Result<Opening> opening_of(const CommunicatorOptions& options) {
  Opening opening;
  auto& process = opening.process;
  process.self = Rank{options.rank};
  process.ranks = options.ranks;
  if (options.addresses.empty() == options.coordinator.empty())
    return error(ErrorKind::kBadRequest, "give either the addresses of all ranks or the coordinator's, not {}",
                 options.addresses.empty() ? "neither" : "both");
  if (!options.addresses.empty() && options.ranks != 0 && options.ranks != static_cast<int>(options.addresses.size()))
    return error(ErrorKind::kBadRequest, "{} ranks, but {} addresses", options.ranks, options.addresses.size());
  for (const std::string& text : options.addresses) {
    PACELINE_ASSIGN_OR_RETURN(const transport::Address address, transport::parse_address(text));
    process.addresses.push_back(address);
  }
  if (!options.coordinator.empty()) {
    PACELINE_ASSIGN_OR_RETURN(process.meeting, transport::parse_address(options.coordinator));
    if (process.meeting.port == 0)
      return error(ErrorKind::kBadRequest, "coordinator {} has port 0; give the port at which rank 0 listens", options.coordinator);
  }
  process.bind = options.bind;
  process.release = PACELINE_VERSION;
  process.seed = std::random_device{}();
  PACELINE_ASSIGN_OR_RETURN(process.connect_deadline, duration_of("connect_seconds", options.connect_seconds, 0.001));
  PACELINE_ASSIGN_OR_RETURN(process.silence_deadline, duration_of("silence_seconds", options.silence_seconds, 0.01));
  PACELINE_ASSIGN_OR_RETURN(opening.communicator.stall_deadline, duration_of("stall_seconds", options.stall_seconds, 0.001));
  PACELINE_ASSIGN_OR_RETURN(process.spin, duration_of("spin_seconds", options.spin_seconds, 0));
  if (options.rank_order) opening.communicator.rules.order = collectives::SumOrder::kRank;
  if (!options.confirm) opening.communicator.rules.agreement = collectives::Agreement::kWithData;
  if (options.link) PACELINE_RETURN_IF_ERROR(set_link(*options.link, opening));
  return opening;
}

collectives::Communicator::Post post_to(const std::shared_ptr<runtime::CollectiveProcess>& process) {
  return [loop = process.get()](std::function<void()> work) { loop->post(std::move(work)); };
}

Result<std::shared_ptr<CommunicatorState>> open_state(const CommunicatorOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(Opening opening, opening_of(options));
  auto state = std::make_shared<CommunicatorState>();
  PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<runtime::CollectiveProcess> process,
                            runtime::CollectiveProcess::connect(std::move(opening.process)));
  state->process = std::move(process);
  opening.communicator.driver = &state->process->driver();
  auto& rules = opening.communicator.rules;
  PACELINE_RETURN_IF_ERROR(collectives::check_alike(state->process->engine(), post_to(state->process), state->process->rank(),
                                                    state->process->ranks(), opening.communicator,
                                                    {{"rank_order", options.rank_order ? 1.0 : 0.0},
                                                     {"confirm", options.confirm ? 1.0 : 0.0},
                                                     {"link (1: given, 0: measured)", opening.measure ? 0.0 : 1.0},
                                                     {"link.alpha", rules.link.alpha},
                                                     {"link.beta", rules.link.beta},
                                                     {"link.gamma", rules.link.gamma}}));
  if (opening.measure) {
    PACELINE_ASSIGN_OR_RETURN(const auto calibration,
                              collectives::calibrate(state->process->engine(), post_to(state->process), state->process->rank(),
                                                     state->process->ranks(), opening.communicator));
    rules.link = calibration.fit.cost;
    rules.latency = calibration.latency;
    rules.crowding = calibration.crowding;
    rules.expected = calibration.expected;
    rules.links = calibration.links;
    state->links.residual = calibration.fit.residual;
  }
  state->links.alpha = rules.link.alpha;
  state->links.beta = rules.link.beta;
  state->links.gamma = rules.link.gamma;
  state->all = std::make_unique<collectives::Communicator>(
      state->process->engine(), post_to(state->process), collectives::world_group(state->process->rank(), state->process->ranks()),
      opening.communicator);
  return state;
}

// ---- Calls

const char* name_of(CollectiveKind kind) { return collectives::to_string(kind); }

// What only exists here: numbers that are none of their enums, and two buffers that say different things.
Status check_types(CollectiveKind kind, ElementType type, const CallOptions& options) {
  if (!tensor::is_dtype(static_cast<std::uint8_t>(type)))
    return error(ErrorKind::kBadRequest, "{}: {} is no element type; legal: 0 to {}", name_of(kind), static_cast<int>(type),
                 tensor::kDTypeCount - 1);
  if (options.reduction > Reduction::kMean)
    return error(ErrorKind::kBadRequest, "{}: {} is no reduction; legal: sum, max, min, mean", name_of(kind),
                 static_cast<int>(options.reduction));
  if (options.algorithm && *options.algorithm > Algorithm::kDirect)
    return error(ErrorKind::kBadRequest, "{}: {} is no algorithm; legal: 0 to {}", name_of(kind),
                 static_cast<int>(*options.algorithm), static_cast<int>(Algorithm::kDirect));
  if (options.priority < 0)
    return error(ErrorKind::kBadRequest, "{}: priority {}; legal: 0 or more", name_of(kind), options.priority);
  return {};
}

Status check_pair(CollectiveKind kind, const ConstBuffer& input, const Buffer& output) {
  if (input.type != output.type)
    return error(ErrorKind::kBadRequest, "{}: input and output have different element types; give the same", name_of(kind));
  return {};
}

Call call_of(CollectiveKind kind, const CallOptions& options) {
  Call call;
  call.kind = kind;
  call.reduction = static_cast<collectives::ReductionKind>(options.reduction);
  call.root = kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce ? options.root : 0;
  call.priority = Layer{options.priority};
  if (options.algorithm) call.algorithm = static_cast<collectives::Algorithm>(*options.algorithm);
  if (options.block_bytes) call.block = Bytes{*options.block_bytes};
  return call;
}

Request refused(const Status& reason) {
  auto state = std::make_unique<RequestState>();
  state->refusal = outcome_of(reason);
  return RequestState::make(std::move(state));
}

Request start(Communicator& communicator, CollectiveKind kind, const ConstBuffer& input, const Buffer& output, std::int64_t count,
              const CallOptions& options) {
  if (const Status status = check_types(kind, kind == CollectiveKind::kBarrier ? ElementType::kFloat32 : output.type, options);
      !status.ok())
    return refused(status);
  Call call = call_of(kind, options);
  call.input = input.data;
  call.output = output.data;
  call.dtype = static_cast<tensor::DType>(output.type);
  call.count = count;
  auto state = std::make_unique<RequestState>();
  state->owner = CommunicatorState::share(communicator);
  auto request = state->owner->all->start(call);
  if (!request.ok()) return refused(request.status());
  const auto& choice = request->choice();
  state->choice = choice.text();
  if (choice.algorithm) state->choice += fmt::format(", predicted {:.6f} s", choice.seconds);
  state->request = std::move(*request);
  return RequestState::make(std::move(state));
}

Status inherited(const char* what) {
  return error(ErrorKind::kBadRequest, "{}: the communicator was opened before fork(); open another one in this process", what);
}

Status check_open(const Communicator& communicator, CollectiveKind kind) {
  if (communicator.is_open()) return CommunicatorState::of(communicator)->inherited() ? inherited(name_of(kind)) : Status();
  return error(ErrorKind::kBadRequest, "{}: the communicator is not open; call open() first", name_of(kind));
}

Status check_part(const Communicator& communicator, CollectiveKind kind, const char* name, std::int64_t whole, std::int64_t given) {
  const std::int64_t wanted = part_of(whole, communicator.size(), communicator.rank()).count;
  if (given == wanted) return {};
  return error(ErrorKind::kBadRequest, "{}: the {} has {} elements; the part of rank {} of {} has {}", name_of(kind), name, given,
               communicator.rank(), whole, wanted);
}

Status check_same(CollectiveKind kind, std::int64_t input, std::int64_t output) {
  if (input == output) return {};
  return error(ErrorKind::kBadRequest, "{}: an input of {} elements and an output of {}; give as many", name_of(kind), input,
               output);
}

}  // namespace

Request::Request() = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&& other) noexcept {
  if (state_ != nullptr) static_cast<void>(wait());
  state_ = std::move(other.state_);
  return *this;
}
Request::~Request() {
  if (state_ != nullptr) static_cast<void>(wait());
}

Outcome Request::wait() {
  if (state_ == nullptr) return {};
  if (!state_->refusal.ok()) return state_->refusal;
  if (state_->inherited()) return outcome_of(inherited("wait"));
  return outcome_of(state_->request.wait());
}

bool Request::done() const { return state_ == nullptr || state_->request.done(); }
std::string Request::choice() const { return state_ == nullptr ? std::string() : state_->choice; }

Communicator::Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Outcome Communicator::open(const CommunicatorOptions& options) {
  if (is_open()) return {Outcome::Kind::kBadRequest, "the communicator is open already; use another one"};
  auto state = open_state(options);
  if (!state.ok()) return outcome_of(state.status());
  state_ = std::move(*state);
  return {};
}

Outcome Communicator::open_group(const Communicator& parent, int id, const std::vector<int>& ranks) {
  if (is_open()) return {Outcome::Kind::kBadRequest, "the communicator is open already; use another one"};
  if (!parent.is_open()) return {Outcome::Kind::kBadRequest, "the parent of a group is not open; call open() first"};
  if (parent.state_->inherited()) return outcome_of(inherited("open_group"));
  if (id < 1 || id >= static_cast<int>(collectives::kFirstPairGroup)) {
    return outcome_of(error(ErrorKind::kBadRequest, "group {} cannot be; legal: 1 to {}", id,
                            static_cast<int>(collectives::kFirstPairGroup) - 1));
  }
  auto group = parent.state_->all->subgroup(static_cast<std::uint32_t>(id), ranks);
  if (!group.ok()) return outcome_of(group.status());
  auto state = std::make_shared<CommunicatorState>();
  state->process = parent.state_->process;
  state->links = parent.state_->links;
  state->all = std::move(*group);
  state_ = std::move(state);
  return {};
}

int Communicator::rank() const { return is_open() ? state_->all->rank() : -1; }
int Communicator::size() const { return is_open() ? state_->all->size() : 0; }
LinkModel Communicator::links() const { return is_open() ? state_->links : LinkModel{}; }

Part part_of(std::int64_t count, int ranks, int rank) {
  if (count < 0 || rank < 0 || rank >= ranks) return {};
  const collectives::Range range = collectives::part_of(count, ranks, rank);
  return {range.first, range.count};
}

Request start_broadcast(Communicator& all, Buffer data, const CallOptions& options) {
  constexpr auto kKind = CollectiveKind::kBroadcast;
  if (const Status status = check_open(all, kKind); !status.ok()) return refused(status);
  return start(all, kKind, {}, data, data.count, options);
}

Request start_reduce(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options) {
  constexpr auto kKind = CollectiveKind::kReduce;
  Status status = check_open(all, kKind);
  const bool empty = output.data == nullptr && output.count == 0 && options.root != all.rank();
  if (empty) output.type = input.type;
  if (status.ok()) status = check_pair(kKind, input, output);
  if (status.ok() && !empty) status = check_same(kKind, input.count, output.count);
  if (!status.ok()) return refused(status);
  return start(all, kKind, input, output, input.count, options);
}

Request start_allreduce(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options) {
  constexpr auto kKind = CollectiveKind::kAllreduce;
  Status status = check_open(all, kKind);
  if (status.ok()) status = check_pair(kKind, input, output);
  if (status.ok()) status = check_same(kKind, input.count, output.count);
  if (!status.ok()) return refused(status);
  return start(all, kKind, input, output, input.count, options);
}

Request start_reduce_scatter(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options) {
  constexpr auto kKind = CollectiveKind::kReduceScatter;
  Status status = check_open(all, kKind);
  if (status.ok()) status = check_pair(kKind, input, output);
  if (status.ok()) status = check_part(all, kKind, "output", input.count, output.count);
  if (!status.ok()) return refused(status);
  return start(all, kKind, input, output, input.count, options);
}

Request start_allgather(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options) {
  constexpr auto kKind = CollectiveKind::kAllgather;
  Status status = check_open(all, kKind);
  if (status.ok()) status = check_pair(kKind, input, output);
  if (status.ok()) status = check_part(all, kKind, "input", output.count, input.count);
  if (!status.ok()) return refused(status);
  return start(all, kKind, input, output, output.count, options);
}

Request start_barrier(Communicator& all) {
  if (const Status status = check_open(all, CollectiveKind::kBarrier); !status.ok()) return refused(status);
  return start(all, CollectiveKind::kBarrier, {}, {}, 0, {});
}

}  // namespace paceline
