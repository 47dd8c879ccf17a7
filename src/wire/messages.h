// The messages of a job with servers: one struct a kind. Its fields say what unit, detail and iteration of the head are there; a
// field that is not named is 0. The struct is the kind's row of the table too:
//
//   channel    channel_of(kKind); it says who sends and who receives
//   payload    kPayload
//   urgency    of the layer of `unit`, in the order that the worker has told; without a `unit` before every layer (unit_of)
//
// Ledgers take these structs and answer with them; only here a head becomes one, or one a head. To add one: its kind in message.h,
// its struct, and its name in Message. Then on() of whoever receives it, which deliver() finds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/quantity.h"
#include "base/status.h"
#include "wire/message.h"
#include "wire/seat.h"

namespace paceline::wire {

enum class Payload : std::uint8_t { kNever, kMay, kMust };

// --- worker -> server ---

// The unit's initial value, from worker 0; behind it, or not, the optimizer's state (exchange/optimizer_state.h).
struct Initial {
  static constexpr MessageKind kKind = MessageKind::kInitial;
  static constexpr Payload kPayload = Payload::kMust;
  std::uint32_t unit = 0;
  Iteration iteration = 0;  // the one before the first
  static constexpr auto kFields = std::tuple(&Initial::unit, nullptr, &Initial::iteration);
};

// The unit's gradient; without payload: nothing of it was used.
struct Push {
  static constexpr MessageKind kKind = MessageKind::kPush;
  static constexpr Payload kPayload = Payload::kMay;
  std::uint32_t unit = 0;
  std::uint32_t unused_parts = 0;  // bit i: part i of the unit (scheduling/unit_plan.h) was not used and counts as zero
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(&Push::unit, &Push::unused_parts, &Push::iteration);
};

// The gradients of the units `unit` to `last` that live there, one behind the other; all parts of all of them were used.
struct Pushes {
  static constexpr MessageKind kKind = MessageKind::kPushes;
  static constexpr Payload kPayload = Payload::kMust;
  std::uint32_t unit = 0, last = 0;
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(&Pushes::unit, &Pushes::last, &Pushes::iteration);
  bool valid() const { return unit < last; }
};

// Send the values of the units `unit` to `last` that live there once their versions are at least `iteration`: one as Value, several
// as Values.
struct Pull {
  static constexpr MessageKind kKind = MessageKind::kPull;
  static constexpr Payload kPayload = Payload::kNever;
  std::uint32_t unit = 0, last = 0;
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(&Pull::unit, &Pull::last, &Pull::iteration);
  bool valid() const { return unit <= last; }
};

// `iteration` was my last one; send the final values when all workers are done.
struct Done {
  static constexpr MessageKind kKind = MessageKind::kDone;
  static constexpr Payload kPayload = Payload::kNever;
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(nullptr, nullptr, &Done::iteration);
};

// At which rates `iteration` is applied (exchange/told_rates.h); before the first gradient of it.
struct Rates {
  static constexpr MessageKind kKind = MessageKind::kRates;
  static constexpr Payload kPayload = Payload::kMust;
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(nullptr, nullptr, &Rates::iteration);
};

// In which order the sender needs its layers: an int32 for each, the one needed first in front. Who hears it says what is wrong
// with an order of nothing.
struct Order {
  static constexpr MessageKind kKind = MessageKind::kOrder;
  static constexpr Payload kPayload = Payload::kMay;
  static constexpr auto kFields = std::tuple(nullptr, nullptr, nullptr);
};

// Send the optimizer's state of all your units, each as State.
struct StateAsked {
  static constexpr MessageKind kKind = MessageKind::kStateAsked;
  static constexpr Payload kPayload = Payload::kNever;
  static constexpr auto kFields = std::tuple(nullptr, nullptr, nullptr);
};

// --- server -> worker: what answers gradients ---

// The unit's value.
struct Value {
  static constexpr MessageKind kKind = MessageKind::kValue;
  static constexpr Payload kPayload = Payload::kMust;
  std::uint32_t unit = 0;
  std::uint32_t update_micros = 0;  // that the server spent to aggregate and update the unit
  Iteration iteration = 0;          // its label (paramserver/core/value_ledger.h)
  static constexpr auto kFields = std::tuple(&Value::unit, &Value::update_micros, &Value::iteration);
};

// The values of the sender's units `unit` to `last`, one behind the other.
struct Values {
  static constexpr MessageKind kKind = MessageKind::kValues;
  static constexpr Payload kPayload = Payload::kMust;
  std::uint32_t unit = 0, last = 0;
  Iteration iteration = 0;  // as in Value
  static constexpr auto kFields = std::tuple(&Values::unit, &Values::last, &Values::iteration);
  bool valid() const { return unit <= last; }
};

// The unit has the value labelled `iteration`, which can be asked for.
struct Notify {
  static constexpr MessageKind kKind = MessageKind::kNotify;
  static constexpr Payload kPayload = Payload::kNever;
  std::uint32_t unit = 0;
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(&Notify::unit, nullptr, &Notify::iteration);
};

// The optimizer's state of the unit at version `iteration` (exchange/optimizer_state.h).
struct State {
  static constexpr MessageKind kKind = MessageKind::kState;
  static constexpr Payload kPayload = Payload::kMust;
  std::uint32_t unit = 0;
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(&State::unit, nullptr, &State::iteration);
};

// --- server -> worker: what the worker may do next ---

// Mini-batch `number`, each handed out once, is for your `count`-th iteration; both from 1.
struct MiniBatch {
  static constexpr MessageKind kKind = MessageKind::kMiniBatch;
  static constexpr Payload kPayload = Payload::kNever;
  std::uint32_t count = 0;
  std::int64_t number = 0;
  static constexpr auto kFields = std::tuple(&MiniBatch::count, nullptr, &MiniBatch::number);
};

// The server's part of the verdict of `iteration` (exchange/verdict.h).
struct VerdictPart {
  static constexpr MessageKind kKind = MessageKind::kVerdict;
  static constexpr Payload kPayload = Payload::kMust;
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(nullptr, nullptr, &VerdictPart::iteration);
};

// --- server -> server ---

// The server's part of the gradient's squared norm of `iteration`.
struct SquareSum {
  static constexpr MessageKind kKind = MessageKind::kSquareSum;
  static constexpr Payload kPayload = Payload::kMust;
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(nullptr, nullptr, &SquareSum::iteration);
};

// The worker runs to the end of `iteration` in the superstep that the receiver has not been told of.
struct Barrier {
  static constexpr MessageKind kKind = MessageKind::kBarrier;
  static constexpr Payload kPayload = Payload::kNever;
  std::uint32_t worker = 0;
  Iteration iteration = 0;
  static constexpr auto kFields = std::tuple(&Barrier::worker, nullptr, &Barrier::iteration);
};

// Small and without pointers: ledgers keep and copy them.
using Message = std::variant<Initial, Push, Pushes, Pull, Done, Rates, Order, StateAsked, Value, Values, Notify, State, MiniBatch,
                             VerdictPart, SquareSum, Barrier>;

// --- heads ---

MessageHead head_of(const Message& message, Layer layer = kControlLayer, std::uint64_t payload_bytes = 0);

// Nothing: no message of these, or not as its struct says (a flag, a field that it does not name, a payload that does not belong to
// it, units in the wrong order).
std::optional<Message> message_of(const MessageHead& head);

// kBadRequest: "worker 1 sent server 0 a message it does not take: kind ...".
// `to` heard it, from that rank at the other end of the message's channel.
Status not_taken(const MessageHead& head, Rank from, const Seat& to);

namespace detail {
template <typename... Is>
constexpr std::array<MessageKind, sizeof...(Is)> kinds_of(std::type_identity<std::variant<Is...>>) {
  return {Is::kKind...};
}
inline constexpr auto kKinds = kinds_of(std::type_identity<Message>());
}  // namespace detail

inline MessageKind kind_of(const Message& message) { return detail::kKinds[message.index()]; }
inline Channel channel_of(const Message& message) { return channel_of(kind_of(message)); }

// The unit whose layer says how urgent the message is.
inline std::optional<std::uint32_t> unit_of(const Message& message) {
  return std::visit(
      [](const auto& is) -> std::optional<std::uint32_t> {
        if constexpr (requires { is.unit; })
          return is.unit;
        else
          return std::nullopt;
      },
      message);
}

// --- receivers ---

// Whether `Taker` has on(from, message, more...) for a message of type `Is`; on_begin(): its payload begins to come.
template <typename Taker, typename Is, typename... More>
concept Takes = requires(Taker& taker, const Is& is, More&... more) { taker.on(Rank{}, is, more...); };
template <typename Taker, typename Is, typename... More>
concept TakesPayload = requires(Taker& taker, const Is& is, More&... more) { taker.on_begin(Rank{}, is, more...); };

// Calls on() of `taker` for the message's own type. Nothing: it takes no such message.
template <typename Taker, typename... More>
std::optional<Status> deliver(Taker& taker, Rank from, const Message& message, More&&... more) {
  return std::visit(
      [&]<typename Is>(const Is& is) -> std::optional<Status> {
        if constexpr (Takes<Taker, Is, More...>)
          return taker.on(from, is, more...);
        else
          return std::nullopt;
      },
      message);
}

// The same with on_begin(), whose answer is an `Answer`.
template <typename Answer, typename Taker, typename... More>
std::optional<Answer> deliver_begin(Taker& taker, Rank from, const Message& message, More&&... more) {
  return std::visit(
      [&]<typename Is>(const Is& is) -> std::optional<Answer> {
        if constexpr (TakesPayload<Taker, Is, More...>)
          return taker.on_begin(from, is, more...);
        else
          return std::nullopt;
      },
      message);
}

}  // namespace paceline::wire
