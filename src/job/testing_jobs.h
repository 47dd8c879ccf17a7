// For tests only: jobs made from a seed, the gradients their workers push, and the plain computation of what must come out.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "job/plan.h"
#include "tensor/exact_square_sum.h"

namespace paceline::job::testing {

// `sizes[layer]` lists the elements of the layer's tensors. Tensor i is in group i % groups.
inline wire::TensorTable table_of(const std::vector<std::vector<std::int64_t>>& sizes, std::int32_t groups = 1) {
  wire::TensorTable table;
  for (std::size_t layer = 0; layer < sizes.size(); ++layer) {
    table.layers.push_back("layer" + std::to_string(layer));
    for (std::size_t i = 0; i < sizes[layer].size(); ++i) {
      wire::TensorInfo tensor;
      tensor.name = "layer" + std::to_string(layer) + ".tensor" + std::to_string(i);
      tensor.dtype = "float32";
      tensor.shape = {sizes[layer][i]};
      tensor.layer = Layer{static_cast<std::int32_t>(layer)};
      tensor.group = static_cast<std::int32_t>(table.tensors.size()) % groups;
      table.tensors.push_back(tensor);
    }
  }
  return table;
}

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL + b + 0x7f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Element `index` of `worker`'s gradient: numbers of very different size, so that another order of summation gives other bits.
inline float gradient_element(std::uint64_t seed, std::int32_t worker, Iteration iteration, std::int64_t index) {
  const std::uint64_t bits = mixed(mixed(mixed(seed, static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(iteration)),
                                   static_cast<std::uint64_t>(index));
  const auto fraction = static_cast<float>(static_cast<std::int32_t>(bits & 0xffffff) - 0x800000) / 8388608.0F;
  return std::ldexp(fraction, static_cast<int>((bits >> 24) % 12) - 6);
}

inline std::vector<float> gradient_of(std::uint64_t seed, std::int32_t worker, Iteration iteration, std::int64_t elements) {
  std::vector<float> gradient(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) gradient[static_cast<std::size_t>(i)] = gradient_element(seed, worker, iteration, i);
  return gradient;
}

inline std::vector<float> initial_values(std::uint64_t seed, std::int64_t elements) {
  return gradient_of(seed ^ 0x1234, 99, 0, elements);
}

inline bool is_unused(std::uint64_t seed, std::int32_t worker, Iteration iteration, std::uint32_t tensor, unsigned per_cent) {
  return mixed(mixed(mixed(seed, 77 + static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(iteration)), tensor) % 100 <
         per_cent;
}

// What training must give in BSP: plain loops over whole tensors, no units, servers, messages or kernels.
class Reference {
 public:
  Reference(const wire::TensorTable& table, const UpdateOptions& options, std::vector<float> initial)
      : table_(table),
        options_(options),
        offsets_(table.offsets()),
        parameters(std::move(initial)),
        m(parameters.size()),
        v(parameters.size()),
        steps(table.tensors.size()) {}

  // gradients[worker] is an arena; unused[worker][tensor].
  void train(Iteration iteration, const std::vector<std::vector<float>>& gradients, const std::vector<std::vector<bool>>& unused) {
    std::vector<float> mean(parameters.size());
    std::vector<bool> used(table_.tensors.size());
    tensor::ExactSquareSum squares;
    bool finite = true;
    for (std::size_t t = 0; t < table_.tensors.size(); ++t) {
      for (std::size_t w = 0; w < gradients.size(); ++w) used[t] = used[t] || !unused[w][t];
      if (!used[t]) continue;
      for (std::int64_t at = offsets_[t]; at < offsets_[t + 1]; ++at) {
        const auto i = static_cast<std::size_t>(at);
        float sum = unused[0][t] ? 0.0F : gradients[0][i];
        for (std::size_t w = 1; w < gradients.size(); ++w) sum += unused[w][t] ? 0.0F : gradients[w][i];
        mean[i] = sum * static_cast<float>(1.0 / static_cast<double>(gradients.size()));
        finite = finite && std::isfinite(mean[i]);
        squares.add(std::span(&mean[i], 1));
      }
    }
    if (!finite && options_.non_finite == NonFinitePolicy::kSkip) return;
    const float coefficient = options_.clip_norm > 0 ? tensor::clip_coefficient(squares, options_.clip_norm) : 1.0F;
    for (std::size_t t = 0; t < table_.tensors.size(); ++t) {
      if (!used[t]) continue;
      const auto group = static_cast<std::size_t>(table_.tensors[t].group);
      tensor::OptimizerOptions optimizer = options_.optimizer;
      double rate = tensor::learning_rate(options_.learning_rate, iteration);
      if (!options_.groups.empty()) {
        optimizer.weight_decay = options_.groups[group].weight_decay;
        rate *= options_.groups[group].learning_rate_factor;
      }
      const tensor::Coefficients c = tensor::coefficients(optimizer, {rate, ++steps[t]});
      for (std::int64_t at = offsets_[t]; at < offsets_[t + 1]; ++at) {
        const auto i = static_cast<std::size_t>(at);
        const float g = coefficient == 1.0F ? mean[i] : mean[i] * coefficient;
        step_one(optimizer, c, i, g);
      }
    }
  }

 private:
  void step_one(const tensor::OptimizerOptions& optimizer, const tensor::Coefficients& c, std::size_t i, float g) {
    using Kind = tensor::OptimizerKind;
    float& p = parameters[i];
    if (optimizer.kind == Kind::kAdamW) {
      if (optimizer.weight_decay != 0) p = p * c.keep;
    } else if (optimizer.weight_decay != 0) {
      g = g + c.decay * p;
    }
    switch (optimizer.kind) {
      case Kind::kMean:
        p = g;
        break;
      case Kind::kSgd:
        p = p - c.rate * g;
        break;
      case Kind::kMomentum:
        m[i] = c.momentum * m[i] + g;
        p = p - c.rate * m[i];
        break;
      case Kind::kNesterov:
        m[i] = c.momentum * m[i] + g;
        g = g + c.momentum * m[i];
        p = p - c.rate * g;
        break;
      case Kind::kAdagrad:
        m[i] = m[i] + g * g;
        p = p - (c.rate * g) / (std::sqrt(m[i]) + c.epsilon);
        break;
      case Kind::kAdam:
      case Kind::kAdamW:
        m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
        v[i] = c.beta2 * v[i] + (c.one_minus_beta2 * g) * g;
        p = p - (c.step_size * m[i]) / (std::sqrt(v[i]) / c.correction2_sqrt + c.epsilon);
        break;
    }
  }

  wire::TensorTable table_;
  UpdateOptions options_;
  std::vector<std::int64_t> offsets_;

 public:
  std::vector<float> parameters, m, v;
  std::vector<std::int64_t> steps;  // by tensor
};

template <typename A, typename B>
bool same_bits(const A& a, const B& b) {
  return a.size() == b.size() && (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(*a.data())) == 0);
}

}  // namespace paceline::job::testing
