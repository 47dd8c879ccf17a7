// `paceline plan X`: the options of a question, its answers printed. What is asked and answered stands in planner/questions.
#pragma once

#include "paceline/command.h"
#include "planner/questions/question.h"

namespace paceline::cli {

using planner::Json;

// Adds `paceline plan <question.name>`: --input FILE (- = standard input), an option for each key and choice, --json. `question`
// must outlive the program's run.
void add_question(CLI::App& plan, Chosen& chosen, const planner::Question& question, const char* examples);

// `paceline plan job`, which reads what was measured instead of cases.
void add_job_question(CLI::App& plan, Chosen& chosen);

}  // namespace paceline::cli
