#include "trainer/models/convolution_kernels.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/native/ConvUtils.h>

#include "base/check.h"

namespace paceline::trainer::models {
namespace {

using at::Tensor;
using Algorithm = model::ConvolutionAlgorithm;
using Sides = std::array<std::int64_t, 2>;

constexpr Sides kNoDilation = {1, 1};

std::optional<Tensor> optional(const Tensor& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; }

Sides kernel_of(const Tensor& weight) { return {weight.size(2), weight.size(3)}; }

Sides output_size(const Sides& input, const Sides& kernel, const ConvolutionShape& shape) {
  Sides output{};
  for (std::size_t i = 0; i < 2; ++i) output[i] = (input[i] - kernel[i] + 2 * shape.padding[i]) / shape.stride[i] + 1;
  return output;
}

// In place.
Tensor with_bias(const Tensor& output, const Tensor& bias) {
  return bias.defined() ? output.add_(bias.view({1, -1, 1, 1})) : output;
}

Tensor bias_gradient(const Tensor& gradient) { return gradient.sum({0, 2, 3}); }

// ---- Fourier: by the convolution theorem, over circles so large that nothing wraps around into what is kept.

// A transform length of at least `size` with small prime factors only, and even.
std::int64_t smooth_size(std::int64_t size) {
  for (std::int64_t candidate = size + size % 2;; candidate += 2) {
    std::int64_t rest = candidate;
    for (const std::int64_t factor : {2, 3, 5, 7}) {
      while (rest % factor == 0) rest /= factor;
    }
    if (rest == 1) return candidate;
  }
}

struct Spectrum {
  Sides size{};  // of the circle

  // A x B x h x w -> frequencies x A x B, complex.
  Tensor of(const Tensor& images) const {
    const Tensor transformed = at::fft_rfft2(images, at::IntArrayRef(size));
    return transformed.flatten(2).permute({2, 0, 1}).contiguous();
  }
  // Back, cut to the first `kept` rows and columns.
  Tensor to_images(const Tensor& spectrum, const Sides& kept) const {
    const Tensor ordered = spectrum.permute({1, 2, 0}).contiguous();
    const Tensor images =
        at::fft_irfft2(ordered.view({ordered.size(0), ordered.size(1), size[0], size[1] / 2 + 1}), at::IntArrayRef(size));
    return images.narrow(2, 0, kept[0]).narrow(3, 0, kept[1]);
  }
};

Sides padded_size(const Tensor& input, const ConvolutionShape& shape) {
  return {input.size(2) + 2 * shape.padding[0], input.size(3) + 2 * shape.padding[1]};
}

Tensor padded(const Tensor& input, const ConvolutionShape& shape) {
  return at::constant_pad_nd(input, {shape.padding[1], shape.padding[1], shape.padding[0], shape.padding[0]});
}

Spectrum spectrum_for(const Tensor& input, const ConvolutionShape& shape) {
  const Sides size = padded_size(input, shape);
  return {{smooth_size(size[0]), smooth_size(size[1])}};
}

Tensor fft_forward(const Tensor& input, const Tensor& weight, const ConvolutionShape& shape) {
  const Spectrum spectrum = spectrum_for(input, shape);
  const Sides size = padded_size(input, shape), kernel = kernel_of(weight);
  const Tensor products = at::bmm(spectrum.of(padded(input, shape)), spectrum.of(weight).conj().transpose(1, 2));
  const Tensor dense = spectrum.to_images(products, {size[0] - kernel[0] + 1, size[1] - kernel[1] + 1});
  return dense.slice(2, 0, c10::nullopt, shape.stride[0]).slice(3, 0, c10::nullopt, shape.stride[1]).contiguous();
}

// The gradient of every place of the output with stride 1; those that the stride left out had no influence.
Tensor dense_gradient(const Tensor& gradient, const Sides& dense, const ConvolutionShape& shape) {
  if (shape.stride == Sides{1, 1}) return gradient;
  Tensor spread = at::zeros({gradient.size(0), gradient.size(1), dense[0], dense[1]}, gradient.options());
  spread.slice(2, 0, c10::nullopt, shape.stride[0]).slice(3, 0, c10::nullopt, shape.stride[1]).copy_(gradient);
  return spread;
}

void fft_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight, const ConvolutionShape& shape,
                  const std::array<bool, 3>& wanted, ConvolutionGradients& result) {
  const Spectrum spectrum = spectrum_for(input, shape);
  const Sides size = padded_size(input, shape), kernel = kernel_of(weight);
  const Sides dense = {size[0] - kernel[0] + 1, size[1] - kernel[1] + 1};
  const Tensor of_gradient = spectrum.of(dense_gradient(gradient, dense, shape));
  if (wanted[0]) {
    const Tensor whole = spectrum.to_images(at::bmm(of_gradient, spectrum.of(weight)), size);
    result.input = whole.narrow(2, shape.padding[0], input.size(2)).narrow(3, shape.padding[1], input.size(3)).contiguous();
  }
  if (wanted[1]) {
    const Tensor products = at::bmm(of_gradient.conj().transpose(1, 2), spectrum.of(padded(input, shape)));
    result.weight = spectrum.to_images(products, kernel).contiguous();
  }
}

// ---- Winograd F(4x4, 3x3) (Lavin and Gray 2016): output tiles of 4x4 from input tiles of 6x6 with 36 products in place of 144.
// The transforms along both sides are one matrix each, applied to all tiles at once; the products are 36 matrix products.

constexpr std::int64_t kTile = 4, kInputTile = 6, kPlaces = kInputTile * kInputTile;

struct Transforms {
  Tensor input;   // 36 x 36
  Tensor weight;  // 36 x 9
  Tensor output;  // 16 x 36
};

// The factors 1/4, 1/6, 1/24 of the points 0, 1, -1, 2, -2 and infinity.
const Transforms& transforms() {
  static const Transforms all = [] {
    const at::AutoDispatchBelowAutograd no_gradients;
    const auto matrix = [](const std::vector<double>& values, std::int64_t rows) {
      return at::tensor(values, at::kDouble).view({rows, -1});
    };
    const Tensor b = matrix(
        {4, 0, -5, 0, 1, 0, 0, -4, -4, 1, 1, 0, 0, 4, -4, -1, 1, 0, 0, -2, -1, 2, 1, 0, 0, 2, -1, -2, 1, 0, 0, 4, 0, -5, 0, 1},
        kInputTile);
    const Tensor g = matrix({1.0 / 4, 0, 0, -1.0 / 6, -1.0 / 6, -1.0 / 6, -1.0 / 6, 1.0 / 6, -1.0 / 6, 1.0 / 24, 1.0 / 12, 1.0 / 6,
                             1.0 / 24, -1.0 / 12, 1.0 / 6, 0, 0, 1},
                            kInputTile);
    const Tensor a = matrix({1, 1, 1, 1, 1, 0, 0, 1, -1, 2, -2, 0, 0, 1, 1, 4, 4, 0, 0, 1, -1, 8, -8, 1}, kTile);
    const auto both_sides = [](const Tensor& one) { return at::kron(one, one).to(at::kFloat).contiguous(); };
    return Transforms{both_sides(b), both_sides(g), both_sides(a)};
  }();
  return all;
}

struct Tiles {
  std::int64_t rows, columns;
};
Tiles tiles_of(const Sides& output) { return {(output[0] + kTile - 1) / kTile, (output[1] + kTile - 1) / kTile}; }

// N x C x H x W -> 36 x tiles x C.
Tensor transformed_input(const Tensor& input, const Sides& padding, const Tiles& tiles) {
  const std::int64_t height = tiles.rows * kTile + 2, width = tiles.columns * kTile + 2;
  const Tensor framed =
      at::constant_pad_nd(input, {padding[1], width - input.size(3) - padding[1], padding[0], height - input.size(2) - padding[0]});
  const Tensor cut = framed.unfold(2, kInputTile, kTile).unfold(3, kInputTile, kTile).permute({4, 5, 0, 2, 3, 1});
  return at::mm(transforms().input, cut.reshape({kPlaces, -1})).view({kPlaces, -1, input.size(1)});
}

// K x C x 3 x 3 -> 36 x C x K.
Tensor transformed_weight(const Tensor& weight) {
  const Tensor flat = weight.permute({2, 3, 1, 0}).reshape({9, -1});
  return at::mm(transforms().weight, flat).view({kPlaces, weight.size(1), weight.size(0)});
}

Tensor winograd_forward(const Tensor& input, const Tensor& weight, const Sides& padding) {
  const Sides output = output_size({input.size(2), input.size(3)}, {3, 3}, {{1, 1}, padding, 1});
  const Tiles tiles = tiles_of(output);
  const Tensor products = at::bmm(transformed_input(input, padding, tiles), transformed_weight(weight));
  const Tensor places = at::mm(transforms().output, products.view({kPlaces, -1}));
  const Tensor ordered =
      places.view({kTile, kTile, input.size(0), tiles.rows, tiles.columns, weight.size(0)}).permute({2, 5, 3, 0, 4, 1});
  const Tensor whole = ordered.reshape({input.size(0), weight.size(0), tiles.rows * kTile, tiles.columns * kTile});
  return whole.narrow(2, 0, output[0]).narrow(3, 0, output[1]).contiguous();
}

void winograd_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight, const ConvolutionShape& shape,
                       const std::array<bool, 3>& wanted, ConvolutionGradients& result) {
  if (wanted[0]) {  // a convolution with the filters turned round, whose padding makes up for what the first one cut off
    const Tensor turned = weight.flip({2, 3}).transpose(0, 1);
    result.input = winograd_forward(gradient, turned, {2 - shape.padding[0], 2 - shape.padding[1]});
  }
  if (wanted[1]) {
    const Tiles tiles = tiles_of({gradient.size(2), gradient.size(3)});
    const Tensor framed =
        at::constant_pad_nd(gradient, {0, tiles.columns * kTile - gradient.size(3), 0, tiles.rows * kTile - gradient.size(2)});
    const Tensor cut = framed.unfold(2, kTile, kTile).unfold(3, kTile, kTile).permute({4, 5, 0, 2, 3, 1});
    const Tensor of_gradient =
        at::mm(transforms().output.t(), cut.reshape({kTile * kTile, -1})).view({kPlaces, -1, gradient.size(1)});
    const Tensor products = at::bmm(transformed_input(input, shape.padding, tiles).transpose(1, 2), of_gradient);
    const Tensor flat = at::mm(transforms().weight.t(), products.view({kPlaces, -1}));
    result.weight = flat.view({3, 3, weight.size(1), weight.size(0)}).permute({3, 2, 0, 1}).contiguous();
  }
}

}  // namespace

Tensor convolution_forward(Algorithm algorithm, const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const ConvolutionShape& shape) {
  switch (algorithm) {
    case Algorithm::kDefault:
      return at::convolution(input, weight, optional(bias), shape.stride, shape.padding, kNoDilation, /*transposed=*/false, {0, 0},
                             shape.groups);
    case Algorithm::kOnednn:
      return at::mkldnn_convolution(input, weight, optional(bias), shape.padding, shape.stride, kNoDilation, shape.groups);
    case Algorithm::kGemm:
      return at::_slow_conv2d_forward(input, weight, kernel_of(weight), optional(bias), shape.stride, shape.padding);
    case Algorithm::kWinograd:
      return with_bias(winograd_forward(input, weight, shape.padding), bias);
    case Algorithm::kFft:
      return with_bias(fft_forward(input, weight, shape), bias);
  }
  PACELINE_CHECK(false, "convolution algorithm {}", static_cast<int>(algorithm));
}

bool default_is_onednn(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvolutionShape& shape) {
  const auto symbolic = [](const Sides& sides) { return std::vector<c10::SymInt>(sides.begin(), sides.end()); };
  const std::vector<c10::SymInt> bias_sizes = {weight.size(0)};
  return at::native::select_conv_backend(input, weight, optional(bias), symbolic(shape.stride), symbolic(shape.padding),
                                         symbolic(kNoDilation), /*transposed=*/false, symbolic({0, 0}), shape.groups,
                                         at::OptionalSymIntArrayRef(bias_sizes)) == at::native::ConvBackend::Mkldnn;
}

ConvolutionGradients convolution_backward(Algorithm algorithm, const Tensor& gradient, const Tensor& input, const Tensor& weight,
                                          const ConvolutionShape& shape, const std::array<bool, 3>& wanted) {
  ConvolutionGradients result;
  const auto take = [&result](std::tuple<Tensor, Tensor, Tensor> three) {
    std::tie(result.input, result.weight, result.bias) = std::move(three);
  };
  switch (algorithm) {
    case Algorithm::kDefault:
    case Algorithm::kOnednn:  // the wheel offers no other way to its backward pass
      take(at::convolution_backward(gradient, input, weight, weight.sizes().slice(0, 1), shape.stride, shape.padding, kNoDilation,
                                    /*transposed=*/false, {0, 0}, shape.groups, wanted));
      return result;
    case Algorithm::kGemm:
      take(at::_slow_conv2d_backward(gradient.contiguous(), input, weight, kernel_of(weight), shape.stride, shape.padding, wanted));
      return result;
    case Algorithm::kWinograd:
      winograd_backward(gradient, input, weight, shape, wanted, result);
      break;
    case Algorithm::kFft:
      fft_backward(gradient, input, weight, shape, wanted, result);
      break;
  }
  if (wanted[2]) result.bias = bias_gradient(gradient);
  return result;
}

}  // namespace paceline::trainer::models
