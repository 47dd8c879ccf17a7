#include "trainer/data/loader.h"

#include <algorithm>
#include <new>

namespace paceline::trainer::data {
namespace {

// Sizes are the user's choice, so that too little memory is an answer and not the end of a thread.
template <typename Work>
Status within_memory(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return error(ErrorKind::kOverloaded,
                 "there is not enough memory for the order of the data set's samples and a mini-batch of them; give a smaller "
                 "--mini-batch, or less to read ahead with --prefetch");
  }
}

}  // namespace

Result<std::unique_ptr<Loader>> Loader::start(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options,
                                              const Clock& clock) {
  PACELINE_CHECK(dataset != nullptr && dataset->size() == sampler.options().samples, "the sampler was made for {} samples",
                 sampler.options().samples);
  if (options.depth < 0 || options.depth > 64)
    return error(ErrorKind::kBadRequest, "{} mini-batches to read ahead, 0..64 expected", options.depth);
  if (options.threads < 1 || options.threads > 64)
    return error(ErrorKind::kBadRequest, "{} loader threads, 1..64 expected", options.threads);
  if (options.first < 1 || options.last < 0) {
    return error(ErrorKind::kBadRequest, "iterations {} to {}, expected 1 or later", options.first, options.last);
  }
  if (options.rank.value < 0 || options.rank.value >= sampler.options().workers) {
    return error(ErrorKind::kBadRequest, "worker {} of {}, expected 0..{}", options.rank.value, sampler.options().workers,
                 sampler.options().workers - 1);
  }
  std::unique_ptr<Loader> loader(new Loader(std::move(dataset), std::move(sampler), options, clock));
  const std::int32_t threads = options.depth == 0 ? 0 : options.threads;
  for (std::int32_t i = 0; i < threads; ++i) loader->threads_.emplace_back([running = loader.get()] { running->work(); });
  return loader;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options, const Clock& clock)
    : dataset_(std::move(dataset)),
      options_(options),
      clock_(clock),
      sampler_(std::move(sampler)),
      ticket_(options.first),
      slots_(static_cast<std::size_t>(options.depth) + 1),
      delivered_(options.first - 1) {}

Loader::~Loader() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

Result<const MiniBatch*> Loader::next() {
  std::unique_lock lock(mutex_);
  const Iteration wanted = delivered_ + 1;
  if (!failed_.ok()) return failed_;
  if (behind_last(wanted))
    return error(ErrorKind::kCancelled, "there is no mini-batch behind the last iteration, {}", options_.last);
  if (options_.depth == 0) {
    if (stopped_) return error(ErrorKind::kCancelled, "the loader was stopped before iteration {}", wanted);
    changed_.wait(lock, [&] { return stopped_ || known(); });
    if (stopped_) return error(ErrorKind::kCancelled, "the loader was stopped before iteration {}", wanted);
    lock.unlock();
    return read_now(wanted);
  }
  Slot& slot = slot_of(wanted);
  changed_.wait(lock, [&] { return stopped_ || slot.ready; });
  if (stopped_) return error(ErrorKind::kCancelled, "the loader was stopped before iteration {}", wanted);
  slot.ready = false;
  if (!slot.status.ok()) {
    failed_ = slot.status;
    stopped_ = true;
    changed_.notify_all();
    return failed_;
  }
  delivered_ = wanted;  // the slot of the one before may be refilled from here on
  changed_.notify_all();
  return &slot.batch;
}

void Loader::hand_out(Iteration iteration, Rank rank) {
  PACELINE_CHECK(options_.source == LoaderOptions::Source::kHandedOut && iteration >= 1 &&
                     (options_.last == 0 || iteration <= options_.last) && rank.value >= 0 &&
                     rank.value < sampler_.options().workers,
                 "worker {}'s mini-batch of iteration {} cannot be handed out", rank.value, iteration);
  const std::lock_guard lock(mutex_);
  handed_out_.push_back({iteration, rank});
  changed_.notify_all();
}

// Whether it is known which mini-batch is next; under mutex_.
bool Loader::known() const { return options_.source == LoaderOptions::Source::kOwnPlace || !handed_out_.empty(); }

bool Loader::behind_last(Iteration ticket) const {
  return options_.source == LoaderOptions::Source::kOwnPlace && options_.last > 0 && ticket > options_.last;
}

// Under mutex_; requires known().
Loader::Place Loader::take_place(Iteration ticket) {
  if (options_.source == LoaderOptions::Source::kOwnPlace) return {ticket, options_.rank};
  const Place place = handed_out_.front();
  handed_out_.pop_front();
  return place;
}

// Without threads: in the caller's.
Result<const MiniBatch*> Loader::read_now(Iteration wanted) {
  Slot& slot = slots_.front();
  Place place;
  {
    const std::lock_guard lock(mutex_);
    place = take_place(wanted);
  }
  Status status =
      within_memory([&] { return assemble(*dataset_, sampler_.samples(place.iteration, place.rank), clock_, slot.batch); });
  slot.batch.iteration = wanted;
  const std::lock_guard lock(mutex_);
  failed_ = std::move(status);
  if (!failed_.ok()) return failed_;
  delivered_ = wanted;
  return &slot.batch;
}

// The next iteration nobody has taken, once its slot is free: every one of the `depth` mini-batches behind the one handed out may
// be in the making. False: nothing is left to do.
bool Loader::take_ticket(Iteration& iteration, std::vector<std::int64_t>& indices, Status& status) {
  const std::lock_guard tickets(ticket_mutex_);
  iteration = ticket_;
  if (behind_last(iteration)) return false;
  Place place;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || (iteration <= delivered_ + options_.depth && known()); });
    if (stopped_) return false;
    place = take_place(iteration);
  }
  ++ticket_;
  status = within_memory([&] {
    indices = sampler_.samples(place.iteration, place.rank);
    return Status();
  });
  return true;
}

void Loader::work() {
  Iteration iteration = 0;
  std::vector<std::int64_t> indices;
  Status status;
  while (take_ticket(iteration, indices, status)) {
    Slot& slot = slot_of(iteration);
    if (status.ok()) status = within_memory([&] { return assemble(*dataset_, indices, clock_, slot.batch); });
    slot.batch.iteration = iteration;
    const std::lock_guard lock(mutex_);
    slot.status = status;
    slot.ready = true;
    changed_.notify_all();
  }
}

}  // namespace paceline::trainer::data
