#include "scheduling/schedule.h"

#include <utility>

#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::scheduling {
namespace {

constexpr std::int64_t kPaperSlice = 50'000;

struct Named {
  const char* name;
  ScheduleOptions options;
};

constexpr Named kSchedules[] = {
    {"default", {balanced_tensors(), Order::kFirstInFirstOut, PushWhen::kAtEnd, Return::kPullAtOnce}},
    {"layer-wise", {balanced_tensors(), Order::kByLayer, PushWhen::kReady, Return::kPullByLayer}},
    {"slicing", {slices_of(kPaperSlice), Order::kFirstInFirstOut, PushWhen::kReady, Return::kBroadcast}},
    {"p3", {slices_of(kPaperSlice), Order::kByLayer, PushWhen::kReady, Return::kBroadcast}},
};

}  // namespace

ScheduleOptions default_schedule() { return kSchedules[0].options; }
ScheduleOptions layer_wise() { return kSchedules[1].options; }
ScheduleOptions slicing() { return kSchedules[2].options; }
ScheduleOptions p3() { return kSchedules[3].options; }

Result<ScheduleOptions> validated(ScheduleOptions options) {
  const bool takes_elements = options.cut.kind == Cut::Kind::kLarge || options.cut.kind == Cut::Kind::kSlices;
  if (takes_elements && options.cut.elements < 1) {
    return error(ErrorKind::kBadRequest, "--slice {} is illegal; give at least 1 parameter", options.cut.elements);
  }
  if (!takes_elements && options.cut.elements != 0) {
    return error(ErrorKind::kBadRequest, "--slice {} does not apply to a schedule that keeps tensors whole", options.cut.elements);
  }
  return options;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Named& schedule : kSchedules) all.emplace_back(schedule.name);
    return all;
  }();
  return names;
}

Result<ScheduleOptions> parse_schedule_name(std::string_view text) {
  for (const Named& schedule : kSchedules) {
    if (text == schedule.name) return schedule.options;
  }
  return error(ErrorKind::kBadRequest, "'{}' is no schedule; legal are {}{}", text, fmt::join(schedule_names(), ", "),
               suggestion(text, schedule_names()));
}

}  // namespace paceline::scheduling
