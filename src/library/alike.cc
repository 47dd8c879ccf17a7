// The functions of the C interface about what workers do and have alike (alike.h), and what a worker does for them.
#include "library/structs.h"
#include "library/worker_node.h"

namespace paceline::library {
namespace {

Result<wire::Settings> read_texts(const char* const* names, const char* const* values, std::size_t count) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  wire::Settings texts;
  if (count > kMost) return refusal("illegal", "count", "{} texts; legal: 0 to {}", count, kMost);
  if (count == 0) return texts;
  PACELINE_RETURN_IF_ERROR(check_given(names, "names"));
  PACELINE_RETURN_IF_ERROR(check_given(values, "values"));
  for (std::size_t i = 0; i < count; ++i) {
    PACELINE_RETURN_IF_ERROR(check_given(names[i], "names"));
    PACELINE_RETURN_IF_ERROR(check_given(values[i], "values"));
    texts.emplace_back(names[i], values[i]);
  }
  return texts;
}

}  // namespace

Status WorkerNode::tell_alike(Iteration iteration, const char* call, std::optional<wire::Settings> what) {
  PACELINE_RETURN_IF_ERROR(require_training(call));
  const std::lock_guard lock(steps_);
  if (iteration != stepped_ || stepped_ + 1 != exchange().current())
    return refusal(kOrder, "iteration", "{} tells of the iteration that has ended last, which is {}, and not of {}", call, stepped_,
                   iteration);
  process_->tell_alike(iteration, std::move(what));
  return {};
}

}  // namespace paceline::library

using namespace paceline;
using namespace paceline::library;

int32_t paceline_tell_left_out(paceline_node* node, int64_t iteration, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    return used->tell_alike(iteration, "paceline_tell_left_out", std::nullopt);
  });
}

int32_t paceline_tell_alike(paceline_node* node, int64_t iteration, const char* const* names, const char* const* values,
                            size_t count, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    PACELINE_ASSIGN_OR_RETURN(wire::Settings told, read_texts(names, values, count));
    return used->tell_alike(iteration, "paceline_tell_alike", std::move(told));
  });
}
