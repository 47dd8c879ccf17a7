// paceline-bench: `paceline bench`.
#include "paceline/program.h"

int main(int argc, char** argv) { return paceline::cli::run_program_of("bench", &paceline::cli::add_bench, argc, argv); }
