// The finished cells of a long benchmark, one JSON object per line in a file, so that it goes on where it was interrupted. One
// thread.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace paceline::bench {

class Ledger {
 public:
  using Json = nlohmann::ordered_json;

  // Reads what is there; a last line that was cut off by a crash is left out. Errors: kBadRequest naming file and line, or the file
  // when it cannot be written.
  static Result<Ledger> open(const std::string& path) {
    Ledger ledger;
    ledger.path_ = path;
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    int number = 1;
    for (std::size_t end = 0; (end = text.find('\n', ledger.good_bytes_)) != std::string::npos; ++number) {
      const std::string line = text.substr(ledger.good_bytes_, end - ledger.good_bytes_);
      const Json cell = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!cell.is_object() || !cell.contains("key") || !cell["key"].is_string())
        return error(ErrorKind::kBadRequest, "{}, line {} is no finished cell; give another file, or remove it", path, number);
      ledger.cells_[cell["key"].get<std::string>()] = cell;
      ledger.good_bytes_ = end + 1;
    }
    const std::string rest = text.substr(ledger.good_bytes_), begin = R"({"key":)";
    if (!rest.starts_with(begin) && !begin.starts_with(rest))
      return error(ErrorKind::kBadRequest, "{}, line {} is no finished cell; give another file, or remove it", path, number);
    if (!std::ofstream(path, std::ios::app | std::ios::binary))
      return error(ErrorKind::kBadRequest, "{} cannot be written: {}", path, std::strerror(errno));
    return ledger;
  }

  bool has(const std::string& key) const { return cells_.contains(key); }
  const std::map<std::string, Json>& cells() const { return cells_; }

  // `cell` has the string "key".
  Status add(const Json& cell) {
    cells_[cell["key"].get<std::string>()] = cell;
    std::error_code problem;  // there may be no file yet
    if (std::filesystem::file_size(path_, problem) > good_bytes_ && !problem)
      std::filesystem::resize_file(path_, good_bytes_, problem);
    std::ofstream file(path_, std::ios::app | std::ios::binary);
    const std::string line = cell.dump() + "\n";
    file << line << std::flush;
    if (!file) return error(ErrorKind::kIo, "cannot write {}", path_);
    good_bytes_ += line.size();
    return {};
  }

 private:
  std::string path_;
  std::size_t good_bytes_ = 0;  // what stands behind was cut off
  std::map<std::string, Json> cells_;
};

}  // namespace paceline::bench
