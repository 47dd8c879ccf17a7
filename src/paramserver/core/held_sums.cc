#include "paramserver/core/held_sums.h"

#include <algorithm>

namespace paceline::paramserver {

HeldSums::HeldSums(const job::Plan& plan, Rank server)
    : server_(server), holds_(plan.holds_updates()), units_(plan.units().moving_of(server).size()) {
  square_sums_.assign(static_cast<std::size_t>(plan.options().servers), {-1, -1});
  for (const Rank other : plan.servers_with_units()) {
    if (other != server) takers_.push_back(other);
  }
}

Status HeldSums::on_square_sum(Rank server, Iteration iteration, Iteration current) {
  if (!holds_) return error(ErrorKind::kBadRequest, "server {} sent a square sum; this job does not clip", server.value);
  if (std::ranges::find(takers_, server) == takers_.end() || units_ == 0) {
    return error(ErrorKind::kBadRequest, "a square sum came from server {} to server {}; they do not exchange any", server.value,
                 server_.value);
  }
  // A server is at most one iteration ahead: the workers push nothing of the next but one before they have this server's values.
  if (iteration != current && iteration != current + 1) {
    return error(ErrorKind::kBadRequest, "server {} sent its square sum of iteration {} during iteration {}", server.value,
                 iteration, current);
  }
  Iteration& known = square_sums_[static_cast<std::size_t>(server.value)][static_cast<std::size_t>(iteration % 2)];
  if (known == iteration)
    return error(ErrorKind::kBadRequest, "server {} sent its square sum of iteration {} twice", server.value, iteration);
  known = iteration;
  return {};
}

bool HeldSums::take_complete(Iteration iteration) {
  const auto is_there = [&](Rank other) {
    return square_sums_[static_cast<std::size_t>(other.value)][static_cast<std::size_t>(iteration % 2)] == iteration;
  };
  if (summed_ < units_ || !std::ranges::all_of(takers_, is_there)) return false;
  summed_ = 0;
  return true;
}

}  // namespace paceline::paramserver
