#include "tensor/learning_rate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::tensor {
namespace {

using Kind = Schedule::Kind;

const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> names = {"constant", "step", "cosine", "polynomial"};  // in the order of Kind
  return names;
}

// A key of the text, and the field that it sets: one of the two pointers.
struct Key {
  const char* name;
  std::int64_t Schedule::*whole;
  double Schedule::*real;
  bool required;
};

constexpr Key kWarmup = {"warmup", &Schedule::warmup, nullptr, false};
constexpr std::array<Key, 1> kConstantKeys = {kWarmup};
constexpr std::array<Key, 3> kStepKeys = {
    Key{"every", &Schedule::every, nullptr, true}, {"factor", nullptr, &Schedule::factor, false}, kWarmup};
constexpr std::array<Key, 3> kCosineKeys = {
    Key{"total", &Schedule::total, nullptr, true}, {"minimum", nullptr, &Schedule::minimum, false}, kWarmup};
constexpr std::array<Key, 4> kPolynomialKeys = {Key{"total", &Schedule::total, nullptr, true},
                                                {"power", nullptr, &Schedule::power, false},
                                                {"end", nullptr, &Schedule::end, false},
                                                kWarmup};

std::span<const Key> keys_of(Kind kind) {
  switch (kind) {
    case Kind::kConstant:
      return kConstantKeys;
    case Kind::kStep:
      return kStepKeys;
    case Kind::kCosine:
      return kCosineKeys;
    case Kind::kPolynomial:
      return kPolynomialKeys;
  }
  PACELINE_CHECK(false, "{} is no kind of schedule", static_cast<int>(kind));
}

template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

// Reads the parts of one text; knows the whole of it for its messages.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Schedule> parse() {
    std::vector<std::string_view> parts = split();
    PACELINE_RETURN_IF_ERROR(read_head(parts.front()));
    for (std::size_t i = 1; i < parts.size(); ++i) PACELINE_RETURN_IF_ERROR(read_pair(parts[i]));
    for (const Key& key : keys_of(schedule_.kind)) {
      if (key.required && !was_given(key)) return refuse("{} needs '{}='", kind_name(), key.name);
    }
    PACELINE_RETURN_IF_ERROR(check_ranges());
    return schedule_;
  }

 private:
  template <typename... Args>
  Status refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return error(ErrorKind::kBadRequest,
                 "learning rate '{}': {}; write for example 0.1, step:0.1,every=100,factor=0.5 or "
                 "cosine:0.1,total=1000,warmup=50",
                 text_, fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string& kind_name() const { return kind_names()[static_cast<std::size_t>(schedule_.kind)]; }
  bool was_given(const Key& key) const { return std::find(given_.begin(), given_.end(), key.name) != given_.end(); }

  std::vector<std::string_view> split() const {
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    for (std::size_t comma; (comma = text_.find(',', begin)) != std::string_view::npos; begin = comma + 1) {
      parts.push_back(text_.substr(begin, comma - begin));
    }
    parts.push_back(text_.substr(begin));
    return parts;
  }

  // "0.1" or "step:0.1".
  Status read_head(std::string_view head) {
    const std::size_t colon = head.find(':');
    if (colon != std::string_view::npos) {
      const std::string_view name = head.substr(0, colon);
      const auto& names = kind_names();
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) {
        return refuse("'{}' is no schedule{}, legal are {}", name, suggestion(name, names), fmt::join(names, ", "));
      }
      schedule_.kind = static_cast<Kind>(found - names.begin());
      head.remove_prefix(colon + 1);
    }
    if (read_number(head, schedule_.base) && std::isfinite(schedule_.base) && schedule_.base >= 0) return {};
    const auto& names = kind_names();
    if (colon == std::string_view::npos && std::find(names.begin(), names.end(), head) != names.end()) {
      return refuse("the rate is missing after '{}', as in {}:0.1", head, head);
    }
    return refuse("'{}' is no rate, legal is a finite number of at least 0", head);
  }

  // "key=value".
  Status read_pair(std::string_view pair) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return refuse("'{}' is not of the form key=value", pair);
    const std::string_view name = pair.substr(0, equals);
    const std::string_view value = pair.substr(equals + 1);
    const std::span<const Key> keys = keys_of(schedule_.kind);
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key& each) { return name == each.name; });
    if (key == keys.end()) {
      std::vector<std::string> names;
      for (const Key& each : keys) names.emplace_back(each.name);
      return refuse("'{}' is no key of {}{}, legal are {}", name, kind_name(), suggestion(name, names), fmt::join(names, ", "));
    }
    if (was_given(*key)) return refuse("'{}' is given twice", name);
    given_.emplace_back(name);
    if (key->whole != nullptr) {
      if (!read_number(value, schedule_.*key->whole)) return refuse("{}={} is not a whole number of iterations", name, value);
    } else if (!read_number(value, schedule_.*key->real) || !std::isfinite(schedule_.*key->real)) {
      return refuse("{}={} is not a finite number", name, value);
    }
    return {};
  }

  // Fields that the kind does not use have their defaults, which are in range.
  Status check_ranges() const {
    const Schedule& s = schedule_;
    if (s.warmup < 0) return refuse("warmup={} is below 0 iterations", s.warmup);
    if (s.every < 1) return refuse("every={} is below 1 iteration", s.every);
    if (!(s.factor > 0)) return refuse("factor={} is not above 0", s.factor);
    if (!(s.power > 0)) return refuse("power={} is not above 0", s.power);
    if ((s.kind == Kind::kCosine || s.kind == Kind::kPolynomial) && s.total <= s.warmup) {
      return refuse("total={} is not above {}", s.total,
                    s.warmup == 0 ? "0" : fmt::format("warmup={}, which it includes", s.warmup));
    }
    if (!(s.minimum >= 0 && s.minimum <= s.base)) return refuse("minimum={} is not within 0 and the rate {}", s.minimum, s.base);
    if (!(s.end >= 0 && s.end <= s.base)) return refuse("end={} is not within 0 and the rate {}", s.end, s.base);
    return {};
  }

  std::string_view text_;
  Schedule schedule_;
  std::vector<std::string_view> given_;
};

}  // namespace

double learning_rate(const Schedule& schedule, Iteration iteration) {
  PACELINE_CHECK(iteration >= 1, "iterations are counted from 1, not {}", iteration);
  if (iteration <= schedule.warmup) return schedule.base * (static_cast<double>(iteration) / static_cast<double>(schedule.warmup));
  const std::int64_t since = iteration - 1 - schedule.warmup;
  const auto progress = [&] {
    return std::min(1.0, static_cast<double>(since) / static_cast<double>(schedule.total - schedule.warmup));
  };
  switch (schedule.kind) {
    case Kind::kConstant:
      return schedule.base;
    case Kind::kStep: {
      const std::int64_t steps = since / schedule.every;
      return schedule.base * std::pow(schedule.factor, static_cast<double>(steps));
    }
    case Kind::kCosine:
      return schedule.minimum + (schedule.base - schedule.minimum) * (1 + std::cos(std::numbers::pi * progress())) / 2;
    case Kind::kPolynomial:
      return schedule.end + (schedule.base - schedule.end) * std::pow(1 - progress(), schedule.power);
  }
  PACELINE_CHECK(false, "{} is no kind of schedule", static_cast<int>(schedule.kind));
}

Result<Schedule> parse_schedule(std::string_view text) { return Parser(text).parse(); }

std::string to_text(const Schedule& schedule) {
  std::string text = schedule.kind == Kind::kConstant
                         ? fmt::format("{}", schedule.base)
                         : fmt::format("{}:{}", kind_names()[static_cast<std::size_t>(schedule.kind)], schedule.base);
  for (const Key& key : keys_of(schedule.kind)) {
    if (key.whole == kWarmup.whole && schedule.warmup == 0) continue;
    text += key.whole != nullptr ? fmt::format(",{}={}", key.name, schedule.*key.whole)
                                 : fmt::format(",{}={}", key.name, schedule.*key.real);
  }
  return text;
}

}  // namespace paceline::tensor
