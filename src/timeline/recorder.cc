#include "timeline/recorder.h"

#include <utility>

namespace paceline::timeline {
namespace {

using wire::Happening;
using wire::MessageKind;

// Shorter waits are none.
constexpr Duration kNoWait = std::chrono::microseconds(1);

std::int64_t raw(TimePoint at) { return at.time_since_epoch().count(); }

}  // namespace

// What the training side does follows from what it asks for: a layer's forward lies between its gate and the next one, a layer's
// backward between the gradients before and its last one.
class TimelineRecorder::Training final : public exchange::GateObserver {
 public:
  explicit Training(timeline::EventRing& ring) : ring_(ring) {}

  void on_gate(Layer layer, Iteration iteration, TimePoint asked, TimePoint opened) override {
    end_forward(asked);
    iteration_ = iteration;
    mark_ = opened;
    add(Happening::kGate, layer.index, asked, opened);
    forward_ = layer.index;
  }
  void on_forward_done(TimePoint now) override { end_forward(now); }

  void on_gradient(Layer layer, TimePoint now) override {
    end_forward(now);
    if (layer.index != backward_) {
      end_backward();
      backward_ = layer.index;
      backward_begin_ = mark_;
    }
    mark_ = now;
  }
  void on_backward_done(TimePoint now) override {
    end_forward(now);
    end_backward();
  }

  void on_waited(Wait what, TimePoint asked, TimePoint over) override {
    mark_ = over;
    if (over - asked >= kNoWait) add(happening(what), 0, asked, over);
  }

 private:
  static constexpr std::int32_t kNone = -1;

  static Happening happening(Wait what) {
    switch (what) {
      case Wait::kGradients:
        return Happening::kWaitGradients;
      case Wait::kValues:
        return Happening::kWaitValues;
      case Wait::kMiniBatch:
        break;
    }
    return Happening::kWaitMiniBatch;
  }
  void add(Happening what, std::int32_t layer, TimePoint begin, TimePoint end) {
    ring_.add(
        {.what = what, .unit = static_cast<std::uint32_t>(layer), .iteration = iteration_, .begin = raw(begin), .end = raw(end)});
  }
  void end_forward(TimePoint at) {
    if (forward_ == kNone) return;
    add(Happening::kForward, std::exchange(forward_, kNone), mark_, at);
    mark_ = at;
  }
  void end_backward() {
    if (backward_ != kNone) add(Happening::kBackward, std::exchange(backward_, kNone), backward_begin_, mark_);
  }

  timeline::EventRing& ring_;
  Iteration iteration_ = 0;
  std::int32_t forward_ = kNone, backward_ = kNone;  // layers whose pass is going on
  TimePoint mark_{}, backward_begin_{};              // when what is going on began
};

class TimelineRecorder::Sender final : public session::Sender {
 public:
  Sender(TimelineRecorder& recorder, session::Sender& inner) : recorder_(recorder), inner_(inner) {}

  void send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override {
    recorder_.on_message(Happening::kQueued, to.value, head);
    inner_.send(to, head, payload, ticket);
  }
  std::optional<Duration> round_trip() const override { return inner_.round_trip(); }

 private:
  TimelineRecorder& recorder_;
  session::Sender& inner_;
};

class TimelineRecorder::End final : public session::ChannelEnd {
 public:
  End(TimelineRecorder& recorder, session::ChannelEnd& inner) : recorder_(recorder), inner_(inner) {}

  Result<std::span<std::byte>> on_message_begin(Rank from, const wire::MessageHead& head) override {
    return inner_.on_message_begin(from, head);
  }
  void on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) override {
    recorder_.on_message(Happening::kArrived, from.value, head);
    inner_.on_message(from, head, payload);
  }
  void on_delivered(Rank to, wire::Channel channel, std::uint64_t ticket) override { inner_.on_delivered(to, channel, ticket); }
  void on_peer_lost(Rank peer, wire::Channel channel, const Status& reason) override { inner_.on_peer_lost(peer, channel, reason); }

 private:
  TimelineRecorder& recorder_;
  session::ChannelEnd& inner_;
};

TimelineRecorder::TimelineRecorder() : observer_(std::make_unique<Training>(training_)) {}
TimelineRecorder::~TimelineRecorder() = default;

exchange::GateObserver& TimelineRecorder::training() { return *observer_; }

session::Sender& TimelineRecorder::sender(session::Sender& inner) {
  return *senders_.emplace_back(std::make_unique<Sender>(*this, inner));
}

session::ChannelEnd* TimelineRecorder::end(session::ChannelEnd* inner) {
  return ends_.emplace_back(std::make_unique<End>(*this, *inner)).get();
}

void TimelineRecorder::on_work(const paramserver::WorkDone& work) {
  const bool updated = work.kind == paramserver::WorkDone::Kind::kUpdated;
  static_assert(wire::kAllUnits == paramserver::WorkDone::kAllUnits);
  loop_.add({.what = updated ? Happening::kUpdate : Happening::kAggregate,
             .peer = work.worker.value,
             .unit = work.unit,
             .iteration = work.iteration,
             .begin = raw(work.begin),
             .end = raw(work.begin + work.spent)});
}

void TimelineRecorder::on_leaving(const wire::PeerName& to, const wire::MessageHead& head) {
  on_message(Happening::kLeft, to.rank.value, head);
}

void TimelineRecorder::on_message(Happening what, std::int32_t peer, const wire::MessageHead& head) {
  switch (head.kind) {
    case MessageKind::kPush:
    case MessageKind::kPushes:
    case MessageKind::kPull:
    case MessageKind::kValue:
    case MessageKind::kValues:
    case MessageKind::kNotify:
      break;
    default:
      return;
  }
  const std::int64_t now = raw(clock_.now());
  loop_.add({.what = what,
             .message = head.kind,
             .peer = peer,
             .unit = head.unit,
             .detail = head.detail,
             .iteration = head.iteration,
             .begin = now,
             .end = now});
}

std::vector<wire::TimelinePart> TimelineRecorder::parts(const std::function<std::int64_t(TimePoint)>& reading) const {
  std::vector<wire::TimelinePart> parts;
  const auto take = [&](wire::TimelineThread thread, const timeline::EventRing& ring) {
    if (ring.added() == 0) return;
    wire::TimelinePart& part = parts.emplace_back();
    part = {.thread = thread, .dropped = ring.dropped(), .events = ring.events()};
    for (wire::Event& event : part.events) {
      event.begin = reading(TimePoint(Duration(event.begin)));
      event.end = reading(TimePoint(Duration(event.end)));
    }
  };
  take(wire::TimelineThread::kTraining, training_);
  take(wire::TimelineThread::kLoop, loop_);
  return parts;
}

}  // namespace paceline::timeline
