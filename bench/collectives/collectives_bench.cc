#include "bench/collectives/collectives_bench.h"

#include <algorithm>
#include <map>

#include "bench/spread.h"
#include "collectives/plan/cost.h"

namespace paceline::bench {
namespace {

using Json = Ledger::Json;

// What an entry has shown in a heat.
struct Showing {
  Entry entry;
  std::vector<double> medians;  // of the turns
  std::size_t repetitions = 0;
  double expected = 0;  // seconds of one operation
  Json said;
  std::string failure;
};

class Bench {
 public:
  explicit Bench(const CollectivesBenchOptions& options) : options_(options) {}

  Result<CollectivesBenchResult> run() {
    PACELINE_ASSIGN_OR_RETURN(Ledger ledger, Ledger::open(options_.ledger));
    const std::vector<Heat> all = heats(options_.grid);
    CollectivesBenchResult result;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Heat left = all[i];
      std::erase_if(left.entries, [&](const Entry& entry) { return ledger.has(key_of(left, entry)); });
      if (!left.entries.empty()) {
        if (options_.on_heat)
          options_.on_heat(i, all.size(), fmt::format("{} of {} bytes, {} hosts", left.operation, left.size.count, left.hosts));
        PACELINE_RETURN_IF_ERROR(run_heat(left, ledger, result.failures));
      }
      for (const Entry& entry : all[i].entries) {
        const auto found = ledger.cells().find(key_of(all[i], entry));
        if (found != ledger.cells().end()) result.rows.push_back(found->second);
      }
    }
    return result;
  }

 private:
  // The lab and the processes of the last heat serve the next one when they are the same.
  Status set_up(const Heat& heat) {
    if (lab_ != nullptr && lab_->hosts() == heat.hosts) return {};
    teams_.clear();
    lab_.reset();
    PACELINE_ASSIGN_OR_RETURN(lab_, lab::Lab::create({.shape = {.rates = heat.rates}}));
    return {};
  }

  Result<Contestant*> team(const std::string& name, int hosts) {
    const auto found = teams_.find(name);
    if (found != teams_.end()) return found->second.get();
    PACELINE_ASSIGN_OR_RETURN(auto field, make_field(options_.field, hosts, {name}));
    PACELINE_ASSIGN_OR_RETURN(auto contestant, Contestant::start(*lab_, std::move(field.front())));
    return (teams_[name] = std::move(contestant)).get();
  }

  // One turn of one entry. After an error its processes are of no use; the next time they are started again.
  Status turn(const Heat& heat, Showing& showing, double bound) {
    PACELINE_ASSIGN_OR_RETURN(Contestant * contestant, team(showing.entry.team, heat.hosts));
    const bool first = showing.expected == 0;  // only there to warm up and to know how long it takes, unless that is very long
    Trial trial{.operation = heat.operation,
                .algorithm = showing.entry.algorithm,
                .elements = heat.size.count / static_cast<std::int64_t>(sizeof(float)),
                .repetitions = first ? 1 : repetitions_for(showing.expected, options_.length),
                .warm_up = !first && showing.expected < options_.length ? 1 : 0,
                .rest = heat.rest};
    if (has_blocks(showing.entry, heat.operation)) trial.block = heat.block;
    const double longest = (std::max(showing.expected, 20 * bound) + seconds(heat.rest)) * (trial.repetitions + trial.warm_up);
    trial.deadline = std::chrono::seconds(30) + from_seconds(3 * longest);
    auto result = contestant->run(trial);
    if (!result.ok()) {
      teams_.erase(showing.entry.team);
      return result.status();
    }
    if (contestant->introduction().contains("alpha")) showing.said["links"] = contestant->introduction();
    for (const auto& [name, value] : result->said.items())
      if (name != "seconds") showing.said[name] = value;
    const double time = median(result->seconds);
    showing.expected = time;
    if (first && time < 10 * options_.length) return {};
    showing.medians.push_back(time);
    showing.repetitions += result->seconds.size();
    return {};
  }

  Status run_heat(const Heat& heat, Ledger& ledger, std::vector<std::string>& failures) {
    PACELINE_RETURN_IF_ERROR(set_up(heat));
    PACELINE_ASSIGN_OR_RETURN(const BytesPerSecond goodput, lab_->goodput(0, 1));
    const double share = goodput.value / std::min(heat.rates[0].value, heat.rates[1].value);  // of a rate, that comes through
    std::vector<BytesPerSecond> goodputs;
    for (const BytesPerSecond rate : heat.rates) {
      const bool measured = rate.value == std::min(heat.rates[0].value, heat.rates[1].value);
      goodputs.push_back(measured ? goodput : BytesPerSecond{share * rate.value});
    }
    const double bound = bound_seconds(heat.operation, goodputs, heat.size);
    std::vector<Showing> showings;
    for (const Entry& entry : heat.entries) showings.push_back({.entry = entry});
    for (int round = 0; round <= options_.turns; ++round) {
      for (std::size_t i = 0; i < showings.size(); ++i) {
        Showing& showing = showings[(i + static_cast<std::size_t>(round)) % showings.size()];
        if (!showing.failure.empty() || showing.medians.size() == static_cast<std::size_t>(options_.turns)) continue;
        const Status status = turn(heat, showing, bound);
        if (status.ok()) continue;
        if (status.kind() == ErrorKind::kCancelled || status.kind() == ErrorKind::kBadRequest) return status;
        showing.failure = status.message();
        failures.push_back(fmt::format("{}: {}", key_of(heat, showing.entry), status.message()));
      }
    }
    for (const Showing& showing : showings)
      if (showing.failure.empty()) PACELINE_RETURN_IF_ERROR(ledger.add(row_of(heat, showing, goodput, bound)));
    return {};
  }

  static Json row_of(const Heat& heat, const Showing& showing, BytesPerSecond goodput, double bound) {
    const Spread spread_of_turns = spread(showing.medians);
    const double algorithm = static_cast<double>(heat.size.count) / spread_of_turns.median;
    Json row = {
        {"key", key_of(heat, showing.entry)},
        {"operation", heat.operation},
        {"bytes", heat.size.count},
        {"hosts", heat.hosts},
        {"contestant", showing.entry.name},
        {"link_bytes_per_second", std::ranges::max(heat.rates, {}, &BytesPerSecond::value).value},
        {"goodput_bytes_per_second", goodput.value},
        {"seconds", {{"median", spread_of_turns.median}, {"lowest", spread_of_turns.lowest}, {"highest", spread_of_turns.highest}}},
        {"repetitions", showing.repetitions},
        {"bound_seconds", bound},
        {"of_bound", bound > 0 ? Json(spread_of_turns.median / bound) : Json(nullptr)},
        {"algorithm_bytes_per_second", algorithm},
        {"bus_bytes_per_second", algorithm * bus_factor(heat.operation, heat.hosts)}};
    if (std::ranges::adjacent_find(heat.rates, std::ranges::not_equal_to(), &BytesPerSecond::value) != heat.rates.end()) {
      for (const BytesPerSecond rate : heat.rates) row["host_bytes_per_second"].push_back(rate.value);
    }
    if (heat.rest > Duration::zero()) row["rest_seconds"] = seconds(heat.rest);
    if (heat.block && has_blocks(showing.entry, heat.operation)) row["block_bytes"] = heat.block->count;
    if (showing.said.contains("choice")) {
      row["choice"] = showing.said["choice"];
      row["predicted_seconds"] = showing.said["predicted"];
      row["links"] = showing.said["links"];
    }
    return row;
  }

  const CollectivesBenchOptions& options_;
  std::unique_ptr<lab::Lab> lab_;
  std::map<std::string, std::unique_ptr<Contestant>> teams_;
};

const char* formula_of(const std::string& operation, const std::string& algorithm) {
  static const std::map<std::pair<std::string, std::string>, const char*> formulas = {
      {{"broadcast", "be"}, "(lg+p-1)a + 2(p-1)/p nB"},
      {{"broadcast", "mst"}, "lg(a+nB)"},
      {{"broadcast", "lp"}, "(p-1+n/b)a + (b(p-1)+n)B"},
      {{"reduce", "be"}, "2lg a + 2(p-1)/p nB + (p-1)/p nG"},
      {{"reduce", "mst"}, "lg(a+nB+nG)"},
      {{"reduce", "lp"}, "(p-1+n/b)a + (b(p-1)+n)(B+G)"},
      {{"allreduce", "be"}, "2lg a + 2(p-1)/p nB + (p-1)/p nG"},
      {{"allreduce", "mst"}, "lg(2a+2nB+nG)"},
      {{"allreduce", "lp"}, "2(p-1+n/b)a + (b(p-1)+n)(2B+G)"}};
  const auto found = formulas.find({operation, algorithm});
  return found == formulas.end() ? "" : found->second;
}

}  // namespace

Result<CollectivesBenchResult> run_collectives_bench(const CollectivesBenchOptions& options) { return Bench(options).run(); }

Json cost_table(const std::vector<Json>& rows) {
  Json table = Json::array();
  for (const Json& row : rows) {
    const std::string name = row["contestant"], operation = row["operation"];
    const std::string algorithm = name.rfind("paceline-", 0) == 0 ? name.substr(9) : "";
    const char* formula = formula_of(operation, algorithm);
    if (*formula == '\0') continue;
    table.push_back({{"hosts", row["hosts"]},
                     {"operation", operation},
                     {"bytes", row["bytes"]},
                     {"algorithm", algorithm},
                     {"formula", formula},
                     {"predicted_seconds", row["predicted_seconds"]},
                     {"measured_seconds", row["seconds"]["median"]}});
  }
  return table;
}

}  // namespace paceline::bench
