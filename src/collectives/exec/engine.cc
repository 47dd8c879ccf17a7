#include "collectives/exec/engine.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "collectives/exec/link_measurement.h"

namespace paceline::collectives {
namespace {

using wire::CollectiveHead;
using wire::MessageHead;
using wire::MessageKind;

constexpr std::size_t kRemembered = 64;             // operations of a group whose description is kept
constexpr std::uint64_t kMostReasonBytes = 65'536;  // of a failure

Status check_kind(const MessageHead& head) {
  const bool ours = head.kind == MessageKind::kCollective || head.kind == MessageKind::kCollectiveReady ||
                    head.kind == MessageKind::kCollectiveFailed || head.kind == MessageKind::kCollectiveGroup ||
                    head.kind == MessageKind::kCollectiveClosed;
  return ours ? Status()
              : error(ErrorKind::kCorrupt, "a message of kind {}, which is none of a collective", static_cast<int>(head.kind));
}

}  // namespace

Engine::Engine(Rank self, std::int32_t ranks, session::Sender& sender)
    : self_(self),
      ranks_(ranks),
      sender_(sender),
      book_(self, kFirstPairGroup),
      credit_(ranks),
      early_(self, ranks, pool_),
      copies_(pool_) {}
Engine::~Engine() = default;

Engine::Live* Engine::find(const Key& key) {
  const auto found = live_.find(key);
  return found == live_.end() ? nullptr : found->second.get();
}

void Engine::start(Job job, Done done) {
  if (!failure_.ok()) return done(failure_);
  const Key key{job.head.group, job.head.number};
  Past& past = past_[key.first];
  past.last = key.second;
  past.recent.push_back(job.head);
  if (past.recent.size() > kRemembered) past.recent.pop_front();
  latest_ = std::max(latest_, job.priority);
  auto runner = make_runner(job);
  if (!runner) return end_without_memory(job, done);
  last_id_ = last_id_ % kMostIds + 1;
  const std::uint32_t id = last_id_;
  auto& live = *(live_[key] = std::unique_ptr<Live>(new Live{std::move(job), std::move(done), std::move(*runner), id}));
  by_id_[id] = key;
  for (int peer = 0; peer < live.job.group->size(); ++peer) begin_with(live, peer);
  if (const Status status = take_early(live); !status.ok()) return fail(status);
  if (failure_.ok() && !complained_) {
    pump(live);
    part_with_lost(live);
  }
  finish_if_over(key);
}

// Nothing: there is no memory for it. The loop's other work must not end for that.
std::optional<Runner> Engine::make_runner(const Job& job) {
  try {
    return Runner(job.program, job.buffer, job.dtype, job.reduction, pool_, job.input);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

// Finds out whether the peer has room for what goes there, and tells it that the operation has begun here. So does the peer: by
// itself when it expects more than may come early, otherwise when it is asked.
void Engine::begin_with(Live& live, int peer) {
  const CollectiveHead& operation = live.job.head;
  const Rank rank = live.job.group->ranks[static_cast<std::size_t>(peer)];
  const auto size = static_cast<std::int64_t>(moved(live.job.dtype).size);
  const std::int64_t from = live.runner.program().elements_from[static_cast<std::size_t>(peer)] * size;
  const std::int64_t to = live.runner.program().elements_to[static_cast<std::size_t>(peer)] * size;
  const bool held = to > 0 && !credit_.take(rank, operation, std::min(to, kEagerBytes));
  if (held) live.runner.hold(peer);
  const bool asks = held && to <= kEagerBytes;
  if (asks || from > kEagerBytes) send_ready(rank, operation, asks ? wire::kAsksBack : 0U, live.job.priority);
  if (!held) return;
  for (const CollectiveHead& other : credit_.to_ask_about(rank, operation.group))
    send_ready(rank, other, wire::kAsksBack, live.job.priority);
}

void Engine::send_ready(Rank to, CollectiveHead operation, std::uint32_t index, Layer priority) {
  MessageHead head;
  head.kind = MessageKind::kCollectiveReady;
  head.layer = priority;
  operation.index = index;
  pack(operation, head);
  sender_.send(to, head, {}, kNoTicket);
}

// The operation has begun here too. Nothing of a group leaves after the word that it is closed, which says it too.
void Engine::answer(Rank from, const CollectiveHead& theirs, Layer priority) {
  if (theirs.index == wire::kAsksBack && !book_.is_closed_here(theirs.group))
    send_ready(from, theirs, 0, std::min(priority, latest_));
}

// What came before the operation was begun here. The operation may be over when this returns an error or somebody disagreed.
Status Engine::take_early(Live& live) {
  auto taken = early_.take({live.job.head.group, live.job.head.number});
  const EarlyMessage* foreign = nullptr;
  Status problem;
  for (EarlyMessage& early : taken) {
    const auto bytes = early.block ? early.block.bytes().size() : 0;
    const int peer = live.job.group->place_of(early.from);
    if (peer < 0 || !same_operation(live.job.head, early.head)) {
      foreign = &early;
      if (early.block && !early.complete) ignored_.push_back({early.from, std::move(early.block)});  // it still arrives
    } else if (early.ready) {
      live.runner.on_ready(peer);
      answer(early.from, early.head, live.job.priority);
    } else {
      const auto misfit = misfit_of(live, peer, early.head, bytes);
      Status status = misfit ? unfit(live, early.from, *misfit) : Status();
      if (status.ok() && early.block) status = live.runner.on_begun(peer, early.head.index, early.block);
      if (status.ok() && early.complete) status = live.runner.on_arrived(peer, bytes > 0 ? early.head.index : 0);
      if (early.block && !early.complete) ignored_.push_back({early.from, std::move(early.block)});
      if (problem.ok()) problem = status;
    }
  }
  PACELINE_RETURN_IF_ERROR(problem);
  if (foreign != nullptr) complain(foreign->from, foreign->head, wire::CollectiveHead(live.job.head));
  return {};
}

void Engine::pump(Live& live) {
  for (bool copied = true; copied;) {  // what has left as a copy may let more be done
    copied = false;
    sends_.clear();
    live.runner.advance(sends_);
    for (const Runner::Send& one : sends_) copied = send(live, one) || copied;
  }
}

bool Engine::send(Live& live, const Runner::Send& send) {
  const Rank to = live.job.group->ranks[static_cast<std::size_t>(send.peer)];
  MessageHead head;
  head.kind = MessageKind::kCollective;
  head.layer = live.job.priority;
  head.payload_bytes = send.payload.size();
  CollectiveHead own = live.job.head;
  own.index = send.payload.empty() ? live.runner.program().cut : send.index;
  if (own.kind == wire::CollectiveKind::kAlltoall)  // so both ends find out whose part is not what the other one takes
    own.count = live.runner.program().elements_from[static_cast<std::size_t>(send.peer)];
  pack(own, head);
  std::span<const std::byte> payload = send.payload;
  const bool copied = wire::is_copied_collective(head) && !lost_.contains(to) &&
                      copies_.bytes() + static_cast<std::int64_t>(payload.size()) <= kMostCopiedBytes;
  std::uint64_t ticket = std::uint64_t{live.id} << 32 | send.action;
  if (copied) ticket = payload.empty() ? kNoTicket : kCopyTicket | copies_.take(to, payload);
  sender_.send(to, head, payload, ticket);
  if (copied) live.runner.on_delivered(send.action);
  return copied;
}

void Engine::finish_if_over(const Key& key) {
  Live* const live = find(key);
  if (live == nullptr) return;
  const bool well = failure_.ok() && live->runner.done();
  if (!well && (failure_.ok() || live->runner.borrowed())) return;
  const std::unique_ptr<Live> over = std::move(live_.extract(key).mapped());
  by_id_.erase(over->id);
  const Job& job = over->job;
  if (well) {
    const auto size = static_cast<std::int64_t>(moved(job.dtype).size);
    std::byte* const result = job.buffer + job.result.first * size;
    if (job.scale != 1 && job.result.count > 0)
      tensor::scale({result, job.dtype, static_cast<std::size_t>(job.result.count)}, job.scale);
    if (job.copy_to != nullptr && job.result.count > 0)
      std::memcpy(job.copy_to, result, static_cast<std::size_t>(job.result.count * size));
  }
  over->done(well ? Status() : failure_);
}

void Engine::finish_all_that_can() {
  std::vector<Key> keys;
  for (const auto& [key, live] : live_) keys.push_back(key);
  for (const Key& key : keys) finish_if_over(key);
}

// Messages.

Result<std::span<std::byte>> Engine::ignore(Rank from, const MessageHead& head) {
  ignored_.push_back({from, pool_.take(head.payload_bytes)});
  return ignored_.back().block.bytes();
}

bool Engine::is_over(const CollectiveHead& head) const {
  const auto past = past_.find(head.group);
  return past != past_.end() && !is_after(head.number, past->second.last);
}

Result<std::span<std::byte>> Engine::on_message_begin(Rank from, const MessageHead& head) {
  PACELINE_RETURN_IF_ERROR(check_kind(head));
  if (head.kind == MessageKind::kCollectiveFailed) {
    if (head.payload_bytes > kMostReasonBytes)
      return error(ErrorKind::kCorrupt, "a reason of {} bytes; at most {} are legal", head.payload_bytes, kMostReasonBytes);
    auto& reason = reasons_[from];
    reason.resize(head.payload_bytes);
    return std::span(reason);
  }
  if (head.kind == MessageKind::kCollectiveReady || head.kind == MessageKind::kCollectiveClosed)
    return error(ErrorKind::kCorrupt, "a payload where none belongs");
  if (head.kind == MessageKind::kCollectiveGroup) {
    if (head.payload_bytes > wire::kMostCollectiveGroupBytes)
      return error(ErrorKind::kCorrupt, "a group of {} bytes; at most {} are legal", head.payload_bytes,
                   wire::kMostCollectiveGroupBytes);
    return ignore(from, head);
  }
  PACELINE_ASSIGN_OR_RETURN(const auto read_head, read(from, head));
  if (!read_head || !failure_.ok() || complained_) return ignore(from, head);
  const CollectiveHead& theirs = *read_head;
  if (Live* live = find({theirs.group, theirs.number})) {
    const int peer = live->job.group->place_of(from);
    if (peer < 0) return error(ErrorKind::kCorrupt, "a message for a group that rank {} is not in", from.value);
    if (!agrees(*live, from, theirs)) return ignore(from, head);
    if (const auto problem = misfit_of(*live, peer, theirs, head.payload_bytes)) {
      fail(unfit(*live, from, *problem));
      return ignore(from, head);
    }
    return live->runner.on_begin(peer, theirs.index, head.payload_bytes);
  }
  if (is_over(theirs)) {
    on_foreign(from, head, theirs);
    return ignore(from, head);
  }
  if (book_.is_closed_here(theirs.group)) return ignore(from, head);
  return early_.on_begin(from, theirs, head.payload_bytes);
}

void Engine::on_message(Rank from, const MessageHead& head, std::span<std::byte> payload) {
  if (head.kind == MessageKind::kCollectiveFailed) return on_failed_message(from, payload);
  if (head.payload_bytes > 0) {
    const auto ignored = std::find_if(ignored_.begin(), ignored_.end(), [&](const Ignored& one) {
      return one.from == from && one.block.bytes().data() == payload.data();
    });
    if (ignored != ignored_.end()) {
      if (head.kind == MessageKind::kCollectiveGroup) on_group_message(from, head, payload);
      ignored_.erase(
          std::ranges::find_if(ignored_, [&](const Ignored& one) { return one.block.bytes().data() == payload.data(); }));
      return;
    }
  }
  if (head.kind == MessageKind::kCollectiveClosed) return on_closed_message(from, head);
  const auto said = read(from, head);
  if (!said.ok()) return fail(said.status());
  if (!*said) return;
  const CollectiveHead& theirs = **said;
  const Key key{theirs.group, theirs.number};
  credit_.on_begun(from, theirs);
  const bool ready = head.kind == MessageKind::kCollectiveReady;
  if (Live* live = find(key)) {
    const int peer = live->job.group->place_of(from);
    if (peer < 0) return fail(error(ErrorKind::kCorrupt, "rank {} sent a message for a group that it is not in", from.value));
    if (head.payload_bytes == 0 && !agrees(*live, from, theirs)) return;
    if (ready) {
      live->runner.on_ready(peer);
      answer(from, theirs, head.layer);
    } else {
      if (const auto problem = head.payload_bytes == 0 ? misfit_of(*live, peer, theirs, 0) : std::nullopt)
        return fail(unfit(*live, from, *problem));
      if (const Status status = live->runner.on_arrived(peer, head.payload_bytes > 0 ? theirs.index : 0); !status.ok())
        return fail(error(status.kind(), "rank {} sends {}", from.value, status.message()));
    }
    if (failure_.ok() && !complained_) pump(*live);
    return finish_if_over(key);
  }
  if (!failure_.ok() || complained_ || (!is_over(theirs) && book_.is_closed_here(theirs.group))) return;
  if (head.payload_bytes == 0) return is_over(theirs) ? on_foreign(from, head, theirs) : early_.add(from, theirs, ready);
  early_.on_arrived(from, theirs, payload);
}

void Engine::on_delivered(Rank to, wire::Channel, std::uint64_t ticket) {
  if (ticket == kNoTicket) return;
  if ((ticket & kCopyTicket) != 0) return copies_.drop(static_cast<std::uint32_t>(ticket));
  if ((ticket & kClosedTicket) != 0) {
    book_.on_told(to, static_cast<std::uint32_t>(ticket));
    return forget_if_over(static_cast<std::uint32_t>(ticket));
  }
  const auto found = by_id_.find(static_cast<std::uint32_t>(ticket >> 32));
  if (found == by_id_.end()) return;
  const Key key = found->second;
  Live& live = *live_.at(key);
  live.runner.on_delivered(static_cast<std::uint32_t>(ticket));
  if (failure_.ok() && !complained_) pump(live);
  finish_if_over(key);
}

}  // namespace paceline::collectives
