#include "paceline/other_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

std::string said(std::string_view command, std::string_view option, std::string_view options) {
  return other_word(command, option, [&](const std::string& one) { return options.find(one + " ") != std::string_view::npos; });
}

TEST(OtherWords, AWordOfAnotherToolLeadsToOurs) {
  constexpr std::string_view kTrain = "--learning-rate --mini-batch --workers --hosts --metrics ";
  EXPECT_EQ(said("train", "--lr", kTrain), "; here that is --learning-rate");
  EXPECT_EQ(said("train", "--batch_size", kTrain), "; here that is --mini-batch");
  for (const char* word : {"-n", "-np", "--np", "--nproc_per_node", "--num-processes"})
    EXPECT_EQ(said("train", word, kTrain), "; here that is --workers") << word;
  EXPECT_EQ(said("train", "-H", kTrain), "; here that is --hosts");
  EXPECT_EQ(said("train", "--mini_batch", kTrain), " (did you mean '--mini-batch'?)");
}

TEST(OtherWords, WhatHasNoOptionHereGetsASentence) {
  for (const char* word : {"--gpu", "--gpus", "--device", "--cuda"})
    EXPECT_THAT(said("train", word, ""), HasSubstr("paceline.torch.attach"));
  EXPECT_THAT(said("train", "--port", ""), HasSubstr("'paceline coordinator' has --port"));
  EXPECT_THAT(said("run", "--lr", "--workers "), HasSubstr("stands behind --"));
}

TEST(OtherWords, WhatNobodySaysIsUnknown) {
  EXPECT_EQ(said("train", "--workerz", "--workers "), "");
  EXPECT_EQ(said("train", "--", "--workers "), "");
  EXPECT_EQ(said("plan gpus", "--gpu", ""), "");
}

}  // namespace
}  // namespace paceline::cli
