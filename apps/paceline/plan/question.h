// `paceline plan X`: the options of a question, its answers printed. What is asked and answered stands in planner/questions.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "paceline/command.h"
#include "planner/questions/question.h"

namespace paceline::cli {

using planner::Json;

// What a question offers on a command line beside its keys: options that measure or fetch values, and an answer for people.
class Extension {
 public:
  virtual ~Extension() = default;
  virtual void add_options(CLI::App& app) = 0;
  // The text of --input, with what a case only names.
  virtual Result<std::string> completed(const std::string& text) = 0;
  using Values = std::map<std::string, std::string>;  // by key name, as options would give them
  // What is wrong with its own options beside `given` ones and --input.
  virtual Status check(const Values& given, bool with_input) const = 0;
  virtual Status check_count(std::size_t cases) const = 0;
  // Values in place of those that it is to measure, which tell whether all the rest can be answered; empty: there are none.
  virtual Values stand_ins() const = 0;
  // Takes a minute at most.
  virtual Result<Values> measured(const Values& given) = 0;
  // Of one case, which it may add to; also where it is not printed.
  virtual Result<std::string> text_of(Json& answer) = 0;
};

// Adds `paceline plan <question.name>`: --input FILE (- = standard input), an option for each key and choice, --json. `question`
// must outlive the program's run.
void add_question(CLI::App& plan, Chosen& chosen, const planner::Question& question, const char* examples,
                  std::unique_ptr<Extension> extension = nullptr);

// What `plan speedup` can measure first, and draw.
std::unique_ptr<Extension> speedup_extension();

// `paceline plan job`, which reads what was measured instead of cases.
void add_job_question(CLI::App& plan, Chosen& chosen);

}  // namespace paceline::cli
