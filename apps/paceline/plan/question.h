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
  // Values by key name, as options would give them, beside those of `given` and of `with_input`. Says what is wrong before it
  // measures, and then takes a minute at most.
  virtual Result<std::map<std::string, std::string>> measured(const std::map<std::string, std::string>& given, bool with_input) = 0;
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
