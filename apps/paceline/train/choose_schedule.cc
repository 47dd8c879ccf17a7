#include "paceline/train/choose_schedule.h"

#include "base/log.h"
#include "base/text.h"
#include "prediction/tune.h"

namespace paceline::cli {
namespace {

using runtime::Json;

constexpr cost::LinkFit kAssumed{.start_up = 200e-6, .bandwidth = {125e6}, .residual = 0};
constexpr std::int64_t kEach = sizeof(float);

void set(wire::Settings& settings, const std::string& name, const std::string& value) {
  for (auto& [known, text] : settings) {
    if (known == name) text = value;
  }
}

}  // namespace

Result<Json> choose_schedule(wire::Settings& pairs, const wire::TensorTable& table, std::int32_t workers, std::int32_t servers,
                             const runtime::Gathering& gathering) {
  PACELINE_ASSIGN_OR_RETURN(const runtime::JobSettings settings, runtime::from_settings(pairs));
  if (settings.schedule != "tuned") return Json();
  if (!gathering.link) {
    log::warn("the link could not be measured; --schedule tuned assumes {} and a start-up of {} for each message",
              to_text(kAssumed.bandwidth), to_text(from_seconds(kAssumed.start_up)));
  }
  const cost::LinkFit link = gathering.link.value_or(kAssumed);
  PACELINE_ASSIGN_OR_RETURN(const scheduling::ScheduleOptions typed, runtime::schedule_options(settings));
  prediction::Given given;
  if (!settings.slice.empty()) given.slice = typed.cut.elements;
  if (!settings.merge.empty()) given.merge = typed.cut.merge;
  const bool shared = gathering.both == workers && workers == servers;
  const prediction::Cluster cluster{
      .workers = workers,
      .servers = servers,
      .layout = shared ? prediction::Cluster::Layout::kShared : prediction::Cluster::Layout::kSeparate,
      .link = link.bandwidth,
      .start_up = link.start_up};
  Bytes model;
  for (const wire::TensorInfo& tensor : table.tensors) model += Bytes{tensor.elements() * kEach};
  const scheduling::ScheduleOptions chosen = prediction::by_formula(model, cluster, {}, given);
  set(pairs, "slice", std::to_string(chosen.cut.elements));
  set(pairs, "merge", std::to_string(chosen.cut.merge));
  const std::string why = fmt::format(
      "slices of {}, up to {} merged: for {} of parameters, {} workers and a link with {} and a start-up of {} for each message "
      "({})",
      to_text(Bytes{chosen.cut.elements * kEach}), to_text(Bytes{chosen.cut.merge * kEach}), to_text(model), workers,
      to_text(link.bandwidth), to_text(from_seconds(link.start_up)), gathering.link ? "measured" : "assumed");
  return Json{{"slice", chosen.cut.elements},
              {"merge", chosen.cut.merge},
              {"back", "broadcast"},
              {"bandwidth", link.bandwidth.value},
              {"start_up", link.start_up},
              {"residual", link.residual},
              {"measured", gathering.link.has_value()},
              {"why", why}};
}

}  // namespace paceline::cli
