// A network of the zoo with its data: what `paceline train` trains, in a worker process and in the reference alike, so that both do
// exactly the same work. One thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "job/option.h"
#include "trainer/data/loader.h"
#include "trainer/data/open.h"
#include "trainer/models/network.h"
#include "trainer/module_adapter.h"

namespace paceline::trainer {

class Workload {
 public:
  // The data, and whether everything fits together, before anything is computed; make_network() follows. `workers` 0: not known
  // yet, share_among() tells it before anything else is used than adapter().
  // Errors: kBadRequest naming the model, the data set, what of the two does not fit together, or the mini-batch.
  static Result<std::unique_ptr<Workload>> open(const job::JobSpec& settings, std::int32_t workers,
                                                const std::filesystem::path& data_root);

  // Once, before anything else is used: it seeds torch. Errors: kBadRequest naming the model or a convolution.
  Status make_network();

  // Deals the training set to so many workers, at least 1. Errors: kBadRequest when it is too small for one mini-batch each.
  Status share_among(std::int32_t workers);

  ModuleAdapter& adapter() { return *adapter_; }
  Iteration last_iteration() const { return last_iteration_; }

  // How many mini-batches start_loader reads ahead (0: none), with how many threads. Changes no bit.
  void read_ahead(std::int32_t depth, std::int32_t threads) {
    prefetch_ = depth;
    loader_threads_ = threads;
  }
  Result<std::unique_ptr<data::Loader>> start_loader(Rank rank, Iteration first, const Clock& clock) const;

  // One that reads what it is handed out (Loader::hand_out).
  Result<std::unique_ptr<data::Loader>> start_loader_of_handed_out(const Clock& clock) const;

  // The mini-batch as tensors of their own, so that the reference and every worker compute on equally aligned memory.
  struct Tensors {
    torch::Tensor input, target;
  };
  static Tensors to_tensors(const data::MiniBatch& batch);

  // Makes dropout and other randomness of (iteration, rank) repeatable. Before each forward pass.
  void seed(Iteration iteration, Rank rank) const;
  torch::Tensor loss(const Tensors& tensors) { return network_->loss(tensors.input, tensors.target); }

  const data::DatasetPair& data() const { return data_; }

  // Share of right answers on the test set, in evaluation mode. Errors: the data cannot be read.
  Result<double> evaluate(const Clock& clock);

  // Everything that an evaluation depends on: parameters and buffers, copied.
  using Snapshot = std::vector<torch::Tensor>;
  Snapshot snapshot() const;
  void restore(const Snapshot& snapshot);

  // XXH3-128 over the parameters' bytes in forward order.
  std::string parameters_hash();

 private:
  Workload() = default;

  job::JobSpec settings_;
  data::DatasetPair data_;
  std::optional<data::Sampler> sampler_;
  std::shared_ptr<models::Network> network_;
  std::unique_ptr<ModuleAdapter> adapter_;
  Iteration last_iteration_ = 0;
  std::int32_t prefetch_ = 2, loader_threads_ = 1;
};

}  // namespace paceline::trainer
