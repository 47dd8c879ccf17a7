#include "trainer/workload.h"

#include <gmock/gmock.h>

#include "trainer/data/records.h"
#include "trainer/data/test_files.h"

namespace paceline::trainer {
namespace {

using ::testing::HasSubstr;

// So many pairs of one word each, of a source vocabulary of any size.
class Pairs final : public data::Dataset {
 public:
  Pairs(std::int64_t size, std::int64_t source_vocabulary)
      : size_(size), form_{.content = data::Content::kText, .classes = 7709, .source_vocabulary = source_vocabulary} {}

  std::int64_t size() const override { return size_; }
  const data::Form& form() const override { return form_; }
  std::int64_t length(std::int64_t) const override { return 2; }
  Status load(std::int64_t, data::Sample& sample) const override {
    sample.tokens = {form_.source_vocabulary - 1, data::kEnd};
    sample.target = {data::kBegin, data::kFirstWord, data::kEnd};
    return {};
  }

 private:
  std::int64_t size_;
  data::Form form_;
};

Status opened(const std::string& model, const std::string& dataset, std::int64_t mini_batch) {
  job::JobSpec settings;
  settings.task.model = model;
  settings.task.dataset = dataset;
  settings.task.mini_batch = mini_batch;
  return Workload::open(settings, 1, "").status();
}

TEST(Workload, KnowsEveryWordOfTheSource) {
  const data::TestFolder folder;
  const std::string file = folder.path("pairs");
  for (const std::int64_t words : {17191, 20000}) {
    const data::DatasetPair pair{
        .name = "pairs", .train = std::make_shared<Pairs>(8, words), .test = std::make_shared<Pairs>(2, words)};
    ASSERT_TRUE(data::pack(pair, file, [](std::int64_t) { return Status(); }).ok());
    const Status status = opened("seq2seq", "records:" + file, 2);
    if (words == 17191) {
      EXPECT_TRUE(status.ok()) << status.message();
      continue;
    }
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
    EXPECT_EQ(status.message(), "model 'seq2seq' knows 17191 words of the source, data set 'records:" + file + "' has 20000");
  }
}

TEST(Workload, AMiniBatchThatBatchNormCannotDoIsRefusedBeforeAnythingIsComputed) {
  const std::string images = "synthetic:3x299x299,samples=4,test=1";
  const Status status = opened("inception-v3-aux", images, 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(status.message(), HasSubstr("inception-v3-aux needs a --mini-batch of at least 2: BatchNorm"));
  EXPECT_TRUE(opened("inception-v3-aux", images, 2).ok());
  EXPECT_TRUE(opened("inception-v3", images, 1).ok());
}

}  // namespace
}  // namespace paceline::trainer
