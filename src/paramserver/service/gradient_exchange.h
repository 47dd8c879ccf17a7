// What a training loop needs of whoever carries gradients away and brings new parameters, whether that is a parameter server
// (worker_client.h) or collective operations between the workers (collectives/training/collective_exchange.h). Parameters and
// gradients are two arrays in the order of the job's tensors (wire/tensor_table.h), which the exchange was made with.
//
// One iteration i, on the training thread:
//   for each layer in forward order:   wait_layer(layer, i), then its forward
//   wait_gradients_free()              before backward may overwrite the gradients; hardly ever waits. Or forward_done(), and
//                                      wait_gradients_free(layer) before each layer's
//   backward; after each tensor's gradient:   gradient_ready(tensor)
//   backward_done(i, tensors without gradient)
// Before evaluation, a checkpoint or the end: wait_all(i) - after it the parameters hold all updates up to iteration i.
//
// Every wait ends with kDeadline after the job's stall deadline, naming what was waited for; one that takes 10 times the median
// iteration is warned of in the log, once per iteration (session/stall.h).
//
// Threads: methods are for the training thread, except where something else is said.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/status.h"
#include "paramserver/core/account.h"
#include "paramserver/core/job_plan.h"
#include "scheduling/live_profile.h"

namespace paceline::paramserver {

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  // All peers are connected. Rank 0 gives its parameters, the initial values of the job (after a resume: those of the checkpoint);
  // every rank returns when its parameters are the job's.
  virtual Status start() = 0;

  // Reports what was wrong with the call (kBadRequest), or why the job has failed.
  virtual Status gradient_ready(std::uint32_t tensor) = 0;
  virtual Status backward_done(Iteration iteration, std::span<const std::uint32_t> unused) = 0;
  Status backward_done(Iteration iteration) { return backward_done(iteration, {}); }

  // Returns when `layer`'s parameters are those that `iteration` is computed with. Errors: kDeadline; the reason given to cancel();
  // kBadRequest when `iteration` is not the one after the last backward_done.
  virtual Status wait_layer(Layer layer, Iteration iteration) = 0;
  // Returns when all parameters hold every update up to and including `iteration`, the one of the last backward_done. Errors as
  // above.
  virtual Status wait_all(Iteration iteration) = 0;
  // JobPlan::uneven(), so only with servers: the number of the mini-batch that this worker's next iteration is for, from 1; each
  // number is handed out once in a job. Waits until it is there. Errors as above.
  virtual Result<std::int64_t> next_mini_batch() {
    return error(ErrorKind::kBadRequest, "mini-batches are not handed out in this job");
  }
  // This worker computes no more; `last` is the iteration of its last backward_done, or the one before its first. Returns when the
  // parameters are the job's final ones: with JobPlan::uneven() when all workers are done, else as wait_all(). Errors as above.
  virtual Status finish(Iteration last) { return wait_all(last); }
  // The forward pass is over and backward begins: for those who measure both.
  virtual void forward_done() {}
  // Returns when no gradient (of the layer) is being read any more.
  virtual Status wait_gradients_free() = 0;
  virtual Status wait_gradients_free(Layer layer) = 0;
  // Whether wait_gradients_free(layer) would return at once. `layer` exists.
  virtual bool gradients_free(Layer layer) = 0;
  // When the last value came that the gate of `layer` was waiting for, after wait_layer has returned. `layer` exists.
  virtual TimePoint opened_at(Layer layer) = 0;

  // Any thread. The tensors, and how they are cut into what travels as one.
  virtual const JobPlan& plan() const = 0;
  // Any thread. Every wait, now and later, returns `reason`, which is not a success. The first reason stays.
  virtual void cancel(const Status& reason) = 0;
  // Any thread. `reader` is told every number that next_mini_batch() will return, as soon as it is known: those that wait already
  // inside the call, later ones on the loop. It calls nothing back. Empty: nobody is told any more once this returns.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): those that override it keep the reader.
  virtual void read_ahead(std::function<void(std::int64_t number)> /*reader*/) {}
  // Any thread. Return::kPullInBatches: the batches pulled in and what they were planned from; nothing before there was a plan.
  virtual std::optional<scheduling::LiveProfile::Plan> batches() { return std::nullopt; }
  // Any thread. Where the time went since the last call; the values of start() do not count.
  virtual Account take_account() = 0;
};

}  // namespace paceline::paramserver
