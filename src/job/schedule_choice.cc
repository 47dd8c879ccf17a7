#include "job/schedule_choice.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/ranges.h>

#include "base/text.h"
#include "job/refusal.h"

namespace paceline::job {

using scheduling::BatchingAlgorithm;
using scheduling::OrderedPlaces;
using scheduling::PushWhen;
using scheduling::Return;
using scheduling::ScheduleOptions;

namespace {

constexpr std::int64_t kParameterBytes = sizeof(float);
constexpr std::int64_t kEverything = std::int64_t{1} << 40;  // more parameters than any model has

// One of `legal`, by its name.
template <typename Value>
Result<Value> parse_one_of(const char* option, std::string_view text, std::initializer_list<Value> legal) {
  std::vector<std::string> names;
  for (const Value value : legal) {
    names.emplace_back(to_string(value));
    if (text == names.back()) return value;
  }
  return error(ErrorKind::kBadRequest, "{} {} is illegal; legal: {}{}", option, text, fmt::join(names, ", "),
               suggestion(text, names));
}

Status set_places(const std::string& name, const ScheduleChoice& choice, ScheduleOptions& options) {
  options.window = choice.window;
  options.places = choice.places;
  OrderedPlaces queues = choice.places, nowhere{false, false, false, false};
  queues.window = false;
  if (choice.places != OrderedPlaces{} && queues != nowhere && options.order == scheduling::Order::kFirstInFirstOut) {
    return contradiction("--ordered-places",
                         "--ordered-places {} contradicts --schedule {}, which orders nothing by layer; legal with it: all, none, "
                         "window",
                         to_text(choice.places), name);
  }
  if (!choice.places.window && choice.window != scheduling::WindowRule{}) {
    return contradiction("--ordered-places",
                         "--ordered-places {} leaves out the window, so --window {} contradicts it; give one of them",
                         to_text(choice.places), to_text(choice.window));
  }
  return {};
}

}  // namespace

Result<ScheduleOptions> schedule_of(const ScheduleChoice& choice) {
  PACELINE_ASSIGN_OR_RETURN(ScheduleOptions options, scheduling::parse_schedule_name(choice.name));
  if (choice.back) options.back = *choice.back;
  if (choice.push) options.push = *choice.push;
  const auto needs_batches = [&](const char* option, const char* value) {
    return contradiction(
        option,
        "{} {} contradicts --schedule {} with --return {}: batches are planned from pulls in batches; give --return "
        "pull-in-batches, which is ibatch's own",
        option, value, choice.name, to_string(options.back));
  };
  const bool in_batches = options.back == Return::kPullInBatches;
  if (options.push == PushWhen::kInBatches && !in_batches) return needs_batches("--push", to_string(options.push));
  if (choice.batching) {
    if (!in_batches) return needs_batches("--batching", to_string(*choice.batching));
    options.batching = *choice.batching;
  }
  if (choice.slice) {
    if (options.cut.kind != scheduling::Cut::Kind::kSlices) {
      return contradiction("--slice", "--slice {} contradicts --schedule {}, which cuts no slices; legal with tuned, slicing, p3",
                           *choice.slice, choice.name);
    }
    options.cut.elements = *choice.slice;
  }
  if (choice.merge) options.cut.merge = *choice.merge;
  PACELINE_RETURN_IF_ERROR(set_places(choice.name, choice, options));
  return validated(options);
}

Result<ScheduleOptions> schedule_of(const ScheduleChoice& choice, Loop loop) {
  ScheduleOptions options = scheduling::layer_wise();
  options.cut = scheduling::whole_tensors();
  // What leaves together after backward had best be one message.
  if (!overlaps(loop)) options.cut.merge = kEverything;
  if (choice.merge) options.cut.merge = *choice.merge;
  if (choice.places != OrderedPlaces{} && (choice.places.server_egress || choice.places.server_ingress)) {
    return contradiction(
        "--ordered-places",
        "--ordered-places {} contradicts --collective {}, which has no servers; legal with it: all, none, a list of "
        "worker-egress, window",
        to_text(choice.places), to_string(loop));
  }
  PACELINE_RETURN_IF_ERROR(set_places(to_string(loop), choice, options));
  return validated(options);
}

Result<std::int64_t> parse_parameters(const char* option, std::string_view text, std::int64_t least, const char* legal) {
  std::int64_t elements = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), elements);
  if (problem != std::errc() || end != text.data() + text.size()) {
    const auto bytes = parse_bytes(text);
    const bool has_unit = text.find_first_not_of("0123456789.eE+-") != std::string_view::npos;
    elements = bytes.ok() && has_unit && bytes->count % kParameterBytes == 0 ? bytes->count / kParameterBytes : -1;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // exact as a double
  if (elements > kMost) return error(ErrorKind::kBadRequest, "{} {} is illegal; legal: {}, up to {}", option, text, legal, kMost);
  if (elements < least) return error(ErrorKind::kBadRequest, "{} {} is illegal; legal: {}", option, text, legal);
  return elements;
}

Result<Return> parse_return(std::string_view text) {
  return parse_one_of(
      "--return", text,
      {Return::kBroadcast, Return::kPullAtOnce, Return::kPullByLayer, Return::kPullInBatches, Return::kNotifyAndPull});
}

Result<PushWhen> parse_push(std::string_view text) {
  return parse_one_of("--push", text, {PushWhen::kAtEnd, PushWhen::kReady, PushWhen::kInBatches});
}

Result<BatchingAlgorithm> parse_batching(std::string_view text) {
  const auto algorithm = scheduling::parse_batching_algorithm(text);
  if (!algorithm.ok()) return error(ErrorKind::kBadRequest, "--batching: {}", algorithm.status().message());
  return *algorithm;
}

}  // namespace paceline::job
