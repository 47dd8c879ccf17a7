// How operations end that do not end well: no memory, ranks that disagree, peers that are lost.
#include <algorithm>

#include "collectives/exec/engine.h"
#include "wire/control.h"

namespace paceline::collectives {

using wire::CollectiveHead;
using wire::MessageHead;
using wire::MessageKind;

namespace {

// " of the group of ranks [0, 1]"
std::string of_group(const GroupBook& book, std::uint32_t number) {
  const auto ranks = book.ranks_of(number);
  return ranks.empty() ? std::string() : fmt::format(" of the group of ranks {}", list_of(ranks));
}

}  // namespace

// The others would wait for this rank.
void Engine::end_without_memory(const Job& job, const Done& done) {
  const std::int64_t bytes = job.program->scratch * static_cast<std::int64_t>(moved(job.dtype).size);
  const Status reason = error(ErrorKind::kOverloaded,
                              "rank {} has no memory for operation {}, {}, which needs {} bytes besides its buffers; free some, or "
                              "cut the message into several",
                              self_.value, job.head.number, describe(job.head), bytes)
                            .because({"memory", ""});
  fail(reason);
  done(failure_.ok() ? reason : failure_);
}

bool Engine::agrees(const Live& live, Rank from, const CollectiveHead& head) {
  if (same_operation(live.job.head, head)) return true;
  complain(from, head, live.job.head);
  return false;
}

// What is wrong with a message of an operation that both call, in the words of unfit. The index of one without a payload, which is
// the first of its sender, says how that one cuts the operation, so that ranks that cut it in different ways find out before any is
// done.
std::optional<std::string> Engine::misfit_of(const Live& live, int peer, const CollectiveHead& theirs, std::uint64_t bytes) {
  const std::uint32_t index = theirs.index;
  const std::int64_t given = live.runner.program().elements_to[static_cast<std::size_t>(peer)];
  if (theirs.kind == CollectiveKind::kAlltoall && theirs.count != given)
    return fmt::format("its part and takes {} elements instead of the {} that it is given", theirs.count, given);
  if (bytes > 0) return live.runner.misfit(peer, index, bytes);
  const std::uint32_t own = live.runner.program().cut;
  if (index == own) return live.runner.misfit(peer, 0, 0);
  const auto text = [size = moved(live.job.dtype).size](std::uint32_t cut) {
    return fmt::format("{}{}", cut * size, cut == kMostCut ? " or more" : "");
  };
  return fmt::format("blocks of {} bytes instead of {}", text(index), text(own));
}

// Both call the same operation, but one of them cuts it into other messages.
Status Engine::unfit(const Live& live, Rank from, const std::string& problem) const {
  return error(ErrorKind::kBadRequest, "ranks {} and {} disagree on operation {}, {}: rank {} sends {}; {}",
               std::min(self_, from).value, std::max(self_, from).value, live.job.head.number, describe(live.job.head), from.value,
               problem,
               live.job.head.kind == CollectiveKind::kAlltoall ? "what a rank gives to another one is what that one takes of it"
                                                               : "give the same block_bytes on all ranks")
      .because({"disagree", ""});
}

// A message for an operation that is over here: the sender believes it to be another one, or only wants to hear that it has begun.
void Engine::on_foreign(Rank from, const MessageHead& message, const CollectiveHead& theirs) {
  for (const CollectiveHead& own : past_[theirs.group].recent) {
    if (own.number == theirs.number && !same_operation(own, theirs)) return complain(from, theirs, own);
  }
  if (message.kind == MessageKind::kCollectiveReady) return answer(from, theirs, message.layer);
  fail(error(ErrorKind::kCorrupt, "rank {} sent a message for operation {} ({}), which is over", from.value, theirs.number,
             describe(theirs)));
}

void Engine::complain(Rank from, const CollectiveHead& theirs, const CollectiveHead& own) {
  if (!failure_.ok() || complained_) return;
  const bool own_first = self_ < from;
  const Status reason =
      error(ErrorKind::kBadRequest,
            "ranks {} and {} disagree on operation {}{}: {} against {}; all ranks must call the same operations in the same order",
            std::min(self_, from).value, std::max(self_, from).value, own.number, of_group(book_, own.group),
            describe(own_first ? own : theirs), describe(own_first ? theirs : own))
          .because({"disagree", ""});
  fail(reason);
}

void Engine::tell(Rank to, const Status& reason) {
  const auto told = encode(wire::stop_for(reason));
  std::span<const std::byte> payload = told;
  MessageHead head;
  head.kind = MessageKind::kCollectiveFailed;
  head.layer = wire::kControlLayer;
  head.payload_bytes = payload.size();
  const std::uint64_t ticket = kCopyTicket | copies_.take(to, payload);
  sender_.send(to, head, payload, ticket);
}

// Only rank 0 decides, so that of several reasons the same one counts everywhere. When it is lost, whoever fails first tells all:
// the others may need nothing of rank 0 any more, and would find out only when this one ends too, and blame it.
void Engine::fail(const Status& reason) {
  if (!failure_.ok() || complained_) return;
  if (self_ == kJudge) {
    for (std::int32_t rank = 1; rank < ranks_; ++rank) tell(Rank{rank}, reason);
    return cancel(reason);
  }
  if (lost_.contains(kJudge)) {
    for (std::int32_t rank = 1; rank < ranks_; ++rank) {
      if (Rank{rank} != self_ && !lost_.contains(Rank{rank})) tell(Rank{rank}, reason);
    }
    return cancel(reason);
  }
  complained_ = true;
  complaint_ = reason;
  tell(kJudge, reason);
}

void Engine::on_failed_message(Rank from, std::span<const std::byte> payload) {
  const auto stop = wire::decode_stop(payload);
  const Status reason = stop.ok() ? stop->status() : stop.status();
  if (reason.ok()) return;
  if (from == kJudge) return cancel(reason);
  fail(reason);
}

void Engine::cancel(const Status& reason) {
  if (!failure_.ok()) return;
  failure_ = reason;
  finish_all_that_can();
}

void Engine::on_stall(std::uint32_t group, std::uint32_t number, Duration waited) {
  const Live* live = find({group, number});
  if (live == nullptr) return;
  const int peer = live->runner.waits_for();
  fail(error(ErrorKind::kDeadline, "rank {} waited {:.1f} s in operation {}, {}, for rank {}, which is alive but makes no progress",
             self_.value, seconds(waited), number, describe(live->job.head),
             peer < 0 ? self_.value : live->job.group->ranks[static_cast<std::size_t>(peer)].value)
           .because({"stall", ""}));
}

// An operation begins. What lost ranks had sent for it has been used; whether that was all is known only then. The operation may be
// over when this returns.
void Engine::part_with_lost(Live& live) {
  Status missed;
  for (const auto& [rank, reason] : lost_) {
    const int peer = live.job.group->place_of(rank);
    if (peer < 0) continue;
    if (missed.ok() && live.runner.needs(peer)) missed = reason;
    live.runner.on_lost(peer);
  }
  if (const auto who = book_.left_before(live.job.head.group, live.job.head.number); who && missed.ok())
    missed = left_too_early(book_, self_, *who, live.job.head);
  if (!missed.ok()) fail(missed);
}

void Engine::on_peer_lost(Rank peer, wire::Channel, const Status& reason) {
  lost_.emplace(peer, reason);
  early_.on_lost(peer);
  std::erase_if(ignored_, [&](const Ignored& one) { return one.from == peer; });
  copies_.on_lost(peer);
  bool needed = false;
  for (const auto& [key, live] : live_) {
    const int place = live->job.group->place_of(peer);
    if (place < 0) continue;
    needed = needed || live->runner.needs(place);
    live->runner.on_lost(place);
  }
  // Without its judge a complaint is the verdict, unless that has come already.
  const bool undecided = complained_ && peer == kJudge;
  if (undecided) complained_ = false;
  if (undecided || needed) fail(undecided ? complaint_ : reason);
  for (const std::uint32_t group : book_.on_lost(peer)) forget_if_over(group);
  finish_all_that_can();
}

}  // namespace paceline::collectives
