#include "membership/alike_ledger.h"

#include <algorithm>
#include <utility>

#include "base/wrong.h"

namespace paceline::membership {
namespace {

template <typename... Args>
Status parted(fmt::format_string<Args...> format, Args&&... args) {
  return wrong(format, std::forward<Args>(args)...).because({"parted", ""});
}

// Nothing of that name: as if it were told as none.
const std::string* find(const wire::Settings& settings, std::size_t likely, const std::string& name) {
  if (likely < settings.size() && settings[likely].first == name) return &settings[likely].second;
  const auto found = std::ranges::find(settings, name, &wire::Settings::value_type::first);
  return found == settings.end() ? nullptr : &found->second;
}

struct Difference {
  std::string what, one, other;
  std::size_t more = 0;  // that differ besides
};

Difference difference(const wire::Settings& one, const wire::Settings& other) {
  Difference first;
  std::size_t count = 0;
  const auto note = [&](const std::string& what, const std::string& here, const std::string& there) {
    if (count++ == 0) first = {what, here, there};
  };
  for (std::size_t i = 0; i < one.size(); ++i) {
    const auto& [what, here] = one[i];
    const std::string* there = find(other, i, what);
    if (there == nullptr) {
      note(what, here, "not there");
    } else if (!here.empty() && !there->empty() && here != *there) {
      note(what, here, *there);
    }
  }
  for (std::size_t i = 0; i < other.size(); ++i) {
    if (find(one, i, other[i].first) == nullptr) note(other[i].first, "not there", other[i].second);
  }
  first.more = count == 0 ? 0 : count - 1;
  return first;
}

}  // namespace

Status AlikeLedger::on_left_out(Rank worker, Iteration iteration) {
  Open& open = open_[iteration];
  if (std::ranges::find(open.left_out, worker) == open.left_out.end()) open.left_out.push_back(worker);
  return on_passed(worker, iteration);
}

Status AlikeLedger::on_told(Rank worker, Iteration iteration, wire::Settings what) {
  Open& open = open_[iteration];
  PACELINE_RETURN_IF_ERROR(advance(worker, iteration));  // first: it is why what they have differs
  if (open.told.empty()) {
    open.teller = worker;
    open.told = std::move(what);
  } else if (const Difference found = difference(open.told, what); !found.what.empty()) {
    const std::string more = found.more == 0 ? std::string() : fmt::format(", and {} more differ", found.more);
    return parted(
        "ranks {} and {} train apart: after iteration {} {} is {} on rank {} and {} on rank {}{}. Every rank must make the same "
        "steps, with the same settings, from the same state",
        open.teller.value, worker.value, iteration, found.what, found.one, open.teller.value, found.other, worker.value, more);
  }
  forget();
  return {};
}

Status AlikeLedger::on_passed(Rank worker, Iteration iteration) {
  PACELINE_RETURN_IF_ERROR(advance(worker, iteration));
  forget();
  return {};
}

void AlikeLedger::forget() { open_.erase(open_.begin(), open_.lower_bound(*std::ranges::min_element(passed_))); }

Status AlikeLedger::advance(Rank worker, Iteration iteration) {
  Iteration& passed = passed_[static_cast<std::size_t>(worker.value)];
  passed = std::max(passed, iteration);
  for (const auto& [of, open] : open_) PACELINE_RETURN_IF_ERROR(check(of, open));
  return {};
}

Status AlikeLedger::check(Iteration iteration, const Open& open) const {
  if (open.left_out.empty()) return {};
  for (std::size_t rank = 0; rank < passed_.size(); ++rank) {
    const Rank other{static_cast<std::int32_t>(rank)};
    if (passed_[rank] < iteration || std::ranges::find(open.left_out, other) != open.left_out.end()) continue;
    const Rank culprit = std::ranges::min(open.left_out);
    return parted(
        "rank {} left out the step of iteration {}, and rank {} made it: they train apart from there on. All ranks leave a step "
        "out, or none does: decide by what all of them see, such as a mean gradient or a reduced loss, and let an exception end "
        "the job",
        culprit.value, iteration, other.value);
  }
  return {};
}

}  // namespace paceline::membership
