// Two channels whose encrypted bytes pass through memory, where a test may hold, change and keep them.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "transport/tls/tls_channel.h"

namespace paceline::transport::testing {

using Bytes = std::vector<std::byte>;

// One direction.
struct Way {
  std::deque<std::byte> bytes;
  bool ended = false;
  std::size_t room = SIZE_MAX;  // that a writer finds
};

class RawEnd final : public RawStream {
 public:
  RawEnd(Way& in, Way& out) : in_(in), out_(out) {}

  Stream::Moved read_raw(std::span<std::byte> to) override {
    using Outcome = Stream::Moved::Outcome;
    if (in_.bytes.empty()) return {.outcome = in_.ended ? Outcome::kEnd : Outcome::kLater, .reason = {}};
    const std::size_t count = std::min(to.size(), in_.bytes.size());
    std::copy_n(in_.bytes.begin(), count, to.begin());
    in_.bytes.erase(in_.bytes.begin(), in_.bytes.begin() + static_cast<std::ptrdiff_t>(count));
    return {.outcome = Outcome::kSome, .bytes = count, .reason = {}};
  }
  Stream::Moved write_raw(std::span<const std::byte> from) override {
    using Outcome = Stream::Moved::Outcome;
    const std::size_t count = std::min(from.size(), out_.room);
    if (count == 0) return {.outcome = Outcome::kLater, .reason = {}};
    out_.bytes.insert(out_.bytes.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
    if (out_.room != SIZE_MAX) out_.room -= count;
    return {.outcome = Outcome::kSome, .bytes = count, .reason = {}};
  }

 private:
  Way& in_;
  Way& out_;
};

struct Pair {
  Pair(const JobKey& connects, const JobKey& accepts, const TlsOptions& options = {})
      : connecting(std::make_shared<TlsContext>(connects, options), TlsChannel::Side::kConnects, connecting_end),
        accepting(std::make_shared<TlsContext>(accepts, options), TlsChannel::Side::kAccepts, accepting_end) {}
  // Sides that mean different things.
  Pair(const JobKey& key, const TlsOptions& connects, const TlsOptions& accepts)
      : connecting(std::make_shared<TlsContext>(key, connects), TlsChannel::Side::kConnects, connecting_end),
        accepting(std::make_shared<TlsContext>(key, accepts), TlsChannel::Side::kAccepts, accepting_end) {}
  explicit Pair(const TlsOptions& options = {}) : Pair(JobKey::draw(), options) {}
  Pair(const JobKey& key, const TlsOptions& options) : Pair(key, key, options) {}

  // Until neither side gets on.
  void shake_hands() {
    for (std::size_t before = SIZE_MAX; before != there.bytes.size() + back.bytes.size() || before > 0;) {
      before = there.bytes.size() + back.bytes.size();
      if (!over(connected)) connected = connecting.shake_hands();
      if (!over(accepted)) accepted = accepting.shake_hands();
      if (over(connected) && over(accepted)) return;
      if (before == there.bytes.size() + back.bytes.size() && before == 0) return;
    }
  }
  bool established() const { return connected == TlsChannel::Next::kDone && accepted == TlsChannel::Next::kDone; }

  static bool over(TlsChannel::Next next) { return next == TlsChannel::Next::kDone || next == TlsChannel::Next::kFailed; }

  Way there, back;
  RawEnd connecting_end{back, there}, accepting_end{there, back};
  TlsChannel connecting, accepting;
  TlsChannel::Next connected = TlsChannel::Next::kRead, accepted = TlsChannel::Next::kRead;
};

inline Stream::Moved read_into(TlsChannel& channel, Bytes& to, std::size_t room = 1 << 20) {
  Bytes place(room);
  const iovec space{place.data(), place.size()};
  auto moved = channel.read({&space, 1});
  to.insert(to.end(), place.begin(), place.begin() + static_cast<std::ptrdiff_t>(moved.bytes));
  return moved;
}

inline Stream::Moved write_from(TlsChannel& channel, const Bytes& from) {
  const iovec piece{const_cast<std::byte*>(from.data()), from.size()};
  return channel.write({&piece, 1});
}

}  // namespace paceline::transport::testing
