#include "trainer/module_adapter.h"

#include <algorithm>
#include <unordered_map>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

namespace paceline::trainer {

struct ModuleAdapter::Parameter {
  torch::Tensor variable;
  std::string name;
  std::string layer_name;
  int module = 0;                                         // position of the owning module in the order of registration
  c10::intrusive_ptr<torch::autograd::Node> accumulator;  // kept alive, otherwise its hook goes with it
};

// RecordFunction's callbacks are plain function pointers, so what they need stands in a thread's own variable while a pass runs.
struct ModuleAdapter::Watch {
  // Called with the storage and the place in it of every tensor that an operator takes.
  std::function<void(const c10::StorageImpl*, std::int64_t)> on_operand;

  static thread_local Watch* active;

  static void look_at(const c10::IValue& value) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (tensor.defined() && tensor.has_storage())
        active->on_operand(tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) look_at(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        if (tensor) look_at(*tensor);
      }
    }
  }

  static std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& call) {
    if (active != nullptr) {
      for (const c10::IValue& value : call.inputs()) look_at(value);
    }
    return nullptr;
  }

  explicit Watch(std::function<void(const c10::StorageImpl*, std::int64_t)> on) : on_operand(std::move(on)) {
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&Watch::on_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
    active = this;
  }
  ~Watch() {
    active = nullptr;
    at::removeCallback(handle_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  at::CallbackHandle handle_;
};

thread_local ModuleAdapter::Watch* ModuleAdapter::Watch::active = nullptr;

namespace {

using Parameter = ModuleAdapter::Parameter;
using Watch = ModuleAdapter::Watch;

// A module and its path; the model itself first. (named_modules(include_self) would want it in a shared_ptr.)
std::vector<std::pair<std::string, torch::nn::Module*>> owners(torch::nn::Module& module) {
  std::vector<std::pair<std::string, torch::nn::Module*>> owners = {{"", &module}};
  for (const auto& item : module.named_modules("", /*include_self=*/false)) owners.emplace_back(item.key(), item.value().get());
  return owners;
}

Result<std::vector<Parameter>> trainable_parameters(torch::nn::Module& module) {
  std::vector<Parameter> parameters;
  int position = 0;
  for (const auto& [path, owner] : owners(module)) {
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const auto& item : owner->named_parameters(/*recurse=*/false)) {
      const torch::Tensor& variable = item.value();
      if (!variable.defined() || !variable.requires_grad()) continue;
      const auto same = [&](const Parameter& known) {
        return known.variable.unsafeGetTensorImpl() == variable.unsafeGetTensorImpl();
      };
      if (std::any_of(parameters.begin(), parameters.end(), same)) continue;  // a module or tensor used twice has one owner
      if (variable.scalar_type() != torch::kFloat32 || !variable.device().is_cpu()) {
        return error(ErrorKind::kBadRequest, "parameter \"{}{}\" is {} on {}; only float32 on the processor can be trained", prefix,
                     item.key(), c10::toString(variable.scalar_type()), variable.device().str());
      }
      parameters.push_back({variable, prefix + item.key(), path.empty() ? "(model)" : path, position, nullptr});
    }
    ++position;
  }
  if (parameters.empty()) return error(ErrorKind::kBadRequest, "the model has no parameters to train");
  return parameters;
}

// Position of each owning module in the order in which `dry_run` first reads it; those it never reads come last.
std::vector<int> first_uses(torch::nn::Module& module, const std::vector<Parameter>& parameters,
                            const std::function<void()>& dry_run) {
  std::unordered_map<const c10::StorageImpl*, int> owner_of;
  int modules = 0;
  for (const Parameter& parameter : parameters) {
    owner_of[parameter.variable.storage().unsafeGetStorageImpl()] = parameter.module;
    modules = std::max(modules, parameter.module + 1);
  }
  std::vector<int> order(static_cast<std::size_t>(modules), modules);
  std::vector<torch::Tensor> saved;
  for (const torch::Tensor& buffer : module.buffers()) saved.push_back(buffer.clone());
  {
    torch::NoGradGuard no_gradients;
    int next = 0;
    Watch watch([&](const c10::StorageImpl* storage, std::int64_t) {
      const auto owner = owner_of.find(storage);
      if (owner != owner_of.end() && order[static_cast<std::size_t>(owner->second)] == modules)
        order[static_cast<std::size_t>(owner->second)] = next++;
    });
    dry_run();
  }
  torch::NoGradGuard no_gradients;
  const auto buffers = module.buffers();
  for (std::size_t i = 0; i < saved.size(); ++i) buffers[i].copy_(saved[i]);
  return order;
}

wire::TensorTable table_of(const std::vector<Parameter>& parameters) {
  wire::TensorTable table;
  int module = -1;
  for (const Parameter& parameter : parameters) {
    if (parameter.module != module) table.layers.push_back(parameter.layer_name);
    module = parameter.module;
    table.tensors.push_back({parameter.name, "float32", parameter.variable.sizes().vec(),
                             Layer{static_cast<std::int32_t>(table.layers.size()) - 1}, 0});
  }
  return table;
}

}  // namespace

Result<std::unique_ptr<ModuleAdapter>> ModuleAdapter::make(torch::nn::Module& module, const std::function<void()>& dry_run) {
  PACELINE_ASSIGN_OR_RETURN(std::vector<Parameter> parameters, trainable_parameters(module));
  if (dry_run) {
    const std::vector<int> order = first_uses(module, parameters, dry_run);
    std::stable_sort(parameters.begin(), parameters.end(), [&](const Parameter& a, const Parameter& b) {
      return std::pair(order[static_cast<std::size_t>(a.module)], a.module) <
             std::pair(order[static_cast<std::size_t>(b.module)], b.module);
    });
  }
  wire::TensorTable table = table_of(parameters);
  PACELINE_RETURN_IF_ERROR(validate(table));
  return std::unique_ptr<ModuleAdapter>(new ModuleAdapter(module, std::move(parameters), std::move(table)));
}

ModuleAdapter::ModuleAdapter(torch::nn::Module& module, std::vector<Parameter> parameters, wire::TensorTable table)
    : module_(module), parameters_(std::move(parameters)), table_(std::move(table)), finished_(parameters_.size(), 0) {
  move_into_arena();
  hook_gradients();
}

ModuleAdapter::~ModuleAdapter() = default;

std::span<float> ModuleAdapter::parameters() { return {values_.data_ptr<float>(), static_cast<std::size_t>(values_.numel())}; }
std::span<float> ModuleAdapter::gradients() { return {gradients_.data_ptr<float>(), static_cast<std::size_t>(gradients_.numel())}; }

void ModuleAdapter::move_into_arena() {
  torch::NoGradGuard no_gradients;
  values_ = torch::empty({table_.elements()}, torch::kFloat32);
  gradients_ = torch::zeros({table_.elements()}, torch::kFloat32);
  const auto offsets = table_.offsets();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& variable = parameters_[i].variable;
    torch::Tensor place = values_.narrow(0, offsets[i], variable.numel()).view(variable.sizes());
    place.copy_(variable);
    variable.set_data(place);
  }
}

// LibTorch hands over each finished gradient as a tensor of its own; it is copied to its place in the arena and let go, which
// passes over memory less often than clearing the arena before each pass and adding to it.
void ModuleAdapter::hook_gradients() {
  const auto offsets = table_.offsets();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    parameter.accumulator = torch::autograd::impl::grad_accumulator(parameter.variable);
    torch::Tensor place = gradients_.narrow(0, offsets[i], parameter.variable.numel()).view(parameter.variable.sizes());
    auto hook = [this, i, place](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
      torch::Tensor& gradient = parameters_[i].variable.mutable_grad();
      if (observer_ != nullptr && gradient.defined()) {
        torch::NoGradGuard no_gradients;
        torch::Tensor(place).copy_(gradient);
        gradient.reset();
        finished_[i] = 1;
        observer_->on_gradient(static_cast<int>(i));
      }
      return outputs;
    };
    parameter.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(std::move(hook)));
  }
}

// RecordFunction swallows exceptions of its callbacks, so after a refused gate the pass runs on over stale values, whose result is
// thrown away with the error. No later gate is asked.
Status ModuleAdapter::run_forward(LayerObserver& observer, const std::function<void()>& forward) {
  const c10::StorageImpl* arena = values_.storage().unsafeGetStorageImpl();
  const auto offsets = table_.offsets();
  std::vector<char> open(table_.layers.size(), 0);
  Status refused;
  Watch watch([&](const c10::StorageImpl* storage, std::int64_t offset) {
    if (storage != arena || !refused.ok()) return;
    const auto tensor = static_cast<std::size_t>(std::upper_bound(offsets.begin(), offsets.end(), offset) - offsets.begin()) - 1;
    const Layer layer = table_.tensors[std::min(tensor, table_.tensors.size() - 1)].layer;
    if (open[static_cast<std::size_t>(layer.index)] != 0) return;
    open[static_cast<std::size_t>(layer.index)] = 1;
    refused = observer.before_layer(layer);
  });
  forward();
  return refused;
}

std::vector<int> ModuleAdapter::run_backward(LayerObserver& observer, const std::function<void()>& backward) {
  std::fill(finished_.begin(), finished_.end(), 0);
  observer_ = &observer;
  backward();
  observer_ = nullptr;
  std::vector<int> unused;
  const auto offsets = table_.offsets();
  for (std::size_t i = 0; i < finished_.size(); ++i) {
    if (finished_[i] != 0) continue;
    unused.push_back(static_cast<int>(i));
    const auto all = gradients();
    std::fill(all.begin() + offsets[i], all.begin() + offsets[i + 1], 0.0f);
  }
  return unused;
}

std::vector<std::pair<std::string, torch::Tensor>> ModuleAdapter::buffers() const {
  std::vector<std::pair<std::string, torch::Tensor>> buffers;
  for (const auto& item : module_.named_buffers()) buffers.emplace_back(item.key(), item.value());
  return buffers;
}

}  // namespace paceline::trainer
