// paceline-lab: `paceline lab`.
#include "paceline/program.h"

int main(int argc, char** argv) { return paceline::cli::run_program_of("lab", &paceline::cli::add_lab, argc, argv); }
