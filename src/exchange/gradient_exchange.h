// What a training loop needs of whoever carries gradients away and brings new parameters, whether that is a parameter server or
// collective operations between the workers: its Carrier knows. Parameters and gradients stand where the carrier was told.
//
// One iteration i:
//   for each layer in forward order:   wait_layer(layer, i), then its forward
//   wait_gradients_free()              before backward may overwrite the gradients; hardly ever waits. Or forward_done(), and
//                                      wait_gradients_free(layer) before each layer's
//   backward; after each tensor's gradient:   gradient_ready(tensor)
//   backward_done(i, tensors without gradient)
// With OptimizerKind::kMean the "parameters" are the job's initial values first, and in iteration i + 1 the mean gradients of i.
// Before evaluation, a checkpoint or the end: wait_all(i) - after it the parameters hold all updates up to iteration i.
//
// Every wait ends with kDeadline after the job's stall deadline, naming what was waited for; one that takes 10 times the median
// iteration is warned of in the log, once per iteration (session/stall.h). With `limit`, a wait returns false when that passes.
// Call it again: waits of one gate that were cut short so count as one, in the account and for the stall deadline. Without a limit
// a wait returns when it is over.
//
// Threads: any, more than one at a time too. The call of backward_done comes after those of gradient_ready have returned.
// In the child of a fork everything is refused (kCancelled) and nothing is touched: the parent trains.
// Memory: nothing is allocated per gradient once warm.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/status.h"
#include "exchange/carrier.h"
#include "exchange/gatehouse.h"
#include "exchange/gradient_compression.h"

namespace paceline::exchange {

// Of a wait without a limit.
inline Status whole(const Result<bool>& over) { return over.ok() ? Status() : over.status(); }

class GradientExchange {
 public:
  // The carrier was made with the gatehouse, whose events tell what this training side does. `compression` sees gradients before
  // they are told; null: all of each is sent. Destroy it on the loop or when that does not run, after all other threads have left.
  GradientExchange(std::unique_ptr<Gatehouse> house, std::unique_ptr<Carrier> carrier,
                   std::unique_ptr<GradientCompression> compression = nullptr);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  // All peers are connected. Rank 0 gives its parameters, the initial values of the job (after a resume: those of the checkpoint);
  // every rank returns when its parameters are the job's.
  Status start() { return whole(start(Gatehouse::kNoLimit)); }
  Result<bool> start(Duration limit);

  // UpdateOptions::told_rates: with which rates the iteration is applied that the last backward_done has begun, once and before
  // its first gradient. kBadRequest: not its turn, or as in check_rates().
  Status tell_rates(Iteration iteration, std::span<const GroupRates> rates);
  // In which order forward passes were seen to need the layers, each once, the one needed first in front: with servers
  // gradients leave and values come in that order from here on, where the schedule goes by layers; by collectives nothing changes.
  // No bit depends on it. kBadRequest: it is none.
  Status set_order(std::span<const std::int32_t> layers);
  // For those who copy a gradient to its place before they tell it, perhaps on several threads: between this and gradient_ready()
  // another one of the tensor is refused. kBadRequest: as there, or nobody has waited for the layer's values.
  Status begin_gradient(std::uint32_t tensor);
  void withdraw_gradient(std::uint32_t tensor);  // gradient_ready() was refused: it may come again
  // Reports what was wrong with the call (kBadRequest), or why the job has failed.
  Status gradient_ready(std::uint32_t tensor);
  Status backward_done(Iteration iteration, std::span<const std::uint32_t> unused = {});

  // Returns when `layer`'s parameters are those that `iteration` is computed with. Errors: kDeadline; the reason given to cancel();
  // kBadRequest when `iteration` is not the one after the last backward_done.
  Status wait_layer(Layer layer, Iteration iteration) { return whole(wait_layer(layer, iteration, Gatehouse::kNoLimit)); }
  Result<bool> wait_layer(Layer layer, Iteration iteration, Duration limit);
  // Returns when all parameters hold every update up to and including `iteration`, the one of the last backward_done. Errors as
  // above.
  Status wait_all(Iteration iteration) { return whole(wait_all(iteration, Gatehouse::kNoLimit)); }
  Result<bool> wait_all(Iteration iteration, Duration limit);
  // UpdateOptions::verdict: fills `verdict` with that of `iteration`, the one of the last backward_done. It follows the means, and
  // no gate waits for it. Errors as above; kBadRequest when the job has none.
  Status wait_verdict(Iteration iteration, exchange::Verdict& verdict) {
    return whole(wait_verdict(iteration, Gatehouse::kNoLimit, verdict));
  }
  Result<bool> wait_verdict(Iteration iteration, Duration limit, exchange::Verdict& verdict);
  // Returns when no gradient (of the layer) is being read any more.
  Status wait_gradients_free(std::optional<Layer> layer = {}) { return whole(wait_free(layer, Gatehouse::kNoLimit)); }
  Result<bool> wait_free(std::optional<Layer> layer, Duration limit);
  // Returns when the gradient of `tensor`, which exists, is not being read any more.
  Status wait_gradient_free(std::uint32_t tensor);
  // Whether wait_gradients_free(layer) would return at once. `layer` exists.
  bool gradients_free(Layer layer);
  // The forward pass is over and backward begins: for those who measure both. The first call of an iteration counts.
  void forward_done();
  // When the last value came that the gate of `layer` was waiting for, after wait_layer has returned. `layer` exists.
  TimePoint opened_at(Layer layer);

  // job::Plan::uneven(), so only with servers: the number of the mini-batch that this worker's next iteration is for, from 1; each
  // number is handed out once in a job. Waits until it is there; nothing: the limit has passed. Errors as above.
  Result<std::optional<std::int64_t>> next_mini_batch(Duration limit = Gatehouse::kNoLimit);
  // `reader` is told every number that next_mini_batch() will return, as soon as it is known: those that wait already inside the
  // call, later ones on the loop. It calls nothing back. Empty: nobody is told any more once this returns.
  void read_ahead(std::function<void(std::int64_t number)> reader);
  // This worker computes no more; `last` is the iteration of its last backward_done, or the one before its first. Returns when the
  // parameters are the job's final ones: with job::Plan::uneven() when all workers are done, else as wait_all(). Errors as above.
  Status finish(Iteration last) { return whole(finish(last, Gatehouse::kNoLimit)); }
  Result<bool> finish(Iteration last, Duration limit);

  // The iteration whose gradients are awaited; whether one of them is told or comes.
  Iteration current();
  bool in_backward();
  // Worker `who` computes nothing after `last`: fails the job where this one cannot go on alone, and has (GateLedger). Loop only.
  void on_worker_done(Rank who, Iteration last);
  // Every wait, now and later, returns `reason`, which is not a success. The first reason stays.
  void cancel(const Status& reason);

  // The tensors, and how they are cut into what travels as one.
  const job::Plan& plan() const { return house_->plan(); }
  Carrier& carrier() { return *carrier_; }
  // Return::kPullInBatches: the batches pulled in and what they were planned from; nothing before there was a plan.
  std::optional<scheduling::LiveProfile::Plan> batches();
  // Where the time went since the last call; the values of start() do not count.
  exchange::Account take_account();

 private:
  using Lock = Gatehouse::Lock;
  using Complete = exchange::GateLedger::Complete;
  enum class Phase { kNew, kStarting, kTraining, kFinishing };

  bool enter(Phase phase);
  Phase phase();
  Status check_process() const;
  Result<bool> wait_open(std::optional<Layer> layer, Iteration iteration, Duration limit);
  Result<bool> wait_for_round(Lock& lock);
  Status wait_unused_layers(Lock& lock, Iteration iteration);
  Status check_rates_told() const;
  Status announce(std::uint32_t tensor);
  Status announce_held(Iteration iteration, std::span<const std::uint32_t> unused);
  Status take(Lock& lock, std::span<const Complete> complete, Iteration iteration);
  void tell(const wire::Event& event) { house_->events().on_event(event); }  // locked

  const std::uint64_t process_;  // the one that it was made in
  std::unique_ptr<Gatehouse> house_;
  std::unique_ptr<Carrier> carrier_;
  std::unique_ptr<GradientCompression> compression_;
  // Locked.
  Phase phase_ = Phase::kNew;
  Iteration rates_told_ = 0;    // the newest iteration whose rates were
  Iteration forward_over_ = 0;  // the newest iteration whose forward pass is over
};

}  // namespace paceline::exchange
