// What makes no sense in a call.
#include <algorithm>

#include <fmt/ranges.h>

#include "collectives/exec/operation.h"

namespace paceline::collectives {
namespace {

Status check_buffer(const char* name, const void* data, std::int64_t elements, const Call& call) {
  if (elements == 0) return {};
  if (data == nullptr)
    return error(ErrorKind::kBadRequest, "{}: the {} is null, but {} elements are asked for", to_string(call.kind), name, elements);
  const auto size = moved(call.dtype).size;
  if (reinterpret_cast<std::uintptr_t>(data) % size != 0) {
    return error(ErrorKind::kBadRequest, "{}: the {} at {} is not aligned to the {} bytes of {}", to_string(call.kind), name,
                 fmt::ptr(data), size, moved(call.dtype).name);
  }
  return {};
}

Status check_buffers(const Group& group, const Call& call) {
  const Extents extents = extents_of(group, call);
  PACELINE_RETURN_IF_ERROR(check_buffer("input", call.input, extents.input, call));
  PACELINE_RETURN_IF_ERROR(check_buffer("output", call.output, extents.output, call));
  if (call.kind == CollectiveKind::kBroadcast && call.input != nullptr && call.input != call.output)
    return error(ErrorKind::kBadRequest, "broadcast: there is an input; the message stands in the output, on the root too");
  if (is_in_place(group, call) || extents.input == 0 || extents.output == 0) return {};
  const auto size = static_cast<std::int64_t>(moved(call.dtype).size);
  const auto* input = static_cast<const std::byte*>(call.input);
  const auto* output = static_cast<const std::byte*>(call.output);
  if (input < output + extents.output * size && output < input + extents.input * size) {
    return error(ErrorKind::kBadRequest, "{}: input and output overlap; give {}two places apart", to_string(call.kind),
                 is_exchange(call.kind) ? "" : "the same place for both, or ");
  }
  return {};
}

Status check_parts(const Group& group, const Call& call, std::int64_t most) {
  for (const auto* parts : {&call.gives, &call.takes}) {
    const char* const what = parts == &call.gives ? "gives" : "takes";
    const std::size_t expected = call.kind == CollectiveKind::kAlltoall ? static_cast<std::size_t>(group.size()) : 0;
    if (parts->size() != expected)
      return error(ErrorKind::kBadRequest, "{}: {} has {} parts; legal: {}", to_string(call.kind), what, parts->size(),
                   expected == 0 ? "none" : fmt::format("{}, one for each rank", expected));
    std::int64_t left = most;
    for (const std::int64_t part : *parts) {
      if (part < 0 || part > left)
        return error(ErrorKind::kBadRequest, "{}: {} has a part of {} elements of {}; legal: 0 to {}, together at most 64 GiB",
                     to_string(call.kind), what, part, moved(call.dtype).name, most);
      left -= part;
    }
  }
  return {};
}

std::vector<const char*> names_of(const std::vector<Algorithm>& algorithms) {
  std::vector<const char*> names;
  for (const Algorithm algorithm : algorithms) names.push_back(to_string(algorithm));
  return names;
}

Status check_algorithm(const Group& group, const Call& call, const Rules& rules) {
  if (call.kind == CollectiveKind::kBarrier) return {};
  if (is_exchange(call.kind)) {
    if (!call.algorithm && !call.block) return {};
    return error(ErrorKind::kBadRequest, "{} has neither algorithms nor blocks: parts go straight to who takes them; name none",
                 to_string(call.kind));
  }
  const auto legal = legal_algorithms(operation_of(call.kind), rules.order, group.size(), call.root, call.reduction);
  if (legal.empty()) {
    return error(ErrorKind::kBadRequest, "{} to rank {} cannot add in rank order; only rank {}, the last one, can be the root then",
                 to_string(call.kind), call.root, group.size() - 1);
  }
  if (call.algorithm && std::find(legal.begin(), legal.end(), *call.algorithm) == legal.end()) {
    return error(ErrorKind::kBadRequest, "{} cannot run by {}{}; legal: {}", to_string(call.kind), to_string(*call.algorithm),
                 rules.order == SumOrder::kRank ? " in rank order" : "", fmt::join(names_of(legal), ", "));
  }
  return {};
}

std::vector<const char*> names_of_added() {
  std::vector<const char*> names;
  for (int number = 0; number < tensor::kDTypeCount; ++number) names.push_back(moved(static_cast<tensor::DType>(number)).name);
  return names;
}

}  // namespace

Status validate(const Group& group, const Call& call, const Rules& rules) {
  // Some algorithms send it in one piece.
  static_assert(wire::kMaxMessageBytes <= static_cast<std::uint64_t>(wire::kMostCollectiveCount));
  auto most = static_cast<std::int64_t>(wire::kMaxMessageBytes / moved(call.dtype).size);
  if (call.kind == CollectiveKind::kGather || call.kind == CollectiveKind::kScatter) most /= group.size();
  if (call.count < 0 || call.count > most) {
    return error(ErrorKind::kBadRequest, "{}: {} elements of {}; legal: 0 to {}, which are 64 GiB; cut more than that into several",
                 to_string(call.kind), call.count, moved(call.dtype).name, most);
  }
  PACELINE_RETURN_IF_ERROR(check_parts(group, call, most));
  if (reduces(call.kind) && !tensor::is_dtype(static_cast<std::uint8_t>(call.dtype))) {
    return error(ErrorKind::kBadRequest, "{}: {} is only moved, and not added; legal: {}", to_string(call.kind),
                 moved(call.dtype).name, fmt::join(names_of_added(), ", "))
        .because({"illegal", "type"});
  }
  if (is_rooted(call.kind) && (call.root < 0 || call.root >= group.size())) {
    return error(ErrorKind::kBadRequest, "{}: root {} is no rank of the group; legal: 0 to {}", to_string(call.kind), call.root,
                 group.size() - 1);
  }
  if (reduces(call.kind) && call.reduction == ReductionKind::kMean && call.dtype == tensor::DType::kInt32) {
    return error(ErrorKind::kBadRequest, "{}: the mean of int32 is no int32; legal: sum, max, min, or another element type",
                 to_string(call.kind));
  }
  if (call.block && call.block->count < 1)
    return error(ErrorKind::kBadRequest, "{}: a block of {} bytes; at least 1 is needed", to_string(call.kind), call.block->count);
  PACELINE_RETURN_IF_ERROR(check_buffers(group, call));
  return check_algorithm(group, call, rules);
}

}  // namespace paceline::collectives
