// What is to be trained and how, as the C interface describes it.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/optimizer_state.h"
#include "job/spec.h"
#include "library/handles.h"
#include "library/tensor_numbers.h"
#include "tensor/dtype.h"
#include "wire/tensor_table.h"

namespace paceline::library {

inline bool is_even(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 2 == 0; }

class Job final : public Object {
 public:
  static constexpr const char* kType = "job";
  static constexpr std::size_t kMostStateArrays = 8;  // more than any optimizer has
  Job();
  const char* type() const override { return kType; }

  // Any thread.
  Status set(std::string_view option, const std::string& text);
  Result<std::string> get(std::string_view option) const;
  // Returns the tensor's number.
  Result<std::uint32_t> add(const paceline_tensor& tensor);
  Status set_state(std::uint32_t tensor, std::span<const float* const> arrays, std::int64_t updates);

  // A tensor of the program's own memory.
  struct Given {
    const void* initial;  // where its values stand; null: zeros
    tensor::DType type;   // of these and of its gradients: float32, float16 or bfloat16
  };
  struct Description {
    job::JobSpec spec;
    wire::TensorTable table;
    std::vector<Given> given;  // in the order of the table
    exchange::OptimizerState state;
    TensorNumbers numbers;  // the program's
  };
  // As far as it goes.
  job::JobSpec spec() const;
  // What can be joined with. Errors: kBadRequest naming the option or the tensor.
  Result<Description> described() const;

 private:
  mutable std::mutex mutex_;  // what follows
  job::JobSpec spec_;
  wire::TensorTable added_;  // in the program's order
  std::vector<Given> given_;
  std::vector<exchange::OptimizerState::Known> state_;  // of the first so many
};

}  // namespace paceline::library
