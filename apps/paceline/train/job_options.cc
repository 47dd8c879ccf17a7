#include "paceline/train/job_options.h"

namespace paceline::cli {
namespace {

const char* type_name(job::OptionType type) {
  switch (type) {
    case job::OptionType::kWhole:
      return "INT";
    case job::OptionType::kNumber:
      return "FLOAT";
    case job::OptionType::kTime:
      return "TIME";
    case job::OptionType::kText:
    case job::OptionType::kChoice:
    case job::OptionType::kFlag:
      break;
  }
  return "TEXT";
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
      command.add_flag_callback(
          name, [&spec, &option] { set(spec, option, "1"); }, option.sentence);
      continue;
    }
    // Where the sentence cannot know the choices better than the table does.
    const std::string choices = option.choices.empty() ? "" : ": " + option.legal.words;
    CLI::Option* added = command.add_option_function<std::string>(
        name, [&spec, &option](const std::string& text) { set(spec, option, text); }, option.sentence + choices);
    added->type_name(type_name(option.type));
    if (const std::string usual = typed_text(spec, option); !usual.empty()) added->default_str(usual);
  }
}

}  // namespace paceline::cli
