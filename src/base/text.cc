#include "base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

namespace paceline {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

struct Number {
  double value;
  std::string_view unit;
};

Result<Number> split(std::string_view text, const char* what, const char* examples) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || !std::isfinite(value) || value < 0) {
    return error(ErrorKind::kBadRequest, "'{}' is not a {}; write for example {}", text, what, examples);
  }
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  return Number{value, unit};
}

Result<double> in_units(std::string_view text, std::span<const Unit> units, const char* what, const char* examples) {
  auto number = split(text, what, examples);
  if (!number.ok()) return number.status();
  for (const Unit& unit : units) {
    if (unit.name == number->unit) return number->value * unit.factor;
  }
  const std::string wrong = number->unit.empty() ? "it has no unit" : fmt::format("unknown unit '{}'", number->unit);
  return error(ErrorKind::kBadRequest, "'{}' is not a {}: {}; write for example {}", text, what, wrong, examples);
}

std::string scaled(double value, const char* unit) {
  static constexpr std::array<const char*, 5> kPrefixes = {"", "k", "M", "G", "T"};
  std::size_t prefix = 0;
  while (value >= 1000 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return prefix == 0 ? fmt::format("{:.0f} {}", value, unit) : fmt::format("{:.1f} {}{}", value, kPrefixes[prefix], unit);
}

bool alike(char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b)); }

// Letters to insert, remove, replace, or swap with their neighbours until `from` reads `to`, in whatever case.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> rows(from.size() + 1, std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i) {
    for (std::size_t j = 0; j <= to.size(); ++j) {
      std::size_t& least = rows[i][j] = i + j;
      if (i == 0 || j == 0) continue;
      least = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (alike(from[i - 1], to[j - 1]) ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && alike(from[i - 1], to[j - 2]) && alike(from[i - 2], to[j - 1]);
      if (swapped) least = std::min(least, rows[i - 2][j - 2] + 1);
    }
  }
  return rows.back().back();
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  static constexpr std::array<Unit, 12> kUnits = {{{"", 1},
                                                   {"B", 1},
                                                   {"KB", 1e3},
                                                   {"kB", 1e3},
                                                   {"MB", 1e6},
                                                   {"GB", 1e9},
                                                   {"TB", 1e12},
                                                   {"KiB", 1024},
                                                   {"MiB", 1048576},
                                                   {"GiB", 1073741824.0},
                                                   {"TiB", 1099511627776.0},
                                                   {"kiB", 1024}}};
  PACELINE_ASSIGN_OR_RETURN(const double value, in_units(text, kUnits, "size", "4MiB, 64KB or 512"));
  if (value > 9e18) return error(ErrorKind::kBadRequest, "'{}' is larger than any size that can be handled", text);
  if (value != std::floor(value)) return error(ErrorKind::kBadRequest, "'{}' is not a whole number of bytes", text);
  return Bytes{static_cast<std::int64_t>(value)};
}

Result<BytesPerSecond> parse_rate(std::string_view text) {
  static constexpr std::array<Unit, 19> kUnits = {{{"bit", 0.125},
                                                   {"kbit", 125},
                                                   {"mbit", 125e3},
                                                   {"gbit", 125e6},
                                                   {"Mbit", 125e3},
                                                   {"Gbit", 125e6},
                                                   {"Mb/s", 125e3},
                                                   {"Gb/s", 125e6},
                                                   {"kbps", 125},
                                                   {"Kbps", 125},
                                                   {"mbps", 125e3},
                                                   {"Mbps", 125e3},
                                                   {"gbps", 125e6},
                                                   {"Gbps", 125e6},
                                                   {"B/s", 1},
                                                   {"KB/s", 1e3},
                                                   {"MB/s", 1e6},
                                                   {"GB/s", 1e9},
                                                   {"MiB/s", 1048576}}};
  PACELINE_ASSIGN_OR_RETURN(const double value, in_units(text, kUnits, "rate", "1gbit or 125MB/s"));
  if (value <= 0) return error(ErrorKind::kBadRequest, "'{}' is not a rate above zero", text);
  return BytesPerSecond{value};
}

Result<Duration> parse_duration(std::string_view text) {
  static constexpr std::array<Unit, 6> kUnits = {{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};
  PACELINE_ASSIGN_OR_RETURN(const double value, in_units(text, kUnits, "time", "10ms or 1.5s"));
  if (value > 9e9) return error(ErrorKind::kBadRequest, "'{}' is longer than any time that can be handled", text);
  return from_seconds(value);
}

std::string to_text(Bytes bytes) { return scaled(static_cast<double>(bytes.count), "B"); }
std::string to_text(BytesPerSecond rate) { return scaled(rate.value, "B/s"); }

std::string to_text(Duration duration) {
  const double s = seconds(duration);
  if (s >= 100) return fmt::format("{:.0f} s", s);
  if (s >= 1) return fmt::format("{:.1f} s", s);
  if (s >= 1e-3) return fmt::format("{:.1f} ms", s * 1e3);
  if (s >= 1e-6) return fmt::format("{:.1f} us", s * 1e6);
  return fmt::format("{} ns", duration.count());
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if ((longer - shorter) * 3 > longer) continue;  // too far, however long what was typed is
    const std::size_t found = distance(name, candidate);
    if (found < best_distance) {
      best_distance = found;
      best = candidate;
    }
  }
  return !best.empty() && best_distance * 3 <= std::max(name.size(), best.size()) ? best : "";
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  const std::string near = nearest(name, candidates);
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
}

}  // namespace paceline
