#include "cost/cost_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace paceline::cost {
namespace {

using Row = std::array<double, 3>;

// Least squares of (row . x - 1) over the columns in `active` (a bit each); the others are 0. Nothing: the columns do not tell
// their constants apart.
std::optional<Row> solve(std::span<const Row> rows, unsigned active) {
  std::array<std::array<double, 4>, 3> equations{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) equations[i][j] += row[i] * row[j];
      equations[i][3] += row[i];
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if ((active >> i & 1U) != 0) continue;
    equations[i] = {};
    for (auto& equation : equations) equation[i] = 0;
    equations[i][i] = 1;
  }
  for (std::size_t column = 0; column < 3; ++column) {
    const double before = equations[column][column];
    std::size_t pivot = column;
    for (std::size_t i = column; i < 3; ++i)
      if (std::abs(equations[i][column]) > std::abs(equations[pivot][column])) pivot = i;
    std::swap(equations[column], equations[pivot]);
    const double value = equations[column][column];
    if (!(std::abs(value) > 1e-12 * std::max(1.0, std::abs(before)))) return std::nullopt;
    for (std::size_t i = 0; i < 3; ++i) {
      if (i == column) continue;
      const double factor = equations[i][column] / value;
      for (std::size_t j = column; j < 4; ++j) equations[i][j] -= factor * equations[column][j];
    }
  }
  return Row{equations[0][3] / equations[0][0], equations[1][3] / equations[1][1], equations[2][3] / equations[2][2]};
}

double squares(std::span<const Row> rows, const Row& x) {
  double sum = 0;
  for (const Row& row : rows) sum += std::pow(row[0] * x[0] + row[1] * x[1] + row[2] * x[2] - 1, 2);
  return sum;
}

}  // namespace

double predicted(const LinkCost& cost, const CostSample& sample) {
  return sample.messages * cost.alpha + sample.sent * cost.beta + sample.reduced * cost.gamma;
}

double residual(const LinkCost& cost, std::span<const CostSample> samples) {
  double sum = 0;
  for (const CostSample& sample : samples) sum += std::pow(predicted(cost, sample) / sample.seconds - 1, 2);
  return std::sqrt(sum / static_cast<double>(samples.size()));
}

Result<CostFit> fit_cost(std::span<const CostSample> samples) {
  if (samples.size() < 2)
    return error(ErrorKind::kBadRequest, "{} measured operations are too few; give at least 2", samples.size());
  Row largest{};
  for (const CostSample& sample : samples) {
    const bool sensible = sample.messages >= 0 && sample.sent >= 0 && sample.reduced >= 0 && sample.seconds > 0;
    if (!sensible || !std::isfinite(sample.messages + sample.sent + sample.reduced + sample.seconds)) {
      return error(ErrorKind::kBadRequest, "an operation of {} messages and {} + {} bytes in {} s says nothing of a link",
                   sample.messages, sample.sent, sample.reduced, sample.seconds);
    }
    largest = {std::max(largest[0], sample.messages), std::max(largest[1], sample.sent), std::max(largest[2], sample.reduced)};
  }
  // Columns of one magnitude, rows divided by their times.
  std::vector<Row> rows;
  for (const CostSample& sample : samples) {
    const Row counts{sample.messages, sample.sent, sample.reduced};
    Row row{};
    for (std::size_t i = 0; i < 3; ++i) row[i] = largest[i] > 0 ? counts[i] / largest[i] / sample.seconds : 0;
    rows.push_back(row);
  }
  // Three constants that must not be negative: the best of the eight ways to hold some of them at 0.
  std::optional<Row> best;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned active = 1; active < 8; ++active) {
    const auto found = solve(rows, active);
    if (!found || (*found)[0] < 0 || (*found)[1] < 0 || (*found)[2] < 0) continue;
    const double error_squares = squares(rows, *found);
    if (error_squares < least * (1 - 1e-9)) {
      least = error_squares;
      best = found;
    }
  }
  if (!best || !((*best)[1] > 0))
    return error(ErrorKind::kBadRequest, "the times of the operations do not grow with their bytes, so the link has no rate");
  CostFit fit;
  fit.cost = {largest[0] > 0 ? (*best)[0] / largest[0] : 0, (*best)[1] / largest[1], largest[2] > 0 ? (*best)[2] / largest[2] : 0};
  fit.residual = residual(fit.cost, samples);
  return fit;
}

}  // namespace paceline::cost
