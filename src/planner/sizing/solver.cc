#include "planner/sizing/solver.h"

#include <dlfcn.h>

namespace paceline::planner {
namespace {

constexpr const char* kLibrary = "libCbcSolver.so.3";

// What is missing says the loader.
Status missing(const char* library) {
  const char* const why = dlerror();
  return Status(
      ErrorKind::kIo,
      fmt::format(
          "this choice of algorithms needs the solver CBC, which cannot be loaded ({}); install it: apt-get install coinor-libcbc3",
          why == nullptr ? "no reason is given" : why),
      {"not-installed", library});
}

}  // namespace

Result<Solver> load_solver(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);  // never closed: its code is in use
  if (handle == nullptr) return missing(library);
  bool all = true;
  const auto find = [&](const char* name, auto& function) {
    void* const symbol = all ? dlsym(handle, name) : nullptr;
    all = symbol != nullptr;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  Solver solver{};
  find("Cbc_newModel", solver.new_model);
  find("Cbc_deleteModel", solver.delete_model);
  find("Cbc_clone", solver.clone);
  find("Cbc_setLogLevel", solver.set_log_level);
  find("Cbc_setMaximumNodes", solver.set_maximum_nodes);
  find("Cbc_setParameter", solver.set_parameter);
  find("Cbc_addCol", solver.add_column);
  find("Cbc_addRow", solver.add_row);
  find("Cbc_solve", solver.solve);
  find("Cbc_isProvenOptimal", solver.is_proven_optimal);
  find("Cbc_getColSolution", solver.solution);
  find("Cbc_bestSolution", solver.best_solution);
  if (!all) return missing(library);
  return solver;
}

Result<const Solver*> solver() {
  static const Result<Solver> loaded = load_solver(kLibrary);
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace paceline::planner
