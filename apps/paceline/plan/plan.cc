// The group `paceline plan`: every decision of the runtime as a question that can be asked with numbers.
#include <fmt/ranges.h>

#include "paceline/plan/examples.h"
#include "paceline/plan/question.h"

namespace paceline::cli {

void add_plan(CLI::App& app, Chosen& chosen) {
  CLI::App* plan = app.add_subcommand("plan", "Answer what to do, from numbers, without running anything");
  set_examples(
      *plan,
      "  paceline plan batches --start-up 1ms --transfer 0.002,0.003,0.004 --forward 0.003,0.003,0.003\n"
      "  paceline plan collective --operation allreduce --algorithm best --ranks 16 --bytes 100MB --alpha 20us --beta 8e-9 --gamma "
      "1e-10\n"
      "  echo '[{\"nodes\":4,\"bytes\":100000000,\"alpha\":1e-4,\"bandwidth\":125e6}]' | paceline plan slice --input - --json\n"
      "\n"
      "Each question reads one JSON object or an array of them from --input FILE (- = standard input), or single values from "
      "options of\n"
      "the keys' names. Layers are numbered from 1 in forward order, ranks, workers and cases from 0. Units in options: 4MB, "
      "1gbit, 10us;\n"
      "in JSON plain numbers: bytes, bytes/s, seconds. A case without an answer says \"feasible\": false and why.");
  for (const planner::Question& question : planner::questions()) {
    if (question.name == "job") continue;
    add_question(*plan, chosen, question, examples_of(question.name), question.name == "speedup" ? speedup_extension() : nullptr);
  }
  add_job_question(*plan, chosen);  // what was measured stands in files
  // Not require_subcommand: it would hide the name of a question that does not exist behind "a subcommand is required".
  plan->callback([plan, &chosen] {
    if (!plan->get_subcommands().empty()) return;
    chosen.run = [plan] {
      std::vector<std::string> names;
      for (const CLI::App* question : plan->get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(question->get_name());
      return report_error(
          error(ErrorKind::kBadRequest, "plan needs a question: {}; see 'paceline plan --help'", fmt::join(names, ", ")));
    };
  });
}

}  // namespace paceline::cli
