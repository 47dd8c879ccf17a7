// A translation network like Sockeye's recurrent one, sized for IWSLT'15 English-Vietnamese. A sentence has 25 tokens here, about
// the corpus's mean; the tensors do not depend on it, the multiply-accumulates do.
#include "model/builder.h"
#include "model/networks.h"

namespace paceline::model {

ModelDescription seq2seq() {
  constexpr std::int64_t kSourceWords = 17191, kTargetWords = 7709, kWidth = 512, kLength = 25;
  Builder net({2, kLength});
  net.embedding("source_embedding", kSourceWords, kWidth);
  net.lstm("encoder1", {.input = kWidth, .hidden = kWidth / 2, .directions = 2, .length = kLength});
  net.lstm("encoder2", {.input = kWidth, .hidden = kWidth, .length = kLength});
  net.embedding("target_embedding", kTargetWords, kWidth);
  net.attention("attention", kWidth, kLength, kLength);
  net.lstm("decoder1", {.input = 2 * kWidth, .hidden = kWidth, .length = kLength});  // fed with embedding and context
  net.lstm("decoder2", {.input = kWidth, .hidden = kWidth, .length = kLength});
  net.linear("output", kWidth, kTargetWords, kLength);
  ModelDescription model = std::move(net).finish(kTargetWords);
  model.source_words = kSourceWords;
  return model;
}

}  // namespace paceline::model
