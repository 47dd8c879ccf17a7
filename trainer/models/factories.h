// What the files of this folder offer each other; others use make() of network.h.
#pragma once

#include <memory>
#include <vector>

#include <torch/torch.h>

#include "trainer/models/convolution.h"
#include "trainer/models/network.h"

namespace paceline::trainer::models {

enum class Auxiliary { kWithout, kWith };

std::shared_ptr<Network> make_mlp();
std::shared_ptr<Network> make_lenet();
std::shared_ptr<Network> make_alexnet();
std::shared_ptr<Network> make_alexnet_32();
std::shared_ptr<Network> make_vgg_19(std::int64_t classes);
std::shared_ptr<Network> make_vgg_19_32();
std::shared_ptr<Network> make_residual_cifar(int depth);
std::shared_ptr<Network> make_residual_50();
std::shared_ptr<Network> make_googlenet(Auxiliary auxiliary);
std::shared_ptr<Network> make_inception_v3(Auxiliary auxiliary);
std::shared_ptr<Network> make_seq2seq();

// He et al. 2015, for networks without normalisation: every convolution and linear layer normal with variance 2 / fan-in, zero
// biases. The last linear layer of a chain feeds no rectifier: variance 1 / fan-in for those with `classes` outputs.
void initialise_rectified(torch::nn::Module& network, std::int64_t classes);

// The same for networks with batch normalisation: convolutions 2 / fan-out; linear layers keep torch's default.
void initialise_normalised(torch::nn::Module& network);

// Cross entropy of the main classifier plus `share` times that of each auxiliary one.
torch::Tensor weighted_loss(const torch::Tensor& logits, const std::vector<torch::Tensor>& auxiliary, double share,
                            const torch::Tensor& target);

inline torch::nn::Conv2dOptions convolution(std::int64_t in, std::int64_t out, torch::ExpandingArray<2> kernel) {
  return torch::nn::Conv2dOptions(in, out, kernel);
}

}  // namespace paceline::trainer::models
