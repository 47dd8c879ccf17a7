// The integer-program solver CBC, loaded when it is first needed: a library, or a wheel, that nobody asks such questions stays
// without it. Any thread.
#pragma once

#include "base/status.h"

namespace paceline::planner {

struct CbcModel;  // Cbc_Model of Cbc_C_Interface.h, whose calls these are, one by one; a test compares them with it

struct Solver {
  CbcModel* (*new_model)();
  void (*delete_model)(CbcModel*);
  CbcModel* (*clone)(CbcModel*);
  void (*set_log_level)(CbcModel*, int);
  void (*set_maximum_nodes)(CbcModel*, int);
  void (*set_parameter)(CbcModel*, const char* name, const char* value);
  void (*add_column)(CbcModel*, const char* name, double lower, double upper, double objective, char is_integer, int entries,
                     int* rows, double* coefficients);
  void (*add_row)(CbcModel*, const char* name, int entries, const int* columns, const double* coefficients, char sense,
                  double right);
  int (*solve)(CbcModel*);
  int (*is_proven_optimal)(CbcModel*);
  const double* (*solution)(CbcModel*);
  double* (*best_solution)(CbcModel*);
};

// The same one ever after. kIo, with what to install, when it cannot be loaded.
Result<const Solver*> solver();
// From the shared library of that name.
Result<Solver> load_solver(const char* library);

}  // namespace paceline::planner
