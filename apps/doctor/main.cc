// paceline-doctor: `paceline doctor`.
#include "paceline/program.h"

int main(int argc, char** argv) { return paceline::cli::run_program_of("doctor", &paceline::cli::add_doctor, argc, argv); }
