#include "transport/faulty/faulty_stream.h"

#include <algorithm>

namespace paceline::transport {
namespace {

void flip(std::span<std::byte> bytes, std::size_t bit) { bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8)); }

}  // namespace

FaultyStream::FaultyStream(std::shared_ptr<FaultPlan> plan, Loop& loop, std::unique_ptr<Connection> inner)
    : plan_(std::move(plan)), loop_(loop), inner_(std::move(inner)), ends_(inner_->ends()) {}

void FaultyStream::start(ConnectionHandler& handler) {
  if (!usable()) return;
  handler_ = &handler;
  inner_->start(*this);
}

void FaultyStream::admit() {
  if (usable()) inner_->admit();
}

void FaultyStream::close() {
  if (!usable()) return;
  end_wait();
  held_.clear();
  closed_ = true;
  doomed_ = true;  // for frames that come later
  inner_->close();
}

void FaultyStream::abandon() {
  if (usable()) end_wait();
  handler_ = nullptr;
  inner_.reset();
  held_.clear();
  leaving_.clear();
}

void FaultyStream::send(const wire::SealedHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  const std::size_t longest = plan_->options().longest_frame;
  stuck_ = stuck_ || (longest > 0 && head.size + payload.size() > longest);
  if (!usable() || doomed_ || stuck_) return;
  held_.push_back({head, payload, ticket, plan_->draw(head.size, payload.size())});
  if (held_.size() == 1) pump();
}

void FaultyStream::pump() {
  while (usable() && !doomed_ && !held_.empty() && may_leave(held_.front())) {
    Held next = held_.front();
    held_.pop_front();
    pass(next);
  }
}

bool FaultyStream::may_leave(Held& held) {
  if (timer_) return false;
  Duration wait;
  if (held.fate.delay) {
    wait = *std::exchange(held.fate.delay, std::nullopt);
    plan_->counters.delays.fetch_add(1);
  } else if (std::exchange(held.fate.wait_for_others, false)) {
    wait = plan_->options().longest_delay;
    waits_for_others_ = true;
    plan_->waiting.push_back(weak_from_this());
  } else {
    return true;
  }
  timer_ = loop_.run_after(wait, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    if (self->waits_for_others_) self->plan_->counters.delays.fetch_add(1);  // nobody came
    self->end_wait();
    self->pump();
  });
  return false;
}

void FaultyStream::end_wait() {
  if (timer_) loop_.cancel(*timer_);
  timer_.reset();
  waits_for_others_ = false;
}

void FaultyStream::wake_others() {
  auto waiting = std::exchange(plan_->waiting, {});
  for (const auto& weak : waiting) {
    const auto other = weak.lock();
    if (other == nullptr || !other->waits_for_others_) continue;
    if (other.get() == this) {
      plan_->waiting.push_back(weak);
      continue;
    }
    plan_->counters.reorderings.fetch_add(1);
    other->end_wait();
    // Behind this frame, which the inner connection may still be about to take.
    loop_.post([weak] {
      if (const auto self = weak.lock()) self->pump();
    });
  }
}

void FaultyStream::pass(Held& held) {
  if (held.fate.cut == Fate::Cut::kBefore) {
    doomed_ = true;
    held_.clear();
    if (leaving_.empty()) cut();
    return;
  }
  Leaving leaving;
  std::span<const std::byte> payload = held.payload;
  if (held.fate.flip_head) {
    flip(held.head.bytes, *held.fate.flip_head);
    plan_->counters.corruptions.fetch_add(1);
  }
  if (held.fate.flip_payload) {
    leaving.corrupted.assign(payload.begin(), payload.end());
    flip(leaving.corrupted, *held.fate.flip_payload);
    payload = leaving.corrupted;
    plan_->counters.corruptions.fetch_add(1);
  }
  if (held.fate.cut == Fate::Cut::kInside) {
    leaving.whole = false;
    const std::size_t of_head = std::min<std::size_t>(held.fate.cut_at, held.head.size);
    held.head.size = static_cast<std::uint32_t>(of_head);
    payload = payload.first(held.fate.cut_at - of_head);
  }
  if (held.fate.cut != Fate::Cut::kNone) {
    doomed_ = true;
    held_.clear();
  }
  leaving_.push_back(std::move(leaving));
  inner_->send(held.head, payload, held.ticket);
  wake_others();
}

void FaultyStream::cut() {
  if (inner_ == nullptr || closed_ || std::exchange(cut_, true)) return;
  plan_->counters.cuts.fetch_add(1);
  inner_->close();
}

std::span<std::byte> FaultyStream::on_head(const wire::FrameHeader& header, std::span<const std::byte> body) {
  return handler_->on_head(header, body);
}

void FaultyStream::on_frame(const Frame& frame) { handler_->on_frame(frame); }

void FaultyStream::on_sent(std::uint64_t ticket) {
  const auto self = shared_from_this();
  const Leaving gone = std::move(leaving_.front());
  leaving_.pop_front();
  if (gone.whole && handler_ != nullptr) handler_->on_sent(ticket);
  if (doomed_ && leaving_.empty()) cut();
}

void FaultyStream::on_closed(const Status& reason) {
  const auto self = shared_from_this();
  if (plan_->alive) end_wait();
  held_.clear();
  leaving_.clear();
  doomed_ = true;
  if (handler_ == nullptr) return;
  ConnectionHandler& handler = *std::exchange(handler_, nullptr);
  handler.on_closed(cut_ ? error(ErrorKind::kPeerLost, "lost {}: the connection was cut", ends_.peer) : reason);
}

}  // namespace paceline::transport
