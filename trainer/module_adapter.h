// Makes any torch::nn::Module trainable by Paceline: moves its parameters into one arena in forward order, tells when an operator
// is about to read a layer, and when a gradient is finished. The only place that knows how LibTorch does these things.
//
// Layers are the modules that own parameters, in the order of their first use in a forward pass; branches and shared modules
// need nothing special. A gate fires before the first operator that takes a tensor of the layer (observed through
// at::RecordFunction, since modules of the C++ API have no hooks), so it also works for functional use of parameters.
//
// One thread trains: the one that made the adapter. Parameters must be float32 on the processor and own their storage; those with
// requires_grad off are frozen and stay where they are.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <torch/nn/module.h>

#include "base/clock.h"
#include "base/status.h"
#include "wire/tensor_table.h"

namespace paceline::trainer {

class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  // An operator of the forward pass is about to read the layer, for the first time in this iteration. May block. After an
  // error no other gate is asked and run_forward returns it.
  virtual Status before_layer(Layer layer) = 0;
  // The tensor's gradient of this iteration stands in the gradients' arena.
  virtual void on_gradient(int tensor) = 0;
};

// Of passes that wait for nothing and whose gradients are read at the end.
class NoObserver final : public LayerObserver {
 public:
  Status before_layer(Layer) override { return {}; }
  void on_gradient(int) override {}
};

class ModuleAdapter {
 public:
  // `dry_run` runs one forward pass so that the layers' order is seen; without it they keep the order of registration. It runs
  // without gradients, and buffers (BatchNorm's statistics) are put back afterwards. Errors: kBadRequest for a parameter that
  // cannot be trained.
  static Result<std::unique_ptr<ModuleAdapter>> make(torch::nn::Module& module, const std::function<void()>& dry_run);
  ~ModuleAdapter();

  const wire::TensorTable& table() const { return table_; }
  std::span<float> parameters();  // the arena: values of all tensors of the table, 64-byte aligned
  std::span<float> gradients();   // as long, same order

  // Runs `forward` with gates: the observer is asked before each layer is read. Returns what the observer refused.
  Status run_forward(LayerObserver& observer, const std::function<void()>& forward);
  // Runs `backward`, telling the observer each finished gradient. Returns the tensors that got none, ascending; their gradients are
  // zero.
  std::vector<int> run_backward(LayerObserver& observer, const std::function<void()>& backward);

  // Buffers of the module (BatchNorm's running statistics, counters), by name in a stable order, as views.
  std::vector<std::pair<std::string, torch::Tensor>> buffers() const;

  struct Parameter;  // what is known of one tensor
  struct Watch;      // what the operators' observer needs

 private:
  ModuleAdapter(torch::nn::Module& module, std::vector<Parameter> parameters, wire::TensorTable table);
  void move_into_arena();
  void hook_gradients();

  torch::nn::Module& module_;
  std::vector<Parameter> parameters_;
  wire::TensorTable table_;
  torch::Tensor values_, gradients_;
  LayerObserver* observer_ = nullptr;  // during run_backward
  std::vector<char> finished_;
};

}  // namespace paceline::trainer
