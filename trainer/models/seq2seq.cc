// A translation network like Sockeye's recurrent one: bidirectional encoder, attention, decoder fed with the last token and a
// context.
#include <cmath>
#include <tuple>

#include "trainer/models/factories.h"

namespace paceline::trainer::models {
namespace {

using torch::Tensor;

constexpr std::int64_t kPadding = 0;
constexpr std::int64_t kSourceWords = 17191, kTargetWords = 7709, kWidth = 512;

torch::nn::LSTM lstm(std::int64_t input, std::int64_t hidden) {
  return torch::nn::LSTM(torch::nn::LSTMOptions(input, hidden).batch_first(true));
}

// Scaled dot products between a projected query and projected keys; the weighted sum of the encoder's states is projected with a
// bias and squashed into the context.
class Attention : public torch::nn::Module {
 public:
  Attention() {
    const double bound = std::sqrt(1.0 / static_cast<double>(kWidth));
    for (Tensor* weight : {&query_, &key_, &value_}) *weight = torch::empty({kWidth, kWidth}).uniform_(-bound, bound);
    query_ = register_parameter("query_weight", query_);
    key_ = register_parameter("key_weight", key_);
    value_ = register_parameter("value_weight", value_);
    bias_ = register_parameter("bias", torch::zeros({kWidth}));
  }

  // [samples, source, width] of the encoder's states; once per sentence.
  Tensor keys(const Tensor& states) const { return torch::matmul(states, key_.t()); }

  // The context [samples, width] for a decoder's state [samples, width]. `padding` [samples, source] is true where no token stands.
  Tensor context(const Tensor& state, const Tensor& keys, const Tensor& states, const Tensor& padding) const {
    const Tensor query = torch::mm(state, query_.t()).unsqueeze(2);
    // Not minus infinity: a sentence without any token would turn into NaN.
    const Tensor scores = torch::bmm(keys, query).squeeze(2).div(std::sqrt(static_cast<double>(kWidth))).masked_fill(padding, -1e9);
    const Tensor weights = torch::softmax(scores, 1).unsqueeze(1);
    return torch::tanh(torch::addmm(bias_, torch::bmm(weights, states).squeeze(1), value_.t()));
  }

 private:
  Tensor query_, key_, value_, bias_;
};

class Seq2seq : public Network {
 public:
  Tensor forward(const Tensor& input, const Tensor& target) override {
    const Tensor states = encoded(input);
    const Tensor words = target_embedding_->forward(target.slice(1, 0, -1));
    return output_->forward(decoded(words, states, input.eq(kPadding))).flatten(0, 1);
  }

  Tensor answers(const Tensor& target) const override {
    const Tensor next = target.slice(1, 1).flatten();
    return next.masked_fill(next.eq(kPadding), kIgnored);
  }

 private:
  Tensor encoded(const Tensor& source) {
    const Tensor both = std::get<0>(encoder1_->forward(source_embedding_->forward(source)));
    return std::get<0>(encoder2_->forward(both));
  }

  // The first decoder layer goes token by token, because its context depends on its last state; the second takes the sentence at
  // once.
  Tensor decoded(const Tensor& words, const Tensor& states, const Tensor& padding) {
    const Tensor keys = attention_->keys(states);
    Tensor hidden = torch::zeros({1, words.size(0), kWidth}, words.options());
    Tensor cell = torch::zeros_like(hidden);
    std::vector<Tensor> steps;
    for (std::int64_t t = 0; t < words.size(1); ++t) {
      const Tensor context = attention_->context(hidden.squeeze(0), keys, states, padding);
      const Tensor step = torch::cat({words.select(1, t), context}, 1).unsqueeze(1);
      const auto [out, state] = decoder1_->forward(step, std::make_tuple(hidden, cell));
      std::tie(hidden, cell) = state;
      steps.push_back(out);
    }
    return std::get<0>(decoder2_->forward(torch::cat(steps, 1)));
  }

  torch::nn::Embedding source_embedding_ = register_module("source_embedding", torch::nn::Embedding(kSourceWords, kWidth));
  torch::nn::LSTM encoder1_ = register_module(
      "encoder1", torch::nn::LSTM(torch::nn::LSTMOptions(kWidth, kWidth / 2).batch_first(true).bidirectional(true)));
  torch::nn::LSTM encoder2_ = register_module("encoder2", lstm(kWidth, kWidth));
  torch::nn::Embedding target_embedding_ = register_module("target_embedding", torch::nn::Embedding(kTargetWords, kWidth));
  std::shared_ptr<Attention> attention_ = register_module("attention", std::make_shared<Attention>());
  torch::nn::LSTM decoder1_ = register_module("decoder1", lstm(2 * kWidth, kWidth));
  torch::nn::LSTM decoder2_ = register_module("decoder2", lstm(kWidth, kWidth));
  torch::nn::Linear output_ = register_module("output", torch::nn::Linear(kWidth, kTargetWords));
};

}  // namespace

std::shared_ptr<Network> make_seq2seq() { return std::make_shared<Seq2seq>(); }

}  // namespace paceline::trainer::models
