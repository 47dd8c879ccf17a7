// `paceline options`: the table of the options of a job (job/option.h), for people, for programs, and as a JSON schema.
#include <algorithm>
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

// The schema of a file for `command`: with the options that are no job's, and each name with underscores too.
report::Json schema_of(const CLI::App& command) {
  report::Json schema = library::options_schema();
  report::Json& properties = schema["properties"];
  for (const CLI::Option* option : all_options(command)) {
    for (const std::string& name : option->get_lnames()) {
      if (name == "help" || name == "config" || option->get_group().empty() || properties.contains(name)) continue;
      report::Json& property = properties[name] = {{"description", option->get_description()}};
      if (is_flag(*option))
        property["type"] = "boolean";
      else if (option->get_type_name() == "INT")
        property["type"] = "integer";
      else
        property["type"] = {"string", "number", "array"};
    }
  }
  report::Json twins = report::Json::object();
  for (const auto& [name, property] : properties.items()) {
    std::string twin = name;
    std::ranges::replace(twin, '-', '_');
    if (twin != name) twins[twin] = {{"$ref", "#/properties/" + name}};
  }
  properties.update(twins);
  return schema;
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
  command->callback([wanted, &app, &chosen] {
    chosen.run = [wanted, &app] {
      if (wanted->json || wanted->schema)
        std::cout << (wanted->schema ? schema_of(*app.get_subcommand("train")) : library::options_json()).dump(2) << "\n";
      else
        print_text();
      return kDone;
    };
  });
}

}  // namespace paceline::cli
