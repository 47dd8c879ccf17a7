#include "scheduling/window_follower.h"

#include <cmath>

#include "base/check.h"

namespace paceline::scheduling {
namespace {

constexpr double kWorthAChange = 0.1;

}  // namespace

void WindowFollower::on_sent(std::uint32_t destination, TimePoint now) {
  if (on_their_way_.size() <= destination) on_their_way_.resize(destination + 1);
  if (!timed_) timed_ = {destination, on_their_way_[destination], now};
  ++on_their_way_[destination];
}

WindowFollower::Window WindowFollower::on_acknowledged(std::uint32_t destination, Bytes size, Backlog backlog, TimePoint now) {
  PACELINE_CHECK(destination < on_their_way_.size() && on_their_way_[destination] > 0, "nothing is on its way to destination {}",
                 destination);
  --on_their_way_[destination];
  if (timed_ && timed_->destination == destination && timed_->ahead-- == 0) {
    const Duration took = now - timed_->sent;
    round_trip_ = round_trip_ ? std::min(*round_trip_, took) : took;
    timed_.reset();
  }
  sample(size, backlog, now);
  const Bytes now_wanted = wanted();
  const auto difference = static_cast<double>(std::abs(now_wanted.count - window_.count));
  if (difference < kWorthAChange * static_cast<double>(window_.count)) return Window::kSame;
  window_ = now_wanted;
  return Window::kChanged;
}

void WindowFollower::set_rule(const WindowRule& rule) {
  rule_ = rule;
  window_ = wanted();
}

Bytes WindowFollower::wanted() const {
  const auto known = rate();
  return known ? window_for(rule_, *known, round_trip_.value_or(Duration{})) : rule_.size;
}

void WindowFollower::sample(Bytes size, Backlog backlog, TimePoint now) {
  if (backlog == Backlog::kNone) {
    since_.reset();
    counts_ = false;
    return;
  }
  if (!since_) {  // from this acknowledgement to another one
    since_ = now;
    bytes_ = chunks_ = 0;
    return;
  }
  bytes_ += size.count;
  ++chunks_;
  if (now - *since_ < kSampleTime || chunks_ < kSampleChunks) return;
  if (counts_) {
    last_[samples_++ % kSamples] = {static_cast<double>(bytes_), seconds(now - *since_)};
    fastest_ = std::ranges::max_element(remembered(), {}, &Sample::rate)->rate();
  }
  counts_ = true;
  since_ = now;
  bytes_ = chunks_ = 0;
}

void WindowFollower::on_removed(std::uint32_t destination) {
  if (destination < on_their_way_.size()) on_their_way_[destination] = 0;
  if (timed_ && timed_->destination == destination) timed_.reset();
}

std::optional<BytesPerSecond> WindowFollower::rate() const {
  if (samples_ == 0) return std::nullopt;
  return BytesPerSecond{fastest_};
}

std::optional<BytesPerSecond> WindowFollower::sustained() const {
  if (samples_ == 0) return std::nullopt;
  Sample sum;
  for (const Sample& sample : remembered()) {
    sum.bytes += sample.bytes;
    sum.seconds += sample.seconds;
  }
  return BytesPerSecond{sum.rate()};
}

}  // namespace paceline::scheduling
