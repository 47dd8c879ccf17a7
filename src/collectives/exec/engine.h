// A process's collective operations on the loop: takes what arrives to the operation it belongs to, sends what is to be sent, and
// finds out when ranks disagree. One per process, shared by all its groups.
//
// Groups. A rank tells the others of a group that it has made it, of which ranks, and that it has closed it (group_book.h). Who
// begins an operation of a group that another of its ranks has closed before ends it, as if that rank called something else.
//
// Disagreement. Every message says what the sender believes the operation to be (wire/collective.h). Whoever sees another belief
// than its own uses no byte of it and tells rank 0 of the job, which tells all: so every rank fails with the same words. After a
// failure no operation can be begun any more.
//
// A message that comes before its operation has been begun here waits in memory: at most kEagerBytes for each operation and sender,
// and kMostEarlyBytes in all (eager_credit.h). The rest waits at the sender until it hears that the operation has begun. Whoever
// has no room at a peer asks for that word, and gets it when the peer begins.
//
// Small messages leave from copies, at most kMostCopiedBytes of them, so that an operation does not last until their receipt has
// been acknowledged.
//
// Threads: belongs to the loop. Memory: nothing is allocated per message once warm.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/exec/copies.h"
#include "collectives/exec/eager_credit.h"
#include "collectives/exec/early_messages.h"
#include "collectives/exec/group_book.h"
#include "collectives/exec/operation.h"
#include "collectives/exec/runner.h"
#include "session/channels.h"
#include "wire/message.h"

namespace paceline::collectives {

class Engine final : public session::ChannelEnd {
 public:
  static constexpr std::int64_t kMostCopiedBytes = std::int64_t{1} << 20;

  // Called once for every job: its buffers are the caller's again.
  using Done = std::function<void(const Status&)>;

  // `self`: this process's rank. `sender` outlives it.
  Engine(Rank self, std::int32_t ranks, session::Sender& sender);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A number for the group of that name, which is the same at all its ranks and used once. Any thread. Errors: kOverloaded, too
  // many groups are open.
  Result<std::uint32_t> number_of_group(std::uint64_t name);
  // This rank has made the group, before its first operation. Ranks that make it of different lists all fail.
  void open_group(const Group& group, std::uint64_t name);
  // It begins no operation of the group any more; all that it has begun are over.
  void close_group(std::uint32_t number);

  // Begins an operation. Its number is one more than that of the group's operation before. `done` may come within the call. A rank
  // without memory for it ends it on all.
  void start(Job job, Done done);
  // Ends every operation, now and later, here and on all other ranks, with `reason` or with that of another rank that came first.
  void fail(const Status& reason);
  // The same here alone and at once: the others know.
  void cancel(const Status& reason);
  // The operation has made no progress for so long: as fail(), with a message that names whom it waits for. Nothing when it is
  // over.
  void on_stall(std::uint32_t group, std::uint32_t number, Duration waited);

  const Status& failure() const { return failure_; }
  // Whether another rank has begun the operation of that number, which has not been begun here.
  bool is_awaited(std::uint32_t group, std::uint32_t number) const { return early_.has({group, number}); }
  // Who has left, or is lost.
  std::vector<Rank> gone() const;
  std::size_t unfinished() const { return live_.size(); }

  // ChannelEnd
  Result<std::span<std::byte>> on_message_begin(Rank from, const wire::MessageHead& head) override;
  void on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(Rank to, wire::Channel channel, std::uint64_t ticket) override;
  void on_peer_lost(Rank peer, wire::Channel channel, const Status& reason) override;

 private:
  struct Live {
    Job job;
    Done done;
    Runner runner;
    std::uint32_t id;
  };
  using Key = EarlyMessages::Key;
  struct Ignored {  // a message that is received only to be thrown away, or to be read at once
    Rank from;
    BlockPool::Block block;
  };
  struct Past {  // what a group has begun
    std::uint32_t last = 0;
    std::deque<wire::CollectiveHead> recent;
  };

  // An operation is the upper half of a ticket, below what marks copies and closed groups.
  static constexpr std::uint32_t kMostIds = (1U << 30) - 1;
  static constexpr std::uint64_t kCopyTicket = std::uint64_t{1} << 63, kClosedTicket = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kNoTicket = ~std::uint64_t{0};
  static constexpr Rank kJudge{0};

  Live* find(const Key& key);
  // What the message says of which operation, as this rank counts groups. Nothing: of one that is over.
  Result<std::optional<wire::CollectiveHead>> read(Rank from, const wire::MessageHead& head) const;
  bool is_over(const wire::CollectiveHead& head) const;
  Result<std::span<std::byte>> ignore(Rank from, const wire::MessageHead& head);
  std::optional<Runner> make_runner(const Job& job);
  void end_without_memory(const Job& job, const Done& done);
  void begin_with(Live& live, int peer);
  void send_ready(Rank to, wire::CollectiveHead operation, std::uint32_t index, Layer priority);
  void answer(Rank from, const wire::CollectiveHead& theirs, Layer priority);
  Status take_early(Live& live);
  bool agrees(const Live& live, Rank from, const wire::CollectiveHead& head);
  static std::optional<std::string> misfit_of(const Live& live, int peer, const wire::CollectiveHead& theirs, std::uint64_t bytes);
  // `problem`: misfit_of a message of `from`.
  Status unfit(const Live& live, Rank from, const std::string& problem) const;
  void on_foreign(Rank from, const wire::MessageHead& message, const wire::CollectiveHead& theirs);
  void complain(Rank from, const wire::CollectiveHead& theirs, const wire::CollectiveHead& own);
  void on_group_message(Rank from, const wire::MessageHead& head, std::span<const std::byte> payload);
  void on_closed_message(Rank from, const wire::MessageHead& head);
  void forget_if_over(std::uint32_t group);
  void on_failed_message(Rank from, std::span<const std::byte> payload);
  void tell(Rank to, const Status& reason);
  void part_with_lost(Live& live);
  void pump(Live& live);
  bool send(Live& live, const Runner::Send& send);  // whether as a copy
  void finish_if_over(const Key& key);
  void finish_all_that_can();

  Rank self_;
  std::int32_t ranks_;
  session::Sender& sender_;
  BlockPool pool_;
  std::map<Key, std::unique_ptr<Live>> live_;
  std::map<std::uint32_t, Key> by_id_;
  std::uint32_t last_id_ = 0;
  std::map<std::uint32_t, Past> past_;  // by group
  Layer latest_;                        // of the operations so far
  GroupBook book_;
  EagerCredit credit_;
  EarlyMessages early_;
  std::vector<Ignored> ignored_;
  std::map<Rank, std::vector<std::byte>> reasons_;  // being received
  std::map<Rank, Status> lost_;
  std::vector<Runner::Send> sends_;
  Copies copies_;
  bool complained_ = false;  // rank 0 has been told, and will tell everybody
  Status complaint_;
  Status failure_;
};

// `who` has closed a group before `operation`, which `self` begins.
Status left_too_early(const GroupBook& book, Rank self, Rank who, const wire::CollectiveHead& operation);

}  // namespace paceline::collectives
