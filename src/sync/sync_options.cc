#include "sync/sync_options.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace paceline::sync {
namespace {

constexpr std::array<std::pair<SyncKind, std::string_view>, 4> kKinds = {{
    {SyncKind::kBsp, "bsp"},
    {SyncKind::kAsp, "asp"},
    {SyncKind::kSsp, "ssp"},
    {SyncKind::kElasticBsp, "elastic-bsp"},
}};

constexpr std::array<std::pair<Objective, std::string_view>, 2> kObjectives = {{
    {Objective::kSpan, "span"},
    {Objective::kWaitingShare, "waiting-share"},
}};

constexpr std::array<std::pair<GradientScale, std::string_view>, 3> kScales = {{
    {GradientScale::kOfModel, "model"},
    {GradientScale::kMean, "mean"},
    {GradientScale::kFull, "full"},
}};

template <typename Value, std::size_t n>
std::string_view name_of(const std::array<std::pair<Value, std::string_view>, n>& names, Value value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  PACELINE_CHECK(false, "a value outside its enum: {}", static_cast<int>(value));
}

template <typename Value, std::size_t n>
Result<Value> value_of(const std::array<std::pair<Value, std::string_view>, n>& names, std::string_view what,
                       std::string_view text) {
  std::vector<std::string> legal;
  std::string list;
  for (const auto& [value, name] : names) {
    if (name == text) return value;
    legal.emplace_back(name);
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return error(ErrorKind::kBadRequest, "there is no {} '{}'{}; legal are {}", what, text, suggestion(text, legal), list);
}

Status check_range(std::string_view field, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return error(ErrorKind::kBadRequest, "{} is {}; legal are {}..{}", field, value, least, most);
}

}  // namespace

Result<SyncOptions> validated(SyncOptions options) {
  PACELINE_RETURN_IF_ERROR(check_range("staleness", options.staleness, 0, kMaxStaleness));
  PACELINE_RETURN_IF_ERROR(check_range("lookahead", options.lookahead, 1, kMaxLookahead));
  PACELINE_RETURN_IF_ERROR(check_range("history", options.history, 1, kMaxHistory));
  return options;
}

std::string_view to_text(SyncKind kind) { return name_of(kKinds, kind); }
Result<SyncKind> parse_sync_kind(std::string_view text) { return value_of(kKinds, "synchronisation model", text); }

std::string_view to_text(Objective objective) { return name_of(kObjectives, objective); }
Result<Objective> parse_objective(std::string_view text) { return value_of(kObjectives, "objective", text); }

std::string_view to_text(GradientScale scale) { return name_of(kScales, scale); }
Result<GradientScale> parse_gradient_scale(std::string_view text) { return value_of(kScales, "gradient scale", text); }

}  // namespace paceline::sync
