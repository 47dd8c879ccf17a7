#include "trainer/models/convolution.h"

#include <torch/torch.h>

#include "trainer/models/convolution_kernels.h"

namespace paceline::trainer::models {
namespace {

using torch::Tensor;
using Pass = ConvolutionProbe::Pass;

ConvolutionShape shape_of(const torch::nn::detail::ConvNdOptions<2>& options) {
  const auto& padding = std::get<torch::ExpandingArray<2>>(options.padding());
  return {{options.stride()->at(0), options.stride()->at(1)}, {padding->at(0), padding->at(1)}, options.groups()};
}

std::int64_t bytes_of(const std::initializer_list<Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

// What does not change between the passes of one layer.
struct Work : torch::CustomClassHolder {
  model::ConvolutionAlgorithm algorithm = model::ConvolutionAlgorithm::kDefault;
  ConvolutionShape shape;
  bool has_bias = true;
  ConvolutionProbe* probe = nullptr;
};

class ConvolutionFunction : public torch::autograd::Function<ConvolutionFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const std::optional<Tensor>& bias, const c10::intrusive_ptr<Work>& work) {
    context->save_for_backward({input, weight});
    context->saved_data["work"] = c10::IValue::make_capsule(work);
    if (work->probe != nullptr) work->probe->before(Pass::kForward);
    Tensor output = convolution_forward(work->algorithm, input, weight, bias.value_or(Tensor()), work->shape);
    if (work->probe != nullptr) work->probe->after(Pass::kForward, bytes_of({output}));
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto work = c10::static_intrusive_pointer_cast<Work>(context->saved_data["work"].toCapsule());
    const std::array<bool, 3> wanted = {context->needs_input_grad(0), context->needs_input_grad(1),
                                        work->has_bias && context->needs_input_grad(2)};
    if (work->probe != nullptr) work->probe->before(Pass::kBackward);
    ConvolutionGradients result = convolution_backward(work->algorithm, gradients[0], saved[0], saved[1], work->shape, wanted);
    if (work->probe != nullptr) work->probe->after(Pass::kBackward, bytes_of({result.input, result.weight, result.bias}));
    return {result.input, result.weight, result.bias, Tensor()};
  }
};

}  // namespace

Tensor ConvolutionImpl::forward(const Tensor& input) {
  if (algorithm_ == model::ConvolutionAlgorithm::kDefault && probe_ == nullptr) return Conv2dImpl::forward(input);
  auto work = c10::make_intrusive<Work>();
  work->algorithm = algorithm_;
  work->shape = shape_of(options);
  work->probe = probe_;
  work->has_bias = bias.defined();
  return ConvolutionFunction::apply(input, weight, bias.defined() ? std::optional(bias) : std::nullopt, work);
}

bool ConvolutionImpl::default_is_onednn(at::IntArrayRef input) const {
  return models::default_is_onednn(torch::empty(input), weight, bias, shape_of(options));
}

std::vector<std::pair<std::string, ConvolutionImpl*>> convolutions_of(torch::nn::Module& module) {
  std::vector<std::pair<std::string, ConvolutionImpl*>> found;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    if (auto* convolution = dynamic_cast<ConvolutionImpl*>(item.value().get())) found.emplace_back(item.key(), convolution);
  }
  return found;
}

Status run_convolutions(torch::nn::Module& module, const model::ConvolutionChoice& choice) {
  const auto convolutions = convolutions_of(module);
  for (const auto& [name, algorithm] : choice) {
    const auto named = [&wanted = name](const auto& item) { return item.first == wanted; };
    const auto found = std::find_if(convolutions.begin(), convolutions.end(), named);
    if (found == convolutions.end()) return error(ErrorKind::kBadRequest, "layer '{}' is no convolution of the model", name);
    found->second->run_with(algorithm);
  }
  return {};
}

}  // namespace paceline::trainer::models
