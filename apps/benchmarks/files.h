// The files of the tree's folder bench: tables of layers, programs of peers, scripts of pictures.
#pragma once

#include <filesystem>
#include <string>

#include "paceline/beside.h"

namespace paceline::cli {

// The folder bench/NAME of the tree or of the installation; where neither is there its name, so that a message tells it.
inline std::string bench_files(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path("bench") / name;
  return shared_beside(path).value_or(path).string();
}

}  // namespace paceline::cli
