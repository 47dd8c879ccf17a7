#include "paceline/plan/answer_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/amounts.h"

namespace paceline::cli {
namespace {

// `unit`: null: none.
std::string cell(const Json& value, const planner::KeyType* unit) {
  if (value.is_null()) return "-";
  if (value.is_number() && unit != nullptr) {
    const double number = value.get<double>();
    if (*unit == planner::KeyType::kSeconds) return number < 0 ? "-" + in_time(-number) : in_time(number);
    return *unit == planner::KeyType::kRate ? to_text(BytesPerSecond{number}) : in_bytes(number);
  }
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  const bool flat =
      value.is_array() && std::none_of(value.begin(), value.end(), [](const Json& item) { return item.is_structured(); });
  if (!flat) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<std::string> items;
  for (const Json& item : value) items.push_back(cell(item, unit));
  return fmt::format("{}", fmt::join(items, " "));
}

// Rows of cells, each column as wide as its widest cell; the last one is not padded.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], widths[i]) : row[i];
    }
    text += '\n';
  }
  return text;
}

std::string cell(const std::string& key, const Json& value, const Units& units) {
  if (key.ends_with("_bits") && value.is_number()) {
    const double bytes = value.get<double>() / 8;
    return fmt::format("{} ({}{})", value.dump(), bytes < 0 ? "-" : "", in_bytes(std::abs(bytes)));
  }
  const auto unit = units.find(key);
  return cell(value, unit == units.end() ? nullptr : &unit->second);
}

}  // namespace

std::string answer_text(const Json& answer, const Units& units) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : answer.items()) {
    if (key == "bound" && answer.contains("bound_bits")) continue;  // the same by its earlier name, for programs
    rows.push_back({key, cell(key, value, units)});
  }
  return aligned(rows);
}

std::string answers_table(const std::vector<Json>& answers, const Units& units) {
  std::vector<std::string> header = {"case"};
  for (const Json& answer : answers) {
    for (const auto& [key, value] : answer.items()) {
      if (std::find(header.begin() + 1, header.end(), key) == header.end()) header.push_back(key);
    }
  }
  std::vector<std::vector<std::string>> rows = {header};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    rows.push_back({std::to_string(i)});
    for (std::size_t column = 1; column < header.size(); ++column) {
      rows.back().push_back(answers[i].contains(header[column]) ? cell(header[column], answers[i][header[column]], units) : "-");
    }
  }
  return aligned(rows);
}

}  // namespace paceline::cli
