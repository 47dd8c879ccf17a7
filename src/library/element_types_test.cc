// Tensors whose values and gradients the program has in 16 bits.
#include <array>

#include <gmock/gmock.h>

#include "library/one_worker_testing.h"
#include "tensor/dtype.h"

namespace paceline::library {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kShape = 3;

std::array<tensor::Float16, 3> half_of(float a, float b, float c) {
  return {tensor::to_float16(a), tensor::to_float16(b), tensor::to_float16(c)};
}
std::array<tensor::BFloat16, 3> brain_of(float a, float b, float c) {
  return {tensor::to_bfloat16(a), tensor::to_bfloat16(b), tensor::to_bfloat16(c)};
}

void add(paceline_job* job, const char* name, std::int32_t type, const void* value) {
  Error error;
  auto tensor = sized<paceline_tensor>();
  tensor.name = name;
  tensor.shape = &kShape;
  tensor.dimensions = 1;
  tensor.type = type;
  tensor.layer = 1;
  tensor.value = value;
  ASSERT_DONE(paceline_job_add_tensor(job, &tensor, nullptr, error));
}

std::vector<float> values(paceline_node* worker, std::uint32_t tensor) {
  Error error;
  float* first = nullptr;
  std::int64_t count = 0;
  EXPECT_DONE(paceline_tensor_value(worker, tensor, &first, &count, error));
  return {first, first + count};
}

TEST(ElementTypes, SixteenBitsAreWidenedExactlyOnTheirWayIn) {
  OneWorker one;
  const auto half = half_of(1.5F, -2, 0.25F), half_gradient = half_of(0.5F, 65504, 6e-8F);
  const auto brain = brain_of(1, 2, 3), brain_gradient = brain_of(3e38F, -0.5F, 1e-30F);
  add(one.job, "half", PACELINE_FLOAT16, half.data());
  add(one.job, "brain", PACELINE_BFLOAT16, brain.data());
  one.join();
  EXPECT_THAT(values(one.worker, 2), ElementsAre(1.5F, -2, 0.25F));
  EXPECT_THAT(values(one.worker, 3), ElementsAre(1, 2, 3));

  Error error;
  const float weight[3] = {1, 2, 3}, bias = 1;
  ASSERT_DONE(paceline_wait_layer(one.worker, 0, 1, INFINITY, error));
  ASSERT_DONE(paceline_wait_layer(one.worker, 1, 1, INFINITY, error));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 0, weight, error));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 1, &bias, error));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 2, half_gradient.data(), error));
  ASSERT_DONE(paceline_gradient_ready(one.worker, 3, brain_gradient.data(), error));
  ASSERT_DONE(paceline_backward_done(one.worker, 1, nullptr, 0, error));
  ASSERT_DONE(paceline_wait_all(one.worker, 1, INFINITY, error));
  EXPECT_THAT(values(one.worker, 2), ElementsAre(1, -65506, 0.25F - tensor::to_float(half_gradient[2])));
  EXPECT_THAT(values(one.worker, 3),
              ElementsAre(1 - tensor::to_float(brain_gradient[0]), 2.5F, 3 - tensor::to_float(brain_gradient[2])));
  EXPECT_THAT(one.values(), ElementsAre(9, 18, 27));
}

TEST(ElementTypes, SixteenBitsAtAnOddAddressAreRefusedAndChangeNothing) {
  OneWorker one;
  Error error;
  alignas(4) const std::array<char, 8> bytes{};
  auto tensor = sized<paceline_tensor>();
  tensor.name = "odd";
  tensor.layer = 1;
  tensor.type = PACELINE_FLOAT16;
  tensor.value = bytes.data() + 1;
  EXPECT_REFUSED(paceline_job_add_tensor(one.job, &tensor, nullptr, error), "illegal");
  EXPECT_THAT(said(error), HasSubstr("the values of \"odd\" have 16 bits each and stand at an odd address"));
  add(one.job, "half", PACELINE_FLOAT16, bytes.data());
  one.join();
  ASSERT_DONE(paceline_wait_layer(one.worker, 1, 1, INFINITY, error));
  EXPECT_REFUSED(paceline_gradient_ready(one.worker, 2, bytes.data() + 1, error), "illegal");
  EXPECT_THAT(said(error), HasSubstr("the gradient of \"half\" has 16 bits an element and stands at an odd address"));
  EXPECT_DONE(paceline_gradient_ready(one.worker, 2, bytes.data(), error)) << "it has not come yet";
}

}  // namespace
}  // namespace paceline::library
