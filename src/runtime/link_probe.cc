#include "runtime/link_probe.h"

#include <algorithm>
#include <array>

namespace paceline::runtime {
namespace {

struct Size {
  std::int64_t bytes;
  int messages;
};
// Together so many that a round trip counts for little. The last ones only where the link is fast, because shapers let the first
// milliseconds' worth pass at once.
constexpr std::array<Size, 4> kSizes = {{{1'024, 64}, {65'536, 16}, {262'144, 8}, {LinkProbe::kLargest.count, 16}}};
constexpr Duration kFast = std::chrono::milliseconds(40);
constexpr double kTooLong = 1.25;  // of what the fit says that the largest messages take

}  // namespace

LinkProbe::LinkProbe(std::vector<session::PeerId> members) : members_(std::move(members)) {
  if (members_.size() > kMostMembers) members_.erase(members_.begin(), members_.end() - kMostMembers);
}

std::optional<LinkProbe::Volley> LinkProbe::next(TimePoint now) {
  if (volley_ == kSizes.size() || (volley_ + 1 == kSizes.size() && last_ > kFast)) finish_member();
  if (member_ == members_.size()) return std::nullopt;
  const Size& size = kSizes[volley_];
  awaited_ = size.messages;
  began_ = now;
  return Volley{members_[member_], Bytes{size.bytes}, size.messages};
}

bool LinkProbe::on_delivered(TimePoint now) {
  if (awaited_ == 0 || --awaited_ > 0) return false;
  last_ = now - began_;
  samples_.push_back({Bytes{kSizes[volley_].bytes}, std::max(last_ / kSizes[volley_].messages, Duration(1))});
  ++volley_;
  return true;
}

void LinkProbe::finish_member() {
  if (!samples_.empty()) {
    const cost::LinkSample& largest = samples_.back();
    const cost::LinkFit of_largest{.bandwidth = {static_cast<double>(largest.bytes.count) / seconds(largest.time)}, .residual = 1};
    const auto fit = cost::fit_link(samples_);
    const auto expected = [&] { return fit->start_up + static_cast<double>(largest.bytes.count) / fit->bandwidth.value; };
    const bool fits = fit.ok() && seconds(largest.time) <= kTooLong * expected();
    const cost::LinkFit link = fits ? *fit : of_largest;
    if (!slowest_ || link.bandwidth < slowest_->bandwidth) slowest_ = link;
  }
  samples_.clear();
  volley_ = 0;
  ++member_;
}

}  // namespace paceline::runtime
