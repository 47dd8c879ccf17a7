#include "library/job.h"

#include "base/utf8.h"
#include "job/option.h"
#include "library/structs.h"
#include "library/text.h"

namespace paceline::library {
namespace {

constexpr std::size_t kMostDimensions = 64;
constexpr std::size_t kLongestName = 4096;

// What its tensors' names have in common: "conv1" of "conv1.weight".
std::string layer_name(const std::string& tensor) {
  const auto dot = tensor.rfind('.');
  return dot == std::string::npos || dot == 0 ? tensor : tensor.substr(0, dot);
}

Result<wire::TensorInfo> info_of(const paceline_tensor& tensor, std::size_t number) {
  const auto refused = [number](const std::string& why) { return refusal("illegal", "tensor", "tensor {}: {}", number, why); };
  if (tensor.name == nullptr || *tensor.name == 0) return refused("it has no name");
  wire::TensorInfo info{.name = std::string(tensor.name, strnlen(tensor.name, kLongestName + 1)), .dtype = "float32"};
  if (info.name.size() > kLongestName || !is_utf8(info.name)) return refused("its name is no UTF-8 text of at most 4096 bytes");
  if (tensor.type != PACELINE_FLOAT32 && tensor.type != PACELINE_FLOAT16 && tensor.type != PACELINE_BFLOAT16)
    return refused(
        fmt::format("\"{}\" is of element type {}; legal: 0 (PACELINE_FLOAT32), 3 (PACELINE_FLOAT16), 4 "
                    "(PACELINE_BFLOAT16)",
                    info.name, tensor.type));
  if (tensor.type != PACELINE_FLOAT32 && !is_even(tensor.value))
    return refused(fmt::format("the values of \"{}\" have 16 bits each and stand at an odd address", info.name));
  if (tensor.dimensions > kMostDimensions || (tensor.dimensions > 0 && tensor.shape == nullptr))
    return refused(fmt::format("\"{}\" has {} dimensions and {} shape; legal: 0 to 64 dimensions, with a shape", info.name,
                               tensor.dimensions, tensor.shape == nullptr ? "no" : "a"));
  info.shape.assign(tensor.shape, tensor.shape + tensor.dimensions);
  info.layer = Layer{tensor.layer};
  if (tensor.frozen != 0 && tensor.frozen != 1)
    return refused(fmt::format("\"{}\": frozen is {}; legal: 0 or 1", info.name, tensor.frozen));
  info.frozen = tensor.frozen == 1;
  if (tensor.group < 0) return refused(fmt::format("\"{}\" is in parameter group {}; legal: 0 and more", info.name, tensor.group));
  info.group = tensor.group;
  return info;
}

}  // namespace

// A module of the user's own: what `paceline models` lists does not count.
Job::Job() {
  spec_.task.model = "(own)";
  spec_.task.dataset = "(own)";
}

Status Job::set(std::string_view option, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (const job::Option* row = job::find_option(option); row != nullptr && row->section != job::Section::kNone)
    return job::set_typed(spec_, *row, text);
  job::JobSpec unchanged = spec_;
  const Status unknown = job::set_option(unchanged, option, text);
  return unknown.ok() ? refusal("unknown", "option", "the option '{}' is not for users: processes tell each other", option)
                      : unknown;
}

Result<std::string> Job::get(std::string_view option) const {
  const std::lock_guard lock(mutex_);
  if (const job::Option* row = job::find_option(option)) return job::typed_text(spec_, *row);
  job::JobSpec unchanged = spec_;
  return job::set_option(unchanged, option, "");
}

Result<std::uint32_t> Job::add(const paceline_tensor& tensor) {
  const std::lock_guard lock(mutex_);
  auto& table = added_;
  PACELINE_ASSIGN_OR_RETURN(wire::TensorInfo info, info_of(tensor, table.tensors.size()));
  const auto layers = static_cast<std::int32_t>(table.layers.size());
  if (tensor.layer < std::max(0, layers - 1) || tensor.layer > layers) {
    return refusal("illegal", "tensor", "tensor {} \"{}\" stands in layer {}; legal: {}, as layers ascend one by one",
                   table.tensors.size(), info.name, tensor.layer, layers == 0 ? "0" : fmt::format("{} or {}", layers - 1, layers));
  }
  if (tensor.layer == layers) table.layers.push_back(layer_name(info.name));
  table.tensors.push_back(std::move(info));
  given_.push_back({tensor.value, static_cast<tensor::DType>(tensor.type)});
  return static_cast<std::uint32_t>(table.tensors.size() - 1);
}

job::JobSpec Job::spec() const {
  const std::lock_guard lock(mutex_);
  return spec_;
}

Result<Job::Description> Job::described() const {
  const std::lock_guard lock(mutex_);
  Description description;
  description.numbers = TensorNumbers(added_);
  description.table = description.numbers.table(added_);
  PACELINE_RETURN_IF_ERROR(wire::validate(description.table));
  for (std::uint32_t place = 0; place < given_.size(); ++place)
    description.given.push_back(given_[description.numbers.tensor_at(place)]);
  std::vector<exchange::OptimizerState::Known> state(given_.size());
  for (std::uint32_t place = 0; place < given_.size(); ++place) {
    const std::uint32_t tensor = description.numbers.tensor_at(place);
    if (tensor < state_.size()) state[place] = state_[tensor];
  }
  description.state = exchange::OptimizerState(std::move(state));
  PACELINE_ASSIGN_OR_RETURN(description.spec, job::validated(spec_));
  return description;
}

}  // namespace paceline::library

using namespace paceline;
using namespace paceline::library;

int32_t paceline_job_new(paceline_job** job, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(check_given(job, "job"));
    give_handle(std::make_shared<Job>(), job);
    return {};
  });
}

int32_t paceline_job_set(paceline_job* job, const char* option, const char* value, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Job>(job));
    PACELINE_RETURN_IF_ERROR(check_given(option, "option"));
    PACELINE_RETURN_IF_ERROR(check_given(value, "value"));
    return used->set(option, value);
  });
}

int32_t paceline_job_get(const paceline_job* job, const char* option, paceline_text** value, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Job>(job));
    PACELINE_RETURN_IF_ERROR(check_given(option, "option"));
    PACELINE_RETURN_IF_ERROR(check_given(value, "value"));
    PACELINE_ASSIGN_OR_RETURN(std::string text, used->get(option));
    give_text(std::move(text), value);
    return {};
  });
}

int32_t paceline_job_add_tensor(paceline_job* job, const paceline_tensor* tensor, uint32_t* number, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Job>(job));
    PACELINE_ASSIGN_OR_RETURN(const paceline_tensor known, read_struct(tensor, "tensor"));
    PACELINE_ASSIGN_OR_RETURN(const std::uint32_t given, used->add(known));
    if (number != nullptr) *number = given;
    return {};
  });
}
