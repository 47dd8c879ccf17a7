// The networks of src/model as LibTorch modules, and what the trainer asks of any of them: logits, a loss, a count of right
// answers.
//
// Names, shapes and the order of the first use of every layer are those of paceline::model::describe (trainer/tests/models_test.cc
// compares them). One thread uses a network at a time. Dropout draws from torch's generator, and so does construction: the caller
// seeds it (torch::manual_seed) before make() and, for runs that can be repeated, before every loss().
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "base/status.h"

namespace paceline::trainer::models {

// Answers of this value are not counted and cost nothing: the padding behind a short sentence.
inline constexpr std::int64_t kIgnored = -100;

struct Score {
  std::int64_t correct = 0;
  std::int64_t total = 0;  // samples, or tokens that are not padding
};

// Images: input is float32 [samples, channels, height, width], target int64 [samples] holds classes.
// Translation: input is int64 [samples, source length], each sentence followed by padding (0); target is int64 [samples, target
// length], 2 or more: begin, tokens, end, padding. The decoder reads all but the last token and answers with all but the first.
class Network : public torch::nn::Module {
 public:
  // Logits, one row for each answer: [samples, classes], or [samples * (target length - 1), words]. Image networks ignore `target`.
  virtual torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& target) = 0;

  // The right class for each row of forward().
  virtual torch::Tensor answers(const torch::Tensor& target) const { return target; }

  // Mean cross entropy over the answers; networks with auxiliary classifiers add theirs in training mode, and only there run them.
  virtual torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target);

  // How many rows have their largest logit (the first of equal ones) at the right class.
  Score score(const torch::Tensor& input, const torch::Tensor& target);
};

// A new network in training mode on the processor, initialised from torch's generator. Errors: as model::describe.
//
// Initial values are torch's defaults where a network trains with them (mlp, lenet, seq2seq). Networks of many rectified layers
// start from He et al.'s normal values (2015: variance 2 / fan-in; with batch normalisation 2 / fan-out for convolutions) with zero
// biases.
Result<std::shared_ptr<Network>> make(const std::string& name);

}  // namespace paceline::trainer::models
