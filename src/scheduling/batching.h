// Which layers' parameters are pulled (or gradients pushed) together, so that the transfer hides behind the computation (iBatch,
// "Problem Formulation" and "Algorithm Design"). A batch costs one start-up; layers in one batch wait for each other. Pure; free to
// call from anywhere.
//
// Layers are numbered 1..L in forward order. Pull: the batches' transfers run one after another in forward order; the forward pass
// of a batch starts when its transfer and the batch before are done. Push is the same problem with time reversed: the backward pass
// computes layer L first, and a batch's push starts when its gradients and the push before are done. Reversing time turns it into
// the pull problem with the same layer numbers, so `compute` holds the backward times, `transfer` the push times, both in forward
// order, and the bounds mean the same: the last batch of the list is computed and pushed first.
//
// All sums and comparisons are carried out exactly on the doubles given (to 106 bits), so that ties are ties: equal layers give
// equal sums wherever they stand. Results are rounded once.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"

namespace paceline::scheduling {

// Seconds, finite and not negative.
struct BatchingProblem {
  double start_up = 0;           // of one pull or push, whatever its size
  std::vector<double> transfer;  // of each layer
  std::vector<double> compute;   // of each layer: forward (pull) or backward (push)
};

// The last layer of each batch, ascending, the last one L.
using Bounds = std::vector<int>;

// kBadRequest: no layers, lengths that differ, times that are negative or not finite or whose sum is.
Status validate(const BatchingProblem& problem);
// kBadRequest: not ascending from 1 or more to L.
Status validate(const Bounds& bounds, const BatchingProblem& problem);

// Below, `problem` and `bounds` are valid.

// Eq 4: what the batching takes if all but the last batch's computation is hidden. Only meaningful when is_overlapped.
double execution_time(const BatchingProblem& problem, const Bounds& bounds);
// What it takes in truth; equals execution_time when is_overlapped, and is larger otherwise.
double makespan(const BatchingProblem& problem, const Bounds& bounds);
// Eq 5: each transfer but the first takes at least as long as the computation it hides. Void for one batch.
bool is_overlapped(const BatchingProblem& problem, const Bounds& bounds);

Bounds default_batching(const BatchingProblem& problem);     // one batch: a plain parameter server
Bounds layer_wise_batching(const BatchingProblem& problem);  // a batch for each layer

// Algorithm 1: fixes the first two batches to hide the most computation, then goes forward. O(L log L).
Bounds forward_greedy(const BatchingProblem& problem);
// Algorithm 2: fixes the last two batches, then goes backward; nothing when it gets stuck. O(L log L).
std::optional<Bounds> backward_greedy(const BatchingProblem& problem);

enum class Greedy { kForward, kBackward };
struct GreedyBatching {
  Bounds bounds;
  Greedy chosen;
};
// iBatch: the candidate with the smaller execution time; Algorithm 1 wins ties.
GreedyBatching ibatch(const BatchingProblem& problem);

// The batching with the least makespan, and among those the fewest batches; the product's default. O(L) for each of at most 64
// steps of a binary search.
Bounds exact_batching(const BatchingProblem& problem);

}  // namespace paceline::scheduling
