#include "paceline/train/job_options.h"

#include "paceline/help_text.h"

namespace paceline::cli {
namespace {

const char* type_name(const job::Option& option) {
  switch (option.type) {
    case job::OptionType::kWhole:
      return "INT";
    case job::OptionType::kNumber:
      return "FLOAT";
    case job::OptionType::kTime:
      return "TIME";
    case job::OptionType::kChoice:
      return "WORD";
    case job::OptionType::kText:
    case job::OptionType::kFlag:
      break;
  }
  return option.takes;
}

void set(job::JobSpec& spec, const job::Option& option, const std::string& text) {
  if (const Status status = set_typed(spec, option, text); !status.ok()) throw OptionError(status);
}

}  // namespace

void add_job_options(CLI::App& command, job::JobSpec& spec, job::Section section) {
  for (const job::Option& option : job::options()) {
    if (option.section != section) continue;
    const std::string name = "--" + option.name;
    if (option.type == job::OptionType::kFlag) {
      CLI::Option* flag = command.add_flag_callback(
          name, [&spec, &option] { set(spec, option, "1"); }, option.sentence);
      if (option.advanced) flag->group(kForExperts);
      continue;
    }
    const bool several = std::string_view(option.sentence).find(". ") != std::string_view::npos;
    const std::string choices = option.choices.empty() ? "" : (several ? ". One of: " : ": ") + option.legal.words;
    CLI::Option* added = command.add_option_function<std::string>(
        name, [&spec, &option](const std::string& text) { set(spec, option, text); }, option.sentence + choices);
    added->type_name(type_name(option));
    if (option.advanced) added->group(kForExperts);
    if (const std::string usual = typed_text(spec, option); !usual.empty()) added->default_str(usual);
  }
}

}  // namespace paceline::cli
