// Which groups there are: what ranks tell each other when they make and close them.
#include <algorithm>

#include "collectives/exec/engine.h"

namespace paceline::collectives {

using wire::CollectiveHead;
using wire::MessageHead;
using wire::MessageKind;

namespace {

Status differ(const GroupBook::Difference& two) {
  return error(ErrorKind::kBadRequest,
               "ranks {} and {} disagree on the ranks of a group: {} against {}; give the same list on all of them", two.one.value,
               two.other.value, list_of(two.ones), list_of(two.others))
      .because({"disagree", ""});
}

}  // namespace

Result<std::uint32_t> Engine::number_of_group(std::uint64_t name) {
  if (const auto number = book_.number_of(name)) return *number;
  return error(ErrorKind::kOverloaded, "rank {} has {} groups open, and no more can be; close some", self_.value, book_.most());
}

// The word leaves before every message of the group.
void Engine::open_group(const Group& group, std::uint64_t name) {
  if (!failure_.ok() || complained_) return;
  const wire::CollectiveGroup made{name, group.ranks};
  const auto payload = encode(made);
  MessageHead head{.kind = MessageKind::kCollectiveGroup, .layer = wire::kControlLayer, .payload_bytes = payload.size()};
  pack(CollectiveHead{.group = group.id}, head);
  for (const Rank rank : group.ranks) {
    if (rank == self_ || lost_.contains(rank)) continue;
    std::span<const std::byte> copied = payload;
    const std::uint64_t ticket = kCopyTicket | copies_.take(rank, copied);
    sender_.send(rank, head, copied, ticket);
  }
  if (const auto difference = book_.on_made(self_, group.id, made)) fail(differ(*difference));
}

void Engine::on_group_message(Rank from, const MessageHead& head, std::span<const std::byte> payload) {
  const auto theirs = unpack(head);
  const auto group = wire::decode_collective_group(payload);
  if (!theirs.ok() || !group.ok()) return fail(theirs.ok() ? group.status() : theirs.status());
  if (!failure_.ok() || complained_) return;
  if (const auto difference = book_.on_made(from, theirs->group, *group)) fail(differ(*difference));
}

// After every message of the group.
void Engine::close_group(std::uint32_t number) {
  const auto past = past_.find(number);
  const std::uint32_t last = past == past_.end() ? 0 : past->second.last;
  if (!book_.on_closed(self_, number, last)) return;
  credit_.on_closed(number);
  MessageHead head{.kind = MessageKind::kCollectiveClosed, .layer = latest_};
  pack(CollectiveHead{.group = number, .number = last}, head);
  for (const Rank rank : book_.ranks_of(number)) {
    if (rank != self_ && !lost_.contains(rank)) sender_.send(rank, head, {}, kClosedTicket | number);
  }
  forget_if_over(number);
}

void Engine::on_closed_message(Rank from, const MessageHead& head) {
  const auto theirs = unpack(head);
  if (!theirs.ok()) return fail(theirs.status());
  const auto number = book_.on_closed(from, theirs->group, theirs->number);
  if (!number) return;
  CollectiveHead last = *theirs;
  last.group = *number;
  credit_.on_begun(from, last);
  if (failure_.ok() && !complained_) {
    const auto open = std::ranges::find_if(
        live_, [&](const auto& one) { return one.first.first == *number && is_after(one.first.second, last.number); });
    if (open != live_.end()) fail(left_too_early(book_, self_, from, open->second->job.head));
  }
  forget_if_over(*number);
}

Status left_too_early(const GroupBook& book, Rank self, Rank who, const CollectiveHead& operation) {
  return error(
             ErrorKind::kBadRequest,
             "rank {} has closed the group of ranks {}, in which rank {} begins operation {}, {}; all its ranks must call the same "
             "operations before one closes it",
             who.value, list_of(book.ranks_of(operation.group)), self.value, operation.number, describe(operation))
      .because({"disagree", ""});
}

void Engine::forget_if_over(std::uint32_t group) {
  if (!book_.forget_if_over(group)) return;
  past_.erase(group);
  credit_.forget(group);
  early_.forget(group);
}

Result<std::optional<CollectiveHead>> Engine::read(Rank from, const MessageHead& head) const {
  PACELINE_ASSIGN_OR_RETURN(CollectiveHead theirs, unpack(head));
  const auto number = book_.own_number(from, theirs.group);
  if (!number) return std::optional<CollectiveHead>();
  theirs.group = *number;
  return std::optional(theirs);
}

std::vector<Rank> Engine::gone() const {
  std::vector<Rank> ranks;
  for (const auto& [rank, reason] : lost_) ranks.push_back(rank);
  return ranks;
}

}  // namespace paceline::collectives
