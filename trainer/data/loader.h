// Reads mini-batches ahead of the worker in background threads and hands them out in the order of the iterations. What comes out is
// bit for bit what `assemble` over `Sampler::samples` gives, whatever depth and threads. Which mini-batches: those of one worker,
// one per iteration, or those that it is told of one by one.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "trainer/data/mini_batch.h"
#include "trainer/data/sampler.h"

namespace paceline::trainer::data {

struct LoaderOptions {
  Rank rank{};               // 0..W-1
  Iteration first = 1;       // where a resumed job goes on; from 1
  Iteration last = 0;        // 0 = without end; nothing beyond it is read ahead
  std::int32_t depth = 2;    // mini-batches ready or in the making; 1..64, or 0: `next` reads, and no thread does
  std::int32_t threads = 1;  // 1..64; more than `depth` are of no use
  enum class Source {
    kOwnPlace,   // `rank`'s of the iterations from `first` on
    kHandedOut,  // those of hand_out(), in that order; `rank` and `first` mean nothing
  } source = Source::kOwnPlace;
};

// `next` and `stop` may be called by different threads; `next` by one at a time.
class Loader {
 public:
  // Checks the options (kBadRequest) and starts the threads. `clock` must outlive the loader.
  static Result<std::unique_ptr<Loader>> start(std::shared_ptr<const Dataset> dataset, Sampler sampler,
                                               const LoaderOptions& options, const Clock& clock);
  ~Loader();  // stops and joins; waits at most for the sample being read
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The mini-batch of the next iteration; waits until it is there. Valid until the next call of `next` or the loader's end. Errors:
  // a sample could not be read (that error, now and at every later call); kCancelled after `stop` or behind `last`.
  Result<const MiniBatch*> next();

  // Source::kHandedOut: the next mini-batch is the one that in BSP `rank` would take in `iteration`, which is not behind `last`.
  // Any thread.
  void hand_out(Iteration iteration, Rank rank);

  // Makes a waiting and every later `next` return kCancelled. Returns at once. Any thread.
  void stop();

 private:
  struct Slot {
    MiniBatch batch;
    Status status;
    bool ready = false;
  };

  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options, const Clock& clock);
  void work();
  Result<const MiniBatch*> read_now(Iteration wanted);
  struct Place {
    Iteration iteration = 1;
    Rank rank;
  };
  bool known() const;
  bool behind_last(Iteration ticket) const;
  Place take_place(Iteration ticket);
  bool take_ticket(Iteration& iteration, std::vector<std::int64_t>& indices, Status& status);
  Slot& slot_of(Iteration iteration) { return slots_[static_cast<std::size_t>(iteration) % slots_.size()]; }

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const Clock& clock_;

  std::mutex ticket_mutex_;  // sampler and next ticket; taken before mutex_
  Sampler sampler_;
  Iteration ticket_;

  std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  std::deque<Place> handed_out_;  // and not being read yet
  std::vector<Slot> slots_;       // depth + 1: the one handed out is not refilled before the next call
  Iteration delivered_;           // the last iteration handed out
  Status failed_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace paceline::trainer::data
