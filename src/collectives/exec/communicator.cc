#include "collectives/exec/communicator.h"

#include <algorithm>
#include <future>

#include "base/log.h"

namespace paceline::collectives {
namespace {

// Until a thread that found the loop served by another one looks again.
constexpr Duration kNextTry = std::chrono::milliseconds(5);

}  // namespace

struct Request::State {
  State(Engine& on, Communicator::Post through, const CommunicatorOptions& options)
      : engine(on),
        post(std::move(through)),
        driver(options.driver),
        stall_deadline(options.stall_deadline),
        spin(options.driver == nullptr ? options.spin : Duration::zero()) {}

  Engine& engine;
  Communicator::Post post;
  Driver* driver;
  Duration stall_deadline, spin;
  std::uint32_t group = 0, number = 0;
  Choice choice;

  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> over{false};
  Status status;  // once over
  std::optional<TimePoint> waited_since;

  void finish(const Status& how) {
    {
      const std::lock_guard lock(mutex);
      status = how;
      over = true;
      changed.notify_all();
    }
    if (driver != nullptr) driver->on_over();
  }

  // When somebody began to wait, who may do so until the stall deadline.
  TimePoint stalled_at() {
    const std::lock_guard lock(mutex);
    if (!waited_since) waited_since = std::chrono::steady_clock::now();
    return *waited_since + stall_deadline;
  }

  // Serves the loop on this thread until it is over, or as long as it may take.
  void drive_until_over(TimePoint until) {
    while (!over) {
      const auto left = until - std::chrono::steady_clock::now();
      if (left <= Duration::zero()) return;
      if (driver->drive(over, left)) continue;
      std::unique_lock lock(mutex);
      changed.wait_for(lock, kNextTry, [this] { return over.load(); });
    }
  }
};

namespace {

bool look_for(const std::atomic<bool>& over, Duration limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!over) {
    if (std::chrono::steady_clock::now() >= until) return false;
  }
  return true;
}

}  // namespace

Request& Request::operator=(Request&& other) noexcept {
  if (state_ != nullptr) static_cast<void>(wait());
  state_ = std::move(other.state_);
  return *this;
}

Request::~Request() {
  if (state_ != nullptr) static_cast<void>(wait());
}

bool Request::done() const { return state_ == nullptr || state_->over; }

const Choice& Request::choice() const {
  static const Choice none;
  return state_ == nullptr ? none : state_->choice;
}

std::optional<Status> Request::wait(Duration limit) {
  if (state_ == nullptr) return Status();
  State& state = *state_;
  const TimePoint now = std::chrono::steady_clock::now();
  // A look is no wait: what is looked at now and waited for later has its whole time then.
  const TimePoint stalled = limit > Duration{0} ? state.stalled_at() : TimePoint::max();
  const bool short_of_it = limit < stalled - now;
  const TimePoint until = short_of_it ? now + limit : stalled;
  if (state.spin > Duration{0}) static_cast<void>(look_for(state.over, std::min(state.spin, until - now)));
  const bool driven = state.driver != nullptr;
  if (driven) state.drive_until_over(until);
  std::unique_lock lock(state.mutex);
  if (!state.changed.wait_until(lock, driven ? now : until, [&] { return state.over.load(); })) {
    if (short_of_it) return std::nullopt;
    // The engine names the culprit and ends the operation once nothing of its buffers is in use.
    state.post([&engine = state.engine, group = state.group, number = state.number, waited = state.stall_deadline] {
      engine.on_stall(group, number, waited);
    });
    state.changed.wait(lock, [&] { return state.over.load(); });
  }
  return state.status;
}

Group world_group(Rank self, std::int32_t ranks) {
  Group group;
  for (std::int32_t rank = 0; rank < ranks; ++rank) group.ranks.push_back(Rank{rank});
  group.self = self.value;
  return group;
}

Communicator::Communicator(Engine& engine, Post post, Group group, CommunicatorOptions options)
    : engine_(engine),
      post_(std::move(post)),
      group_(std::make_shared<const Group>(std::move(group))),
      options_(std::move(options)),
      planner_(group_, options_.rules) {}

// What a call reads and writes.
std::vector<Communicator::InFlight> Communicator::areas_of(const Call& call) const {
  const auto size = static_cast<std::int64_t>(moved(call.dtype).size);
  const std::int64_t part = part_of(call.count, group_->size(), group_->self).count;
  const bool in_place_reduce = call.kind == CollectiveKind::kReduce && call.input == call.output;
  const Extents extents = extents_of(*group_, call);
  std::vector<InFlight> areas;
  const auto add = [&](const void* data, std::int64_t elements, bool written = true) {
    const auto* begin = static_cast<const std::byte*>(data);
    if (data != nullptr && elements > 0) areas.push_back({{}, begin, begin + elements * size, written});
  };
  switch (call.kind) {
    case CollectiveKind::kReduce:
      if (in_place_reduce || call.root == group_->self) add(call.output, call.count);
      break;
    case CollectiveKind::kReduceScatter: {
      const auto* input = static_cast<const std::byte*>(call.input);
      const bool in_place = call.output == input + part_of(call.count, group_->size(), group_->self).first * size;
      add(in_place ? call.input : call.output, in_place ? call.count : part);
      break;
    }
    case CollectiveKind::kBarrier:
      break;
    case CollectiveKind::kAlltoall:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      add(call.input, extents.input, false);
      add(call.output, extents.output);
      break;
    default:
      add(call.output, call.count);
  }
  return areas;
}

// Inputs are copied or are the outputs, but for those of exchanges, which may be read by several.
Status Communicator::check_in_flight(const Call& call) {
  std::erase_if(in_flight_, [](const InFlight& one) {
    const auto state = one.state.lock();
    return state == nullptr || state->over;
  });
  const auto size = static_cast<std::int64_t>(moved(call.dtype).size);
  auto areas = areas_of(call);
  if (call.input != nullptr) {
    const auto* begin = static_cast<const std::byte*>(call.input);
    areas.push_back({{}, begin, begin + extents_of(*group_, call).input * size, false});
  }
  for (const InFlight& area : areas) {
    for (const InFlight& other : in_flight_) {
      if ((area.written || other.written) && area.begin < other.end && other.begin < area.end) {
        return error(ErrorKind::kBadRequest, "{}: its buffer is still used by an operation in flight; wait for that one first",
                     to_string(call.kind));
      }
    }
  }
  return {};
}

Result<Request> Communicator::start(const Call& call) {
  PACELINE_RETURN_IF_ERROR(validate(*group_, call, options_.rules));
  const std::lock_guard lock(starting_);
  PACELINE_RETURN_IF_ERROR(check_in_flight(call));
  auto state = std::make_shared<Request::State>(engine_, post_, options_);
  state->choice = planner_.choose(call);
  if (state->choice.clipped && !std::exchange(said_clipped_, true)) {
    log::warn("{}: a block of {} bytes was asked for; the message has only {}, so it is one block", to_string(call.kind),
              call.block->count, state->choice.block->count);
  }
  state->group = group_->id;
  state->number = number_ + 1;
  // May lack memory. Then nothing has begun, and the number is the next call's: all ranks must count alike.
  auto job = std::make_shared<Job>(planner_.prepare(call, state->choice, state->number));
  for (InFlight area : areas_of(call)) {
    area.state = state;
    in_flight_.push_back(area);
  }
  number_ = state->number;
  run_on_loop(
      [&engine = engine_, job, state] { engine.start(std::move(*job), [state](const Status& status) { state->finish(status); }); });
  return Request(std::move(state));
}

Status Communicator::run(const Call& call) {
  PACELINE_ASSIGN_OR_RETURN(Request request, start(call));
  return request.wait();
}

Communicator::~Communicator() {
  if (made_) run_on_loop([&engine = engine_, number = group_->id] { engine.close_group(number); });
}

void Communicator::run_on_loop(std::function<void()> work) {
  if (options_.driver == nullptr || !options_.driver->try_run(work)) post_(std::move(work));
}

Result<std::unique_ptr<Communicator>> Communicator::subgroup(std::uint64_t name, const std::vector<int>& ranks) {
  if (name == 0) return error(ErrorKind::kBadRequest, "group {} cannot be; legal: 1 and more", name);
  Group group;
  group.self = -1;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size()) {
      return error(ErrorKind::kBadRequest, "rank {} of group {} is no rank of its parent; legal: 0 to {}", rank, name, size() - 1);
    }
    const Rank in_job = group_->ranks[static_cast<std::size_t>(rank)];
    if (!group.ranks.empty() && !(group.ranks.back() < in_job))
      return error(ErrorKind::kBadRequest, "the ranks of group {} are not ascending", name);
    if (rank == group_->self) group.self = group.size();
    group.ranks.push_back(in_job);
  }
  if (group.self < 0) return error(ErrorKind::kBadRequest, "rank {} is not in group {}", group_->self, name);
  PACELINE_ASSIGN_OR_RETURN(group.id, engine_.number_of_group(name));
  auto made = std::make_unique<Communicator>(engine_, post_, std::move(group), options_);
  made->made_ = true;
  run_on_loop([&engine = engine_, ranks = made->group_, name] { engine.open_group(*ranks, name); });
  return made;
}

bool Communicator::is_awaited() {
  std::promise<bool> told;
  const std::lock_guard lock(starting_);
  run_on_loop([&] { told.set_value(engine_.is_awaited(group_->id, number_ + 1)); });
  return told.get_future().get();
}

std::vector<int> Communicator::gone() {
  std::promise<std::vector<Rank>> told;
  run_on_loop([&] { told.set_value(engine_.gone()); });
  std::vector<int> ranks;
  for (const Rank rank : told.get_future().get()) {
    if (const int place = group_->place_of(rank); place >= 0) ranks.push_back(place);
  }
  return ranks;
}

}  // namespace paceline::collectives
