#include "planner/sizing/solver.h"

#include <type_traits>

#include <Cbc_C_Interface.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::planner {
namespace {

using testing::HasSubstr;

template <typename T>
struct Ours {
  using Type = T;
};
template <>
struct Ours<Cbc_Model*> {
  using Type = CbcModel*;
};
template <typename R, typename... Args>
struct Ours<R(Args...)> {
  using Type = typename Ours<R>::Type (*)(typename Ours<Args>::Type...);
};
// What a pointer to the header's function is here.
template <typename Function>
using Declared = typename Ours<Function>::Type;

static_assert(std::is_same_v<decltype(Solver::new_model), Declared<decltype(Cbc_newModel)>>);
static_assert(std::is_same_v<decltype(Solver::delete_model), Declared<decltype(Cbc_deleteModel)>>);
static_assert(std::is_same_v<decltype(Solver::clone), Declared<decltype(Cbc_clone)>>);
static_assert(std::is_same_v<decltype(Solver::set_log_level), Declared<decltype(Cbc_setLogLevel)>>);
static_assert(std::is_same_v<decltype(Solver::set_maximum_nodes), Declared<decltype(Cbc_setMaximumNodes)>>);
static_assert(std::is_same_v<decltype(Solver::set_parameter), Declared<decltype(Cbc_setParameter)>>);
static_assert(std::is_same_v<decltype(Solver::add_column), Declared<decltype(Cbc_addCol)>>);
static_assert(std::is_same_v<decltype(Solver::add_row), Declared<decltype(Cbc_addRow)>>);
static_assert(std::is_same_v<decltype(Solver::solve), Declared<decltype(Cbc_solve)>>);
static_assert(std::is_same_v<decltype(Solver::is_proven_optimal), Declared<decltype(Cbc_isProvenOptimal)>>);
static_assert(std::is_same_v<decltype(Solver::solution), Declared<decltype(Cbc_getColSolution)>>);
static_assert(std::is_same_v<decltype(Solver::best_solution), Declared<decltype(Cbc_bestSolution)>>);

std::string refusal_of(const char* library) {
  const auto loaded = load_solver(library);
  EXPECT_FALSE(loaded.ok());
  EXPECT_EQ(ErrorKind::kIo, loaded.status().kind());
  EXPECT_EQ("not-installed", loaded.status().code());
  EXPECT_EQ(library, loaded.status().subject());
  return loaded.status().message();
}

TEST(Solver, WhereItIsNotThereTheSentenceSaysWhatToInstall) {
  const std::string said = refusal_of("libNoSolver.so.3");
  EXPECT_THAT(said, HasSubstr("libNoSolver.so.3"));
  EXPECT_THAT(said, HasSubstr("apt-get install coinor-libcbc3"));
}

TEST(Solver, ALibraryWithoutItsCallsIsNone) { EXPECT_THAT(refusal_of("libc.so.6"), HasSubstr("Cbc_newModel")); }

}  // namespace
}  // namespace paceline::planner
