// paceline: one program for people and for scripts. Commands are added by their own files, or are programs beside this one.
#include "paceline/other_programs.h"
#include "paceline/program.h"

int main(int argc, char** argv) {
  using namespace paceline::cli;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const auto failed = become_other_program(words)) return *failed;
  constexpr AddCommand kCommands[] = {add_train,    add_run,      add_coordinator,   add_worker,  add_hosted,
                                      add_key,      add_options,  add_plan,          add_profile, add_models,
                                      add_datasets, add_timeline, add_other_programs};
  return run_program(kCommands, words);
}
