#include "job/option.h"

#include <utility>

#include "base/text.h"

namespace paceline::job {
namespace {

std::vector<std::string> option_names() {
  std::vector<std::string> all;
  for (const Option& option : options()) all.push_back(option.name);
  return all;
}

// Its text says the usual rate too, which then is as if nobody had given it.
JobSpec without_usual_rate(JobSpec spec) {
  if (is_usual(spec, *find_option("learning-rate"))) spec.learning_rate.reset();
  return spec;
}

}  // namespace

const char* to_string(OptionType type) {
  constexpr const char* kNames[] = {"text", "choice", "whole number", "number", "time", "flag"};
  return kNames[static_cast<std::size_t>(type)];
}

const Option* find_option(std::string_view name) {
  for (const Option& option : options()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

Status set_option(JobSpec& spec, std::string_view name, std::string_view text) {
  if (const Option* option = find_option(name)) return option->set(spec, text);
  return Status(ErrorKind::kBadRequest, fmt::format("there is no option --{}{}", name, suggestion(name, option_names())),
                {"unknown", fmt::format("--{}", name)});
}

Status set_typed(JobSpec& spec, const Option& option, const std::string& text) {
  const std::string subject = "--" + option.name;
  std::string value = text;
  if (option.type == OptionType::kTime) {
    const auto duration = parse_duration(text);
    if (!duration.ok())
      return Status(ErrorKind::kBadRequest, fmt::format("{}: {}", subject, duration.status().message()), {"illegal", subject});
    value = fmt::format("{}", seconds(*duration));
  }
  JobSpec changed = spec;
  PACELINE_RETURN_IF_ERROR(option.set(changed, value));
  if (option.absent && option.text(changed) == *option.absent) {
    return Status(ErrorKind::kBadRequest,
                  text.empty() ? fmt::format("{} cannot be ''; legal: {}", subject, option.legal.words)
                               : fmt::format("{} is {}; legal: {}", subject, text, option.legal.words),
                  {"illegal", subject});
  }
  spec = std::move(changed);
  return {};
}

std::string typed_text(const JobSpec& spec, const Option& option) {
  const std::string text = option.text(spec);
  if (option.absent == text) return "";
  return option.type == OptionType::kTime ? text + "s" : text;
}

bool is_usual(const JobSpec& spec, const Option& option) {
  JobSpec usual;
  if (option.name == "learning-rate") usual.update = spec.update;  // whose optimizer has its own
  return option.text(spec) == option.text(usual);
}

wire::Settings to_settings(const JobSpec& spec) {
  wire::Settings settings;
  for (const Option& option : options()) settings.emplace_back(option.name, option.text(spec));
  return settings;
}

Result<JobSpec> from_settings(const wire::Settings& settings) {
  JobSpec spec;
  for (const auto& [name, text] : settings) PACELINE_RETURN_IF_ERROR(set_option(spec, name, text));
  return without_usual_rate(std::move(spec));
}

Result<JobSpec> from_saved(const wire::Settings& settings) {
  JobSpec spec;
  for (const auto& [name, text] : settings) {
    const Option* option = find_option(name);
    if (option == nullptr) continue;
    const Status status = option->set(spec, text);
    if (option->agree == Agree::kResume) PACELINE_RETURN_IF_ERROR(status);
  }
  return without_usual_rate(std::move(spec));
}

const Option* resume_difference(const JobSpec& saved, const JobSpec& wanted) {
  for (const Option& option : options()) {
    if (option.agree == Agree::kResume && option.text(saved) != option.text(wanted)) return &option;
  }
  return nullptr;
}

}  // namespace paceline::job
