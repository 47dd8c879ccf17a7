#include "process/program_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(ProgramFile, IsFoundAsASystemFindsItAndSaysWhatIsThereInstead) {
  const fs::path folder = fs::path(::testing::TempDir()) / "program_file_test";
  fs::remove_all(folder);
  fs::create_directories(folder / "bin");
  for (const char* name : {"runs", "text"}) std::ofstream(folder / name) << "#!/bin/sh\n";
  fs::permissions(folder / "runs", fs::perms::owner_all);
  fs::copy(folder / "runs", folder / "bin" / "named");
  const std::string path = "/no/such/folder:" + (folder / "bin").string();
  const auto said = [&](const std::string& program) { return check_startable(program, path).message(); };
  EXPECT_EQ(said(folder / "runs"), "");
  EXPECT_EQ(said("named"), "");
  EXPECT_EQ(said("runs"), "there is no program 'runs' in PATH");
  for (const std::string& words : {std::string("named three.py"), (folder / "runs").string() + " --width 64"})
    EXPECT_THAT(said(words), HasSubstr("in one word, and there is no such program; leave the quotes out: " + words));
  EXPECT_EQ(said("nothing three.py"), "there is no program 'nothing three.py' in PATH");
  EXPECT_THAT(said(folder / "nothing"), HasSubstr("there is no file '"));
  EXPECT_THAT(said(folder / "bin"), HasSubstr("is a folder and no program"));
  EXPECT_THAT(said(folder / "text"), HasSubstr("chmod +x"));
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  EXPECT_EQ(said("runs"), "there is no program 'runs' in PATH; write ./runs for the file of this folder");
  EXPECT_EQ(said("./runs"), "");
  EXPECT_EQ(check_startable("runs", "").ok(), true) << "an empty PATH is the working directory, as for execvp";
  fs::current_path(before);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace paceline
