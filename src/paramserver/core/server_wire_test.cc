// Servers that get gradients as narrow codecs and dropping send them.
#include <cstring>
#include <limits>

#include "paramserver/core/server_testing.h"

namespace paceline::paramserver::testing {
namespace {

using ::testing::HasSubstr;

// Pushes of three elements, in bfloat16.
class NarrowServer : public ::testing::Test {
 protected:
  static Setting setting_of(const job::UpdateOptions& update) {
    Setting setting;
    setting.workers = 2;
    setting.update = update;
    setting.wire.kind = job::WireKind::kBFloat16;
    setting.layers = {{3}};
    return setting;
  }
  static Status push(Bench& bench, std::int32_t worker, Iteration iteration, const std::vector<float>& gradient) {
    const auto place = bench.begin(worker, wire::Push{0, 0, iteration}, gradient.size() * 2);
    if (!place.ok()) return place.status();
    tensor::convert(tensor::TensorView(place->data(), tensor::DType::kBFloat16, gradient.size()), std::span<const float>(gradient));
    return bench.on(worker, wire::Push{0, 0, iteration});
  }
  static std::vector<float> sent(const Leaving& left) {
    std::vector<float> values(left.sent.payload.size() / 2);
    tensor::convert(std::span(values), tensor::ConstTensorView(left.sent.payload.data(), tensor::DType::kBFloat16, values.size()));
    return values;
  }
};

TEST_F(NarrowServer, SumsInFloat32KeepsItsValuesAndSendsOneRoundedCopyToAll) {
  Bench bench(setting_of({.learning_rate = {.base = 1.0}}));
  bench.start();
  ASSERT_TRUE(push(bench, 0, 1, {-512, -2, 0}).ok());
  ASSERT_TRUE(push(bench, 1, 1, {-2, -4, 0}).ok());
  EXPECT_EQ(bench.value(0), (std::vector<float>{257, 3, 0})) << "514 and 257 are no bfloat16";
  ASSERT_EQ(bench.trace(), (Lines{"complete@1", "0<-0@1", "1<-0@1"}));
  EXPECT_EQ(sent(bench.left[0]), (std::vector<float>{256, 3, 0}));
  EXPECT_EQ(bench.left[0].sent.payload.data(), bench.left[1].sent.payload.data());
  EXPECT_EQ(bench.core->counters().gradient_bytes_high, 2 * 8) << "received gradients stay narrow";

  // What is being sent stays as it is without a copy of the value, and the next sum goes on from what was not rounded.
  const auto earlier = bench.left[0];
  bench.core->on_delivered(bench.left[1].sent.ticket);
  bench.forget();
  for (std::int32_t worker = 0; worker < 2; ++worker) ASSERT_TRUE(push(bench, worker, 2, {-3, 0, 0}).ok());
  EXPECT_EQ(bench.value(0)[0], 260);
  EXPECT_EQ(sent(earlier)[0], 256);
  EXPECT_EQ(sent(bench.left[0])[0], 260);
  EXPECT_EQ(bench.core->counters().value_copies, 0);
}

TEST_F(NarrowServer, SendsInitialValuesOfAJobOfMeansAsTheyAre) {
  Bench bench(setting_of({.optimizer = {.kind = tensor::OptimizerKind::kMean}}));
  ASSERT_TRUE(bench.initial(0, 257).ok());
  ASSERT_EQ(bench.trace(), (Lines{"1<-0@0"}));
  const auto whole = bench.left[0].sent.payload;
  ASSERT_EQ(whole.size(), 3 * sizeof(float));
  std::vector<float> values(3);
  std::memcpy(values.data(), whole.data(), whole.size());
  EXPECT_EQ(values, std::vector<float>(3, 257)) << "which is no bfloat16";
  bench.deliver();

  for (std::int32_t worker = 0; worker < 2; ++worker) ASSERT_TRUE(push(bench, worker, 1, {256, 2, 1}).ok());
  EXPECT_EQ(sent(bench.left[0]), (std::vector<float>{256, 2, 1}));
}

TEST_F(NarrowServer, RefusesAGradientOfAnotherSize) {
  Bench bench(setting_of({}));
  bench.start();
  EXPECT_THAT(bench.begin(0, wire::Push{0, 0, 1}, 12).status().message(), HasSubstr("pushed 12 bytes"));
  EXPECT_THAT(bench.begin(0, wire::Push{0, 0, 1}, 12).status().message(), HasSubstr("it has 6"));
}

TEST_F(NarrowServer, NamesTheTypeInWhichAGradientIsNotFinite) {
  Bench bench(setting_of({}));
  bench.start();
  ASSERT_TRUE(push(bench, 0, 1, {0, std::numeric_limits<float>::max(), 0}).ok());
  const Status stopped = push(bench, 1, 1, {0, 0, 0});
  EXPECT_EQ(stopped.kind(), ErrorKind::kCorrupt);
  EXPECT_TRUE(bench.left.empty());
  EXPECT_THAT(stopped.message(), HasSubstr("worker 0 has a gradient that is not finite"));
  EXPECT_THAT(stopped.message(), HasSubstr("element 1 is inf in bfloat16;"));
}

TEST(Server, AddsUpSparseGradientsOfOneTensorAndRefusesThoseThatAreNone) {
  Setting setting;
  setting.workers = 2;
  setting.wire = {.kind = job::WireKind::kDropping, .share = 0.1};
  setting.layers = {{10}};
  Bench bench(setting);
  bench.start();
  const auto push = [&](std::int32_t worker, std::vector<std::uint32_t> indices, std::vector<float> values) {
    const auto place = bench.begin(worker, wire::Push{0, 0, 1}, indices.size() * 8);
    if (!place.ok()) return place.status();
    std::memcpy(place->data(), indices.data(), indices.size() * 4);
    std::memcpy(place->data() + indices.size() * 4, values.data(), values.size() * 4);
    return bench.on(worker, wire::Push{0, 0, 1});
  };
  EXPECT_THAT(bench.begin(0, wire::Push{0, 0, 1}, 12).status().message(), HasSubstr("pushed 12 bytes"));
  EXPECT_THAT(bench.begin(0, wire::Push{0, 0, 1}, 48).status().message(), HasSubstr("it has 40"));
  ASSERT_TRUE(push(0, {1, 4}, {-2, -4}).ok());
  ASSERT_TRUE(push(1, {4, 9}, {-6, -8}).ok());
  EXPECT_EQ(bench.value(0), (std::vector<float>{0, 1, 0, 0, 5, 0, 0, 0, 0, 4}));
  EXPECT_EQ(bench.core->counters().gradient_bytes_high, 2 * 40) << "blocks have room for the whole gradient";

  for (const std::vector<std::uint32_t>& indices : {std::vector<std::uint32_t>{4, 4}, {5, 4}, {4, 10}}) {
    Bench refusing(setting);
    refusing.start();
    const auto place = refusing.begin(0, wire::Push{0, 0, 1}, 16);
    ASSERT_TRUE(place.ok());
    std::memcpy(place->data(), indices.data(), 8);
    EXPECT_THAT(refusing.on(0, wire::Push{0, 0, 1}).message(), HasSubstr("elements that it does not have, or not in order"));
  }
}

}  // namespace
}  // namespace paceline::paramserver::testing
