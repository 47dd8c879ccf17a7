// What rows of the table of options are made with: each function makes the row of one kind of value. For options_*.cc alone.
#pragma once

#include <charconv>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/ranges.h>

#include "base/utf8.h"
#include "job/option.h"

namespace paceline::job {

inline std::string words_of(const Legal& legal) {
  constexpr double kNoLimit = 1e15;  // larger ones only keep arithmetic exact
  if (!legal.words.empty()) return legal.words;
  if (legal.below < kNoLimit) return fmt::format("{:.0f} up to below {:.0f}", legal.from, legal.below);
  if (legal.to < kNoLimit) return fmt::format("{:.0f} to {:.0f}", legal.from, legal.to);
  return fmt::format("{:.0f} and more", legal.from);
}

inline Status illegal(const std::string& name, const std::string& message) {
  return Status(ErrorKind::kBadRequest, message, {"illegal", "--" + name});
}

// The rows of numbers, flags and plain texts: `member` gives the value in a job.

template <typename Member>
Option number(Option row, Member member) {
  using Number = std::remove_cvref_t<decltype(member(std::declval<JobSpec&>()))>;
  constexpr bool kWhole = std::is_integral_v<Number>;
  if (row.type == OptionType::kText) row.type = kWhole ? OptionType::kWhole : OptionType::kNumber;
  row.legal.words = words_of(row.legal);
  row.text = [member](const JobSpec& job) { return fmt::format("{}", member(job)); };
  row.set = [member, name = row.name, legal = row.legal, absent = row.absent](JobSpec& job, std::string_view text) -> Status {
    Number value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size()) {
      return illegal(name,
                     fmt::format("--{} cannot be '{}'; legal: a {}number, {}", name, text, kWhole ? "whole " : "", legal.words));
    }
    if (!legal.holds(static_cast<double>(value)) && absent != fmt::format("{}", value))
      return illegal(name, fmt::format("--{} is {}; legal: {}", name, value, legal.words));
    member(job) = value;
    return {};
  };
  return row;
}

template <typename Member>
Option flag(Option row, Member member) {
  row.type = OptionType::kFlag;
  row.legal.words = "0 or 1";
  row.text = [member](const JobSpec& job) { return std::string(member(job) ? "1" : "0"); };
  row.set = [member, name = row.name](JobSpec& job, std::string_view text) -> Status {
    if (text != "0" && text != "1") return illegal(name, fmt::format("--{} cannot be '{}'; legal: 0 or 1", name, text));
    member(job) = text == "1";
    return {};
  };
  return row;
}

template <typename Member>
Option text(Option row, Member member) {
  row.text = [member](const JobSpec& job) { return member(job); };
  row.set = [member, name = row.name](JobSpec& job, std::string_view text) -> Status {
    if (!is_utf8(text)) return illegal(name, fmt::format("--{} holds bytes that are no UTF-8 text; rename what it names", name));
    member(job) = text;
    return {};
  };
  return row;
}

// A value with a text of its own. `write` gives the text of a value, `read` a Result of one. An optional member without a value has
// the text row.absent, or else row.nothing. kPrefixed: the refusals of `read` do not name the option.
enum class Refusals { kPrefixed, kNameIt };

template <typename Member, typename Write, typename Read>
Option value(Option row, Member member, Write write, Read read, Refusals refusals = Refusals::kPrefixed) {
  if (!row.choices.empty()) {
    row.type = OptionType::kChoice;
    if (row.legal.words.empty()) row.legal.words = fmt::format("{}", fmt::join(row.choices, ", "));
  }
  using Value = std::remove_cvref_t<decltype(member(std::declval<JobSpec&>()))>;
  constexpr bool kOptional = requires(Value held) { held.has_value(); };
  const std::string nothing = row.absent.value_or(row.nothing);
  row.text = [member, write, nothing](const JobSpec& job) -> std::string {
    if constexpr (kOptional) {
      return member(job).has_value() ? std::string(write(*member(job))) : nothing;
    } else {
      return std::string(write(member(job)));
    }
  };
  row.set = [member, read, refusals, nothing, name = row.name](JobSpec& job, std::string_view text) -> Status {
    if constexpr (kOptional) {
      if (text == nothing) {
        member(job).reset();
        return {};
      }
    }
    auto result = read(text);
    if (!result.ok()) {
      const std::string why = result.status().message();
      return illegal(name, refusals == Refusals::kNameIt ? why : fmt::format("--{}: {}", name, why));
    }
    member(job) = std::move(*result);
    return {};
  };
  return row;
}

// Text of what a to_string or to_text overload knows.
inline constexpr auto kName = [](const auto& value) { return to_string(value); };
inline constexpr auto kText = [](const auto& value) { return to_text(value); };

// The rows by subject.
std::vector<Option> task_options();
std::vector<Option> update_options();
std::vector<Option> program_options();  // of programs with optimizers or schedules of their own
std::vector<Option> schedule_options();
std::vector<Option> wire_options();
std::vector<Option> sync_options();
std::vector<Option> loop_options();
std::vector<Option> saving_options();
std::vector<Option> limits_options();

}  // namespace paceline::job
