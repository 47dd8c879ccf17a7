// The options of a job: one table from which everything follows that must know them by name. These are the command line, --config,
// the texts in messages and checkpoints, what has to agree, `paceline options`, and docs/reference/options.md. Any thread.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job/spec.h"
#include "wire/control.h"

namespace paceline::job {

enum class OptionType { kText, kChoice, kWhole, kNumber, kTime, kFlag };
const char* to_string(OptionType type);  // "text", "choice", "whole number", "number", "time", "flag"

// Where `--help` shows it. kNone: no person gives it; processes tell each other.
enum class Section { kWhat, kHow, kFiles, kLimits, kNone };

enum class Agree {
  kWorkers,  // on all workers of a job
  kResume,   // and with the checkpoint that a job goes on from: it decides which bits are computed
};

// Numbers within [from, to], and below `below`. `words` are for people; "": made from the numbers.
struct Legal {
  double from = -std::numeric_limits<double>::infinity();
  double to = std::numeric_limits<double>::infinity();
  double below = std::numeric_limits<double>::infinity();
  std::string words = {};

  bool holds(double value) const { return value >= from && value <= to && value < below; }
};

struct Option {
  std::string name;            // without dashes
  bool advanced = false;       // `--help` shows it only when it is asked for all
  const char* takes = "TEXT";  // what stands for a text in --help: "FILE"
  OptionType type = OptionType::kText;
  Section section = Section::kNone;
  Agree agree = Agree::kWorkers;
  const char* since = "0.1.0";  // release
  const char* sentence = "";    // for --help and the docs
  Legal legal = {};
  std::vector<std::string> choices = {};  // of kChoice
  const char* nothing = "";               // what one gives for a value that there need not be
  // What the text is when nobody gave the option, and which nobody can give, such as 0 for "as many as --epochs take".
  std::optional<std::string> absent = std::nullopt;
  // The value's one text: equal values have equal texts.
  std::function<std::string(const JobSpec&)> text = {};
  // kBadRequest, with code and subject, when `text` is no value or out of range. Times are seconds.
  std::function<Status(JobSpec&, std::string_view)> set = {};
};

// In the order of messages.
std::span<const Option> options();
// Nothing: there is no such option.
const Option* find_option(std::string_view name);
// kBadRequest with the nearest name when there is no such option, else as Option::set.
Status set_option(JobSpec& spec, std::string_view name, std::string_view text);
// As typed by a person: times need a unit, and what stands for "not given" is refused.
Status set_typed(JobSpec& spec, const Option& option, const std::string& text);
// As a person would type it; "" when it was not given.
std::string typed_text(const JobSpec& spec, const Option& option);

// Whether it is as when nobody gives it, beside what else the job says.
bool is_usual(const JobSpec& spec, const Option& option);

// All options of the job.
wire::Settings to_settings(const JobSpec& spec);
// Options that are missing keep their defaults; of a name that comes twice the later one counts. Errors as set_option.
Result<JobSpec> from_settings(const wire::Settings& settings);
// What an earlier release wrote: what this one does not know, or cannot read, and what decides no bits, is left out.
Result<JobSpec> from_saved(const wire::Settings& settings);
// The first option that must be the same to go on from a checkpoint and is not; nothing: all are.
const Option* resume_difference(const JobSpec& saved, const JobSpec& wanted);

}  // namespace paceline::job
