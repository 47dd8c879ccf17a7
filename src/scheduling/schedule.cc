#include "scheduling/schedule.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::scheduling {
namespace {

constexpr std::int64_t kPaperSlice = 50'000;
constexpr std::int64_t kEach = sizeof(float);
// To several destinations at most, where the link moves them within kSpreadTime: ResNet-50 in its real size with slices of 200 kB
// between four hosts of 1 Gb/s takes 1.10 of its lower bound with 1.3 of them on the way, 1.01 with 6; where slices are
// small, a window of 10 ms is too large, by 2 % of an iteration (docs/results/2026-11-schedules.md).
constexpr std::int64_t kSpreadSlices = 6;
constexpr std::int64_t kLargeForKvstore = 1'000'000;

struct Named {
  const char* name;
  ScheduleOptions options;
};

const std::vector<std::string>& algorithm_names() {
  static const std::vector<std::string> names = {"exact", "forward-greedy", "backward-greedy", "ibatch"};
  return names;
}

constexpr Named kSchedules[] = {
    {"default", {balanced_tensors(), Order::kFirstInFirstOut, PushWhen::kAtEnd, Return::kPullAtOnce}},
    {"layer-wise", {balanced_tensors(), Order::kByLayer, PushWhen::kReady, Return::kPullByLayer}},
    {"ibatch", {balanced_tensors(), Order::kByLayer, PushWhen::kReady, Return::kPullInBatches}},
    {"kvstore", {split_large_tensors(kLargeForKvstore), Order::kFirstInFirstOut, PushWhen::kReady, Return::kNotifyAndPull}},
    {"slicing", {slices_of(kPaperSlice), Order::kFirstInFirstOut, PushWhen::kReady, Return::kBroadcast}},
    {"tuned", {slices_of(kPaperSlice), Order::kByLayer, PushWhen::kReady, Return::kBroadcast}},
    {"p3", {slices_of(kPaperSlice), Order::kByLayer, PushWhen::kReady, Return::kBroadcast}},
};

constexpr const char* kPushes[] = {"at-end", "as-ready", "in-batches"};
constexpr const char* kReturns[] = {"broadcast", "pull-at-once", "pull-by-layer", "pull-in-batches", "notify-and-pull"};

struct PlaceName {
  const char* name;
  bool OrderedPlaces::*place;
};
constexpr PlaceName kPlaces[] = {{"worker-egress", &OrderedPlaces::worker_egress},
                                 {"server-egress", &OrderedPlaces::server_egress},
                                 {"server-ingress", &OrderedPlaces::server_ingress},
                                 {"window", &OrderedPlaces::window}};
constexpr OrderedPlaces kNowhere{.worker_egress = false, .server_ingress = false, .server_egress = false, .window = false};

}  // namespace

ScheduleOptions default_schedule() { return kSchedules[0].options; }
ScheduleOptions layer_wise() { return kSchedules[1].options; }
ScheduleOptions ibatch_schedule() { return kSchedules[2].options; }
ScheduleOptions kvstore() { return kSchedules[3].options; }
ScheduleOptions slicing() { return kSchedules[4].options; }
ScheduleOptions tuned() { return kSchedules[5].options; }
ScheduleOptions p3() { return kSchedules[6].options; }

const char* to_string(PushWhen push) { return kPushes[static_cast<std::size_t>(push)]; }
const char* to_string(Return back) { return kReturns[static_cast<std::size_t>(back)]; }

const char* to_string(BatchingAlgorithm algorithm) { return algorithm_names()[static_cast<std::size_t>(algorithm)].c_str(); }

Result<BatchingAlgorithm> parse_batching_algorithm(std::string_view text) {
  for (std::size_t i = 0; i < algorithm_names().size(); ++i) {
    if (text == algorithm_names()[i]) return static_cast<BatchingAlgorithm>(i);
  }
  return error(ErrorKind::kBadRequest, "'{}' plans no batches; legal are {}{}", text, fmt::join(algorithm_names(), ", "),
               suggestion(text, algorithm_names()))
      .because({"unknown", ""});
}

Result<OrderedPlaces> parse_places(std::string_view text) {
  if (text == "all") return OrderedPlaces{};
  if (text == "none") return kNowhere;
  std::vector<std::string> names;
  for (const PlaceName& place : kPlaces) names.emplace_back(place.name);
  OrderedPlaces places = kNowhere;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    const auto* const known = std::ranges::find_if(kPlaces, [&](const PlaceName& place) { return name == place.name; });
    if (known == std::end(kPlaces)) {
      return error(ErrorKind::kBadRequest, "--ordered-places {}: '{}' is no place; legal are all, none, or a list of {}{}", text,
                   name, fmt::join(names, ", "), suggestion(name, names))
          .because({"unknown", ""});
    }
    places.*known->place = true;
    begin = end + 1;
  }
  return places;
}

std::string to_text(const OrderedPlaces& places) {
  if (places == OrderedPlaces{}) return "all";
  if (places == kNowhere) return "none";
  std::vector<std::string> names;
  for (const PlaceName& place : kPlaces)
    if (places.*place.place) names.emplace_back(place.name);
  return fmt::format("{}", fmt::join(names, ","));
}

EgressRules egress_rules(const ScheduleOptions& options) {
  const auto order = [&](bool here) { return here ? options.order : Order::kFirstInFirstOut; };
  WindowRule window = options.places.window ? options.window : fixed_window(kUnbounded);
  if (window.kind == WindowRule::Kind::kFollows && options.cut.kind == Cut::Kind::kSlices)
    window.spread = Bytes{std::min(options.cut.elements, kLargestFollowing.count / kSpreadSlices / kEach) * kEach * kSpreadSlices};
  return {.pushes = order(options.places.worker_egress), .replies = order(options.places.server_egress), .window = window};
}

Order ingress_order(const ScheduleOptions& options) {
  return options.places.server_ingress ? options.order : Order::kFirstInFirstOut;
}

Cut scaled(Cut cut, double scale) {
  for (std::int64_t* size : {&cut.elements, &cut.merge}) {
    if (*size > 0) *size = std::max<std::int64_t>(1, std::llround(static_cast<double>(*size) / scale));
  }
  return cut;
}

Result<ScheduleOptions> validated(ScheduleOptions options) {
  const bool takes_elements = options.cut.kind == Cut::Kind::kLarge || options.cut.kind == Cut::Kind::kSlices;
  if (takes_elements && options.cut.elements < 1) {
    return error(ErrorKind::kBadRequest, "--slice {} is illegal; give at least 1 parameter", options.cut.elements);
  }
  if (!takes_elements && options.cut.elements != 0) {
    return error(ErrorKind::kBadRequest, "--slice {} does not apply to a schedule that keeps tensors whole", options.cut.elements);
  }
  if (options.push == PushWhen::kInBatches && options.back != Return::kPullInBatches) {
    return error(ErrorKind::kBadRequest, "gradients are pushed in batches only where values are pulled in batches");
  }
  if (options.cut.merge < 0) {
    return error(ErrorKind::kBadRequest, "--merge {} is illegal; give 0 (nothing is merged) or more parameters", options.cut.merge);
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
               suggestion(text, schedule_names()))
      .because({"unknown", ""});
}

}  // namespace paceline::scheduling
