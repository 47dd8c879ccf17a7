#include "runtime/timeline_recorder.h"

#include <type_traits>

namespace paceline::runtime {
namespace {

using wire::Happening;
using wire::MessageKind;

// Shorter waits are none.
constexpr Duration kNoWait = std::chrono::microseconds(1);

std::int64_t raw(TimePoint at) { return at.time_since_epoch().count(); }

}  // namespace

// What the training thread does follows from what it asks for: a layer's forward lies between its gate and the next one, a layer's
// backward between the gradients before and its last one.
class TimelineRecorder::Exchange final : public paramserver::GradientExchange {
 public:
  Exchange(TimelineRecorder& recorder, std::unique_ptr<GradientExchange> inner)
      : clock_(recorder.clock_), ring_(recorder.training_), inner_(std::move(inner)) {}

  Status start() override { return inner_->start(); }

  Status wait_layer(Layer layer, Iteration iteration) override {
    const TimePoint asked = clock_.now();
    end_forward(asked);
    Status status = inner_->wait_layer(layer, iteration);
    iteration_ = iteration;
    mark_ = clock_.now();
    add(Happening::kGate, layer.index, asked, mark_);
    forward_ = layer.index;
    return status;
  }

  void forward_done() override {
    end_forward(clock_.now());
    inner_->forward_done();
  }

  Status wait_gradients_free() override {
    const TimePoint asked = clock_.now();
    end_forward(asked);
    Status status = inner_->wait_gradients_free();
    end_wait(Happening::kWaitGradients, asked);
    return status;
  }

  Status gradient_ready(std::uint32_t tensor) override {
    const TimePoint now = clock_.now();
    end_forward(now);
    const auto& tensors = plan().table().tensors;
    if (tensor < tensors.size() && tensors[tensor].layer.index != backward_) {
      end_backward();
      backward_ = tensors[tensor].layer.index;
      backward_begin_ = mark_;
    }
    mark_ = now;
    return inner_->gradient_ready(tensor);
  }

  Status backward_done(Iteration iteration, std::span<const std::uint32_t> unused) override {
    end_forward(clock_.now());
    end_backward();
    return inner_->backward_done(iteration, unused);
  }

  Status wait_all(Iteration iteration) override {
    return waited(Happening::kWaitValues, [&] { return inner_->wait_all(iteration); });
  }
  Status finish(Iteration last) override {
    return waited(Happening::kWaitValues, [&] { return inner_->finish(last); });
  }
  Result<std::int64_t> next_mini_batch() override {
    return waited(Happening::kWaitMiniBatch, [&] { return inner_->next_mini_batch(); });
  }

  Status wait_gradients_free(Layer layer) override { return inner_->wait_gradients_free(layer); }
  bool gradients_free(Layer layer) override { return inner_->gradients_free(layer); }
  TimePoint opened_at(Layer layer) override { return inner_->opened_at(layer); }
  const paramserver::JobPlan& plan() const override { return inner_->plan(); }
  void cancel(const Status& reason) override { inner_->cancel(reason); }
  void read_ahead(std::function<void(std::int64_t)> reader) override { inner_->read_ahead(std::move(reader)); }
  std::optional<scheduling::LiveProfile::Plan> batches() override { return inner_->batches(); }
  paramserver::Account take_account() override { return inner_->take_account(); }

 private:
  static constexpr std::int32_t kNone = -1;

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
  void end_wait(Happening what, TimePoint asked) {
    mark_ = clock_.now();
    if (mark_ - asked >= kNoWait) add(what, 0, asked, mark_);
  }
  template <typename Call>
  std::invoke_result_t<Call> waited(Happening what, Call call) {
    const TimePoint asked = clock_.now();
    auto result = call();
    end_wait(what, asked);
    return result;
  }

  const Clock& clock_;
  timeline::EventRing& ring_;
  std::unique_ptr<GradientExchange> inner_;
  Iteration iteration_ = 0;
  std::int32_t forward_ = kNone, backward_ = kNone;  // layers whose pass is going on
  TimePoint mark_{}, backward_begin_{};              // when what is going on began
};

class TimelineRecorder::Outbox final : public paramserver::Outbox {
 public:
  Outbox(TimelineRecorder& recorder, paramserver::Outbox& inner) : recorder_(recorder), inner_(inner) {}

  void send_to_worker(Rank worker, const wire::MessageHead& head, std::span<const std::byte> payload,
                      std::uint64_t ticket) override {
    recorder_.on_message(Happening::kQueued, worker.value, head);
    inner_.send_to_worker(worker, head, payload, ticket);
  }
  void send_to_server(Rank server, const wire::MessageHead& head, std::span<const std::byte> payload,
                      std::uint64_t ticket) override {
    recorder_.on_message(Happening::kQueued, server.value, head);
    inner_.send_to_server(server, head, payload, ticket);
  }
  std::optional<Duration> round_trip() const override { return inner_.round_trip(); }

 private:
  TimelineRecorder& recorder_;
  paramserver::Outbox& inner_;
};

class TimelineRecorder::Sink final : public paramserver::MessageSink {
 public:
  Sink(TimelineRecorder& recorder, paramserver::MessageSink& inner) : recorder_(recorder), inner_(inner) {}

  Result<std::span<std::byte>> on_message_begin(const session::PeerName& from, const wire::MessageHead& head) override {
    return inner_.on_message_begin(from, head);
  }
  void on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) override {
    recorder_.on_message(Happening::kArrived, from.rank.value, head);
    inner_.on_message(from, head, payload);
  }
  void on_delivered(const session::PeerName& to, std::uint64_t ticket) override { inner_.on_delivered(to, ticket); }
  void on_peer_lost(const session::PeerName& peer, const Status& reason) override { inner_.on_peer_lost(peer, reason); }

 private:
  TimelineRecorder& recorder_;
  paramserver::MessageSink& inner_;
};

TimelineRecorder::TimelineRecorder() = default;
TimelineRecorder::~TimelineRecorder() = default;

std::unique_ptr<paramserver::GradientExchange> TimelineRecorder::exchange(std::unique_ptr<paramserver::GradientExchange> inner) {
  return std::make_unique<Exchange>(*this, std::move(inner));
}

paramserver::Outbox& TimelineRecorder::outbox(paramserver::Outbox& inner) {
  return *outboxes_.emplace_back(std::make_unique<Outbox>(*this, inner));
}

paramserver::MessageSink* TimelineRecorder::sink(paramserver::MessageSink* inner) {
  return sinks_.emplace_back(std::make_unique<Sink>(*this, *inner)).get();
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

void TimelineRecorder::on_leaving(const session::PeerName& to, const wire::MessageHead& head) {
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
    for (wire::TimelineEvent& event : part.events) {
      event.begin = reading(TimePoint(Duration(event.begin)));
      event.end = reading(TimePoint(Duration(event.end)));
    }
  };
  take(wire::TimelineThread::kTraining, training_);
  take(wire::TimelineThread::kLoop, loop_);
  return parts;
}

}  // namespace paceline::runtime
