#include "paceline/train/launcher.h"

#include <map>

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using Map = std::map<std::string, std::string, std::less<>>;

Result<std::optional<Launch>> launched(const Map& map, const std::optional<std::string>& bind = {}) {
  return launched_by(
      [&](std::string_view name) -> std::optional<std::string> {
        const auto found = map.find(name);
        return found == map.end() ? std::nullopt : std::optional(found->second);
      },
      bind, [&] { return map.contains("the proxy") ? map.at("the proxy") : ""; });
}

Map with(Map map, const Map& more) {
  for (const auto& [name, value] : more) map[name] = value;
  return map;
}
Map without(Map map, const std::string& name) {
  map.erase(name);
  return map;
}

const Map kTorchrun = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
const Map kMpirun = {{"OMPI_COMM_WORLD_RANK", "0"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"PMIX_NAMESPACE", "906952705"}};
const Map kHydra = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}, {"the proxy", "hydra-4711-80"}};
const Map kSrun = {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_JOB_NODELIST", "gpu07"}, {"SLURM_JOB_ID", "4711"}};

void expect_refused(const Map& map, const std::string& named, const std::optional<std::string>& bind = {}) {
  const auto result = launched(map, bind);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().kind(), ErrorKind::kBadRequest);
  EXPECT_NE(result.status().message().find(named), std::string::npos) << result.status().message();
}

TEST(Launcher, WithoutRankAndSizeThereIsNone) {
  EXPECT_EQ(*launched({}), std::nullopt);
  EXPECT_EQ(*launched({{"RANK", "0"}}), std::nullopt);
  EXPECT_EQ(*launched({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}), std::nullopt);  // a shell in an allocation
  EXPECT_EQ(*launched(with(kSrun, {{"ENVIRONMENT", "BATCH"}})), std::nullopt) << "the shell of an sbatch script";
  EXPECT_NE(*launched(with(kSrun, {{"ENVIRONMENT", "BATCH"}, {"SLURM_STEP_ID", "0"}})), std::nullopt);
}

TEST(Launcher, TorchrunsCoordinatorIsBehindItsStore) {
  EXPECT_EQ(*launched(kTorchrun), (Launch{"torchrun", 1, 4, {"127.0.0.1", 29501}}));
  EXPECT_EQ(*launched(with(without(kTorchrun, "LOCAL_WORLD_SIZE"), {{"MASTER_ADDR", "127.0.0.1"}})),
            (Launch{"torchrun", 1, 4, {"127.0.0.1", 29501}}));
  EXPECT_EQ(*launched(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}}), "10.0.0.1"), (Launch{"torchrun", 1, 4, {"10.0.0.1", 29501}}));
}

TEST(Launcher, RanksOfOneJobDeriveTheSamePortAndJobsOthers) {
  const auto port = [](const Map& map) { return launched(map).value()->coordinator.port; };
  EXPECT_EQ(port(kMpirun), port(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "1"}})));
  EXPECT_EQ(port(kSrun), port(with(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}})));
  EXPECT_EQ(port(kHydra), port(with(kHydra, {{"PMI_RANK", "0"}})));
  EXPECT_NE(port(kHydra), port(with(kHydra, {{"the proxy", "hydra-4711-81"}})));
  EXPECT_NE(port(kMpirun), port(with(kMpirun, {{"PMIX_NAMESPACE", "906952706"}})));
  EXPECT_NE(port(kSrun), port(with(kSrun, {{"SLURM_STEP_ID", "1"}})));
  for (int job = 0; job < 1000; ++job) {
    const int derived = port(with(kSrun, {{"SLURM_JOB_ID", std::to_string(job)}}));
    EXPECT_GE(derived, 12'000);
    EXPECT_LT(derived, 30'000);
  }
}

TEST(Launcher, LaunchersInsideSrunCountFirst) {
  EXPECT_EQ(launched(with(kSrun, kMpirun)).value()->launcher, "mpirun");
  EXPECT_EQ(launched(with(with(kSrun, kMpirun), kTorchrun)).value()->launcher, "torchrun");
  EXPECT_EQ(launched(with(kSrun, kHydra)).value()->launcher, "Hydra");
  EXPECT_EQ(launched(with(kHydra, kMpirun)).value()->launcher, "mpirun");
  const Map pmi2 = with(kSrun, {{"SLURM_STEP_ID", "0"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "3"}});
  EXPECT_EQ(launched(pmi2).value()->launcher, "srun") << "srun --mpi=pmi2";
}

TEST(Launcher, SeveralMachinesNeedAnAddressThatIsNotTheLoopback) {
  expect_refused(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}}), "node1");
  expect_refused(with(kSrun, {{"SLURM_JOB_NODELIST", "gpu[07-08]"}}), "gpu07");
  EXPECT_EQ(launched(with(kSrun, {{"SLURM_JOB_NODELIST", "gpu[07-08]"}}), "10.0.0.1").value()->coordinator.host, "10.0.0.1");
  EXPECT_EQ(
      launched(with(kSrun, {{"SLURM_JOB_NODELIST", "gpu[07-08]"}, {"SLURM_STEP_NODELIST", "gpu08"}})).value()->coordinator.host,
      "127.0.0.1");
  expect_refused(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}), "PACELINE_COORDINATOR");
  expect_refused(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}), "PACELINE_COORDINATOR", "10.0.0.1");
  expect_refused(with(kHydra, {{"MPI_LOCALNRANKS", "1"}}), "Hydra started 2 ranks on several machines");
  expect_refused(with(kHydra, {{"MPI_LOCALNRANKS", "1"}}), "PACELINE_COORDINATOR", "10.0.0.1");
  expect_refused(kTorchrun, "0.0.0.0", "0.0.0.0");
}

TEST(Launcher, TheCoordinatorThatIsNamedWins) {
  for (const Map& map : {kTorchrun, kMpirun, kHydra, kSrun, without(kMpirun, "PMIX_NAMESPACE")}) {
    EXPECT_EQ(launched(with(map, {{"PACELINE_COORDINATOR", "127.0.0.1:4100"}})).value()->coordinator,
              (transport::Address{"127.0.0.1", 4100}));
    EXPECT_EQ(launched(with(map, {{"PACELINE_COORDINATOR", "a:4100"}}), "10.0.0.1").value()->coordinator,
              (transport::Address{"a", 4100}));
    expect_refused(with(map, {{"PACELINE_COORDINATOR", "a:4100"}}), "--bind");
    expect_refused(with(map, {{"PACELINE_COORDINATOR", "nonsense"}}), "nonsense");
    expect_refused(with(map, {{"PACELINE_COORDINATOR", "127.0.0.1:0"}}), "127.0.0.1:0");
  }
}

TEST(Launcher, VariablesThatMakeNoSenseAreNamed) {
  expect_refused(with(kTorchrun, {{"RANK", "4"}}), "RANK=4");
  expect_refused(with(kTorchrun, {{"RANK", "-1"}}), "RANK=-1");
  expect_refused(with(kTorchrun, {{"WORLD_SIZE", "many"}}), "WORLD_SIZE=many");
  expect_refused(with(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE=0");
  expect_refused(with(kTorchrun, {{"MASTER_PORT", "65535"}}), "MASTER_PORT=65535");
  expect_refused(without(kTorchrun, "MASTER_PORT"), "MASTER_PORT");
  expect_refused(without(kTorchrun, "MASTER_ADDR"), "MASTER_ADDR");
  expect_refused(without(kSrun, "SLURM_JOB_ID"), "SLURM_JOB_ID");
  expect_refused(without(kSrun, "SLURM_JOB_NODELIST"), "SLURM_JOB_NODELIST");
  expect_refused(without(kMpirun, "PMIX_NAMESPACE"), "PACELINE_COORDINATOR");
  expect_refused(with(kHydra, {{"PMI_RANK", "2"}}), "PMI_RANK=2");
  expect_refused(without(kHydra, "the proxy"), "PACELINE_COORDINATOR");
}

TEST(Launcher, AProcessThatSomethingSaysIsOneOfSeveralDoesNotTrainAlone) {
  expect_refused({{"RANK", "1"}}, "RANK=1 in the environment, and no WORLD_SIZE");
  expect_refused({{"WORLD_SIZE", "2"}}, "WORLD_SIZE=2 in the environment, and no RANK");
  expect_refused({{"JOB_COMPLETION_INDEX", "0"}}, "JOB_COMPLETION_INDEX=0: this pod is one");
  for (const Map& alone : {Map{}, Map{{"RANK", "0"}}, Map{{"WORLD_SIZE", "1"}}}) EXPECT_EQ(*launched(alone), std::nullopt);
}

TEST(Launcher, TheFirstHostOfANodeList) {
  EXPECT_EQ(first_host("gpu07"), "gpu07");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("gpu[03-07,9],login"), "gpu03");
  EXPECT_EQ(first_host("rack[2,4]n[1-3]"), "rack2n1");
  EXPECT_EQ(first_host("n[5]-ib,x"), "n5-ib");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace paceline::cli
