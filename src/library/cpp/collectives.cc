// paceline/collectives.h on the C interface: plain types to plainer ones and back. Everything that is decided is decided there.
#include "paceline/collectives.h"

#include <cmath>

#include "paceline/paceline.h"

namespace paceline {
namespace detail {

struct CommunicatorState {
  ~CommunicatorState() { static_cast<void>(paceline_close(handle, kFarewell, nullptr)); }
  static constexpr double kFarewell = 10;

  paceline_communicator* handle = nullptr;
  paceline_communicator_info info{};

  static CommunicatorState* of(const Communicator& communicator) { return communicator.state_.get(); }
};

struct RequestState {
  ~RequestState() {
    if (handle != nullptr) static_cast<void>(paceline_close(handle, 0, nullptr));
  }

  paceline_request* handle = nullptr;  // null: refused
  Outcome refusal;

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

static_assert(static_cast<int>(ElementType::kBFloat16) == PACELINE_BFLOAT16);
static_assert(static_cast<int>(Reduction::kMean) == PACELINE_MEAN);
static_assert(static_cast<int>(Algorithm::kDirect) + 1 == PACELINE_DIRECT);
static_assert(static_cast<int>(Outcome::Kind::kIo) == PACELINE_IO);

class Error {
 public:
  Error() { error_.size = sizeof error_; }
  operator paceline_error*() { return &error_; }
  Outcome outcome() const { return {static_cast<Outcome::Kind>(error_.kind), error_.message}; }

 private:
  paceline_error error_{};
};

Outcome bad_request(std::string message) { return {Outcome::Kind::kBadRequest, std::move(message)}; }

// In C, 0 stands for the default.
Outcome check_times(const CommunicatorOptions& options) {
  if (options.connect_seconds == 0) return bad_request("connect_seconds is 0; legal: 0.001 to 1000000");
  if (options.silence_seconds == 0) return bad_request("silence_seconds is 0; legal: 0.01 to 1000000");
  if (options.stall_seconds == 0) return bad_request("stall_seconds is 0; legal: 0.001 to 1000000");
  return {};
}

// ---- Calls

const char* name_of(int32_t operation) {
  constexpr const char* kNames[] = {"broadcast", "reduce", "allreduce", "reduce-scatter", "allgather", "barrier"};
  return kNames[operation - PACELINE_BROADCAST];
}

Request refused(Outcome reason) {
  auto state = std::make_unique<RequestState>();
  state->refusal = std::move(reason);
  return RequestState::make(std::move(state));
}

Request refused(int32_t operation, const std::string& why) {
  return refused(bad_request(std::string(name_of(operation)) + ": " + why));
}

Request start(const Communicator& all, int32_t operation, const ConstBuffer& input, const Buffer& output, std::int64_t count,
              const CallOptions& options) {
  if (!all.is_open()) return refused(operation, "the communicator is not open; call open() first");
  if (options.block_bytes == 0) return refused(operation, "a block of 0 bytes; at least 1 is needed");
  if (options.algorithm && *options.algorithm > Algorithm::kDirect)
    return refused(operation, std::to_string(static_cast<int>(*options.algorithm)) + " is no algorithm; legal: 0 to 4");
  if (output.type > ElementType::kBFloat16)  // the C interface has more, which are only moved
    return refused(operation, std::to_string(static_cast<int>(output.type)) + " is no element type; legal: 0 to 4");
  paceline_call call{};
  call.size = sizeof call;
  call.operation = operation;
  call.type = static_cast<int32_t>(output.type);
  call.reduction = static_cast<int32_t>(options.reduction);
  call.root = options.root;
  call.priority = options.priority;
  call.algorithm = options.algorithm ? static_cast<int32_t>(*options.algorithm) + 1 : PACELINE_BEST;
  call.block_bytes = options.block_bytes.value_or(0);
  call.count = count;
  call.input = input.data;
  call.output = output.data;
  auto state = std::make_unique<RequestState>();
  Error error;
  if (paceline_collective(CommunicatorState::of(all)->handle, &call, &state->handle, error) != PACELINE_DONE)
    return refused(error.outcome());
  return RequestState::make(std::move(state));
}

// Both buffers say what the elements are.
std::string difference(const ConstBuffer& input, const Buffer& output) {
  return input.type == output.type ? "" : "input and output have different element types; give the same";
}

std::string difference(std::int64_t input, std::int64_t output) {
  if (input == output) return "";
  return "an input of " + std::to_string(input) + " elements and an output of " + std::to_string(output) + "; give as many";
}

std::string part_difference(const Communicator& all, const char* name, std::int64_t whole, std::int64_t given) {
  const std::int64_t wanted = part_of(whole, all.size(), all.rank()).count;
  if (given == wanted || !all.is_open()) return "";
  return std::string("the ") + name + " has " + std::to_string(given) + " elements; the part of rank " +
         std::to_string(all.rank()) + " of " + std::to_string(whole) + " has " + std::to_string(wanted);
}

}  // namespace

Request::Request() = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&& other) noexcept {
  state_ = std::move(other.state_);
  return *this;
}
Request::~Request() = default;

Outcome Request::wait() {
  if (state_ == nullptr) return {};
  if (state_->handle == nullptr) return state_->refusal;
  Error error;
  return paceline_wait(state_->handle, INFINITY, error) == PACELINE_DONE ? Outcome() : error.outcome();
}

bool Request::done() const {
  return state_ == nullptr || state_->handle == nullptr || paceline_wait(state_->handle, 0, nullptr) != PACELINE_AGAIN;
}

std::string Request::choice() const {
  paceline_text* text = nullptr;
  const char* bytes = nullptr;
  if (state_ == nullptr || state_->handle == nullptr || paceline_request_choice(state_->handle, &text, nullptr) != PACELINE_DONE)
    return {};
  std::string choice;
  if (paceline_text_bytes(text, &bytes, nullptr, nullptr) == PACELINE_DONE) choice = bytes;
  static_cast<void>(paceline_close(text, 0, nullptr));
  return choice;
}

Communicator::Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

namespace {

// The state of what was opened by `open`, which gives the handle.
template <typename Open>
Outcome open_state(std::shared_ptr<CommunicatorState>& to, Open open) {
  Error error;
  paceline_communicator* handle = nullptr;
  if (open(&handle, error) != PACELINE_DONE) return error.outcome();
  auto state = std::make_shared<CommunicatorState>();
  state->handle = handle;
  state->info.size = sizeof state->info;
  if (paceline_communicator_describe(handle, &state->info, error) != PACELINE_DONE) return error.outcome();
  to = std::move(state);
  return {};
}

}  // namespace

Outcome Communicator::open(const CommunicatorOptions& options) {
  if (is_open()) return bad_request("the communicator is open already; use another one");
  if (Outcome outcome = check_times(options); !outcome.ok()) return outcome;
  std::vector<const char*> addresses;
  for (const std::string& address : options.addresses) addresses.push_back(address.c_str());
  paceline_link link{};
  link.size = sizeof link;
  if (options.link) {
    link.alpha = options.link->alpha;
    link.beta = options.link->beta;
    link.gamma = options.link->gamma;
  }
  paceline_communicator_options plain{};
  plain.size = sizeof plain;
  plain.rank = options.rank;
  plain.ranks = options.ranks;
  plain.addresses = addresses.data();
  plain.address_count = addresses.size();
  plain.coordinator = options.coordinator.empty() ? nullptr : options.coordinator.c_str();
  plain.bind = options.bind.c_str();
  plain.link = options.link ? &link : nullptr;
  plain.rank_order = options.rank_order ? 1 : 0;
  plain.unconfirmed = options.confirm ? 0 : 1;
  plain.connect_seconds = options.connect_seconds;
  plain.silence_seconds = options.silence_seconds;
  plain.stall_seconds = options.stall_seconds;
  plain.spin_seconds = options.spin_seconds;
  plain.job_key_file = options.job_key_file.empty() ? nullptr : options.job_key_file.c_str();
  plain.security = options.security.c_str();
  return open_state(state_, [&](paceline_communicator** handle, paceline_error* error) {
    return paceline_communicator_open(&plain, handle, error);
  });
}

Outcome Communicator::open_group(const Communicator& parent, std::int64_t id, const std::vector<int>& ranks) {
  if (is_open()) return bad_request("the communicator is open already; use another one");
  if (!parent.is_open()) return bad_request("the parent of a group is not open; call open() first");
  return open_state(state_, [&](paceline_communicator** handle, paceline_error* error) {
    return paceline_communicator_group(parent.state_->handle, id, ranks.data(), ranks.size(), handle, error);
  });
}

int Communicator::rank() const { return is_open() ? state_->info.rank : -1; }
int Communicator::size() const { return is_open() ? state_->info.ranks : 0; }
LinkModel Communicator::links() const {
  if (!is_open()) return {};
  return {state_->info.alpha, state_->info.beta, state_->info.gamma, state_->info.residual};
}

Part part_of(std::int64_t count, int ranks, int rank) {
  Part part;
  static_cast<void>(paceline_part(count, ranks, rank, &part.first, &part.count, nullptr));
  return part;
}

Request start_broadcast(Communicator& all, Buffer data, const CallOptions& options) {
  return start(all, PACELINE_BROADCAST, {}, data, data.count, options);
}

Request start_reduce(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options) {
  const bool empty = output.data == nullptr && output.count == 0 && options.root != all.rank();
  if (empty) output = {nullptr, input.count, input.type};
  if (const std::string why = difference(input, output); !why.empty()) return refused(PACELINE_REDUCE, why);
  if (const std::string why = difference(input.count, output.count); !why.empty()) return refused(PACELINE_REDUCE, why);
  return start(all, PACELINE_REDUCE, input, output, input.count, options);
}

Request start_allreduce(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options) {
  if (const std::string why = difference(input, output); !why.empty()) return refused(PACELINE_ALLREDUCE, why);
  if (const std::string why = difference(input.count, output.count); !why.empty()) return refused(PACELINE_ALLREDUCE, why);
  return start(all, PACELINE_ALLREDUCE, input, output, input.count, options);
}

Request start_reduce_scatter(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options) {
  if (const std::string why = difference(input, output); !why.empty()) return refused(PACELINE_REDUCE_SCATTER, why);
  if (const std::string why = part_difference(all, "output", input.count, output.count); !why.empty())
    return refused(PACELINE_REDUCE_SCATTER, why);
  return start(all, PACELINE_REDUCE_SCATTER, input, output, input.count, options);
}

Request start_allgather(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options) {
  if (const std::string why = difference(input, output); !why.empty()) return refused(PACELINE_ALLGATHER, why);
  if (const std::string why = part_difference(all, "input", output.count, input.count); !why.empty())
    return refused(PACELINE_ALLGATHER, why);
  return start(all, PACELINE_ALLGATHER, input, output, output.count, options);
}

Request start_barrier(Communicator& all) { return start(all, PACELINE_BARRIER, {}, {}, 0, {}); }

}  // namespace paceline
