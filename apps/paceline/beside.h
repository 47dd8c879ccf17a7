// What lies beside this program: the others, and the files that they read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace paceline::cli {

std::filesystem::path own_program();                            // the file of this process
std::filesystem::path program_beside(const std::string& name);  // "paceline-trainer", in the same folder

// A file or folder of the tree: EXE/../../../PATH (of a program in build/<preset>/bin), else EXE/../share/paceline/PATH (of an
// installed one), EXE being the program's folder. Nothing when neither is there.
std::optional<std::filesystem::path> shared_beside(const std::filesystem::path& path);

// The file of a table of layers that comes along (bench/tables): "vgg19", and "VGG-19" is the same. Nothing: there is none.
std::optional<std::string> layer_table_of(const std::string& name);
// The file of this name, or, where there is none, such a table's. `name` itself: neither is there.
std::string file_or_layer_table(const std::string& name);

}  // namespace paceline::cli
