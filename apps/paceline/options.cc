// `paceline options`: the table of the options of a job (job/option.h), for people, for programs, and as a JSON schema.
#include <iostream>

#include "job/option.h"
#include "library/options_json.h"
#include "paceline/command.h"

namespace paceline::cli {
namespace {

using job::Option;

void print_text() {
  for (const Option& option : job::options()) {
    if (option.section == job::Section::kNone) continue;
    const std::string usual = typed_text({}, option);
    fmt::print("--{:18} {:18} {}\n", option.name, usual.empty() ? "-" : usual, option.legal.words);
  }
}

}  // namespace

void add_options(CLI::App& app, Chosen& chosen) {
  struct Wanted {
    bool json = false, schema = false;
  };
  auto wanted = std::make_shared<Wanted>();
  CLI::App* command = app.add_subcommand("options", "The options of a job: defaults, what is legal, what has to agree");
  command->add_flag("--json", wanted->json, "One JSON document on standard output, nothing else there");
  command->add_flag("--schema", wanted->schema,
                    "A JSON schema of the options instead, for editors and for checking a --config file");
  set_examples(*command, "  paceline options\n  paceline options --schema > job.schema.json");
  command->callback([wanted, &chosen] {
    chosen.run = [wanted] {
      if (wanted->json || wanted->schema)
        std::cout << (wanted->schema ? library::options_schema() : library::options_json()).dump(2) << "\n";
      else
        print_text();
      return kDone;
    };
  });
}

}  // namespace paceline::cli
