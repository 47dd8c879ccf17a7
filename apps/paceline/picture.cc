#include "paceline/picture.h"

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "base/new_file.h"
#include "paceline/beside.h"
#include "paceline/environment.h"
#include "paceline/option_files.h"
#include "paceline/temporary_folder.h"
#include "process/child.h"

namespace paceline::cli {
namespace {

constexpr Duration kLongestDrawing = std::chrono::minutes(10);
constexpr Bytes kLargestPicture{100'000'000};

}  // namespace

std::string python() {
  if (const auto given = environment("PACELINE_PYTHON")) return *given;
  const std::filesystem::path in_tree = ".venv/bin/python";
  if (const auto beside = shared_beside(in_tree)) return *beside;
  return std::filesystem::exists(in_tree) ? in_tree.string() : "python3";
}

Status check_picture(const char* option, const std::string& file) {
  PACELINE_RETURN_IF_ERROR(check_output(option, file));
  const std::string ending = std::filesystem::path(file).extension().string();
  if (file.empty() || ending == ".png" || ending == ".svg" || ending == ".pdf") return {};
  return error(ErrorKind::kBadRequest, "{} {} is no picture's name; legal endings: .png, .svg, .pdf", option, file)
      .because({"illegal", option});
}

Status draw(const std::string& script, const std::string& json, const std::string& file) {
  const std::string interpreter = python();
  PACELINE_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::make());
  const std::string begun = folder->path() / ("picture" + std::filesystem::path(file).extension().string());
  PACELINE_ASSIGN_OR_RETURN(const auto child, Child::start("python", {interpreter, "-c", script, begun, json},
                                                           {"MPLBACKEND=Agg", "PYTHONDONTWRITEBYTECODE=1"}));
  const auto drawn = child->finish(kLongestDrawing);
  if (drawn.ok()) {
    PACELINE_ASSIGN_OR_RETURN(const std::string picture, read_text(system_files(), begun, kLargestPicture));
    return write_file(system_files(), file, picture);
  }
  return error(drawn.status().kind(),
               "{} could not draw {}: {}; matplotlib is needed ('pip install matplotlib', or PACELINE_PYTHON)", interpreter, file,
               drawn.status().message());
}

void draw_measured(const std::string& interpreter, const std::string& script, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {interpreter, script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto drawn = [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto child, Child::start(interpreter, words));
    return child->finish(kLongestDrawing).status();
  }();
  if (!drawn.ok()) fmt::print(stderr, "paceline: no pictures: {}\n", drawn.message());
}

}  // namespace paceline::cli
