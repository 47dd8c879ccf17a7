// What peers say to each other. A message is a fixed head and a payload of any length; session/ cuts it into chunks, each of which
// carries the head again, so that a receiver can place any chunk by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::wire {

// Between whom a message passes. A session treats the messages of a channel alike; what they mean is the business of its two ends.
enum class Channel : std::uint8_t {
  kControl,     // coordinator - member
  kGradients,   // worker -> server
  kValues,      // server -> worker: the values of units, which answer gradients
  kPace,        // server -> worker: what the worker may do next
  kServers,     // server - server
  kCollective,  // rank - rank
};
inline constexpr std::uint8_t kChannels = 6;

namespace detail {
inline constexpr int kNumberBits = 5;
constexpr std::uint8_t kind_of(Channel channel, std::uint8_t number) {
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(channel) << kNumberBits | number);
}
}  // namespace detail

// The upper three bits are the channel.
enum class MessageKind : std::uint8_t {
  // control plane, payloads in wire/control.h
  kJoin = detail::kind_of(Channel::kControl, 0),
  kWelcome,
  kReady = detail::kind_of(Channel::kControl, 3),  // 2 is unused: nobody sends it any more
  kProgress,
  kReport,      // a worker's: `iteration` was its last one
  kSaved,       // server, worker -> coordinator: its part of the checkpoint of `iteration` is on the disk
  kFailed,      // a process tells the coordinator what went wrong
  kPark,        // coordinator -> worker: stand still after the iteration you are in, and say which
  kParked,      // the answer
  kProbe,       // coordinator -> member: bytes that only measure the link
  kFinishAt,    // coordinator -> all: `iteration` is the last one
  kStop,        // the coordinator ends the job: done, interrupted or failed, with the reason
  kEndAsked,    // worker -> coordinator: somebody asked this process to end, so let the job end; no payload
  kClockAsk,    // coordinator -> member: what does your clock show? `unit` is the question's number; no payload
  kClockTell,   // the answer to question `unit`; payload in wire/timeline.h
  kTimeline,    // member -> coordinator: what one of its threads has recorded; payload in wire/timeline.h
  kWorkerDone,  // coordinator -> member: worker `unit` computes nothing after `iteration`; no payload
  kLeftOut,     // worker -> coordinator: it has gone on from `iteration` without a step; no payload
  kAlike,       // worker -> coordinator: what all must have alike after `iteration`; payload as settings, in wire/control.h
  // worker -> coordinator -> worker, no payload. `iteration` 0: how far are all? Else the sender computes the gradients of it.
  // `unit`: to the coordinator, whom the answer is for; from there, who asks or answers
  kReached,

  // worker 0 -> server: the unit's initial value; behind it, or not, the optimizer's state (exchange/optimizer_state.h)
  kInitial = detail::kind_of(Channel::kGradients, 0),
  // the unit's gradient of `iteration`; without payload: nothing of it was used
  kPush,
  // the gradients of `iteration` of the units `unit` to `detail` that live there, one behind the other
  kPushes,
  // send the values of the units `unit` to `detail` (those that live there) once their versions are at least `iteration`: one as
  // kValue, several as kValues
  kPull,
  // `iteration` was my last one; send the final values when all workers are done; no payload
  kDone,
  // at which rates `iteration` is applied (exchange/told_rates.h); before the first gradient of it
  kRates,
  // in which order the sender needs its layers: an int32 for each, the one needed first in front
  kOrder,
  // send the optimizer's state of all your units, each as kState; no payload
  kStateAsked,

  // the unit's value, version `iteration` (= updates applied to it)
  kValue = detail::kind_of(Channel::kValues, 0),
  // the values of the server's units `unit` to `detail`, one behind the other
  kValues,
  // the unit has version `iteration`, which can be asked for
  kNotify,
  // the optimizer's state of the unit at version `iteration` (exchange/optimizer_state.h)
  kState,

  // mini-batch number `iteration` (from 1, each handed out once) is for your `unit`-th iteration (from 1); no payload
  kMiniBatch = detail::kind_of(Channel::kPace, 0),
  // the server's part of the verdict of `iteration` (exchange/verdict.h)
  kVerdict,

  // the server's part of the gradient's squared norm of `iteration`
  kSquareSum = detail::kind_of(Channel::kServers, 0),
  // worker `unit` runs to the end of `iteration` in the superstep that the receiver has not been told of; no payload
  kBarrier,

  // Unit, detail, flags and iteration of these hold a CollectiveHead, wire/collective.h.
  // a block of an operation, or, without payload, that the sender has begun it
  kCollective = detail::kind_of(Channel::kCollective, 0),
  // the sender has begun the operation: its blocks have a place
  kCollectiveReady,
  // no operation can go on; the payload is a Stop, wire/control.h
  kCollectiveFailed,
  // the sender has made the group; the payload is a CollectiveGroup, wire/collective.h
  kCollectiveGroup,
  // the sender begins no operation of the group after this number; no payload
  kCollectiveClosed,
};

constexpr Channel channel_of(MessageKind kind) {
  return static_cast<Channel>(static_cast<std::uint8_t>(kind) >> detail::kNumberBits);
}
// Nothing: there is no such kind.
std::optional<MessageKind> message_kind(std::uint8_t byte);
std::vector<MessageKind> all_message_kinds();

struct MessageHead {
  MessageKind kind = MessageKind::kPush;
  std::uint8_t flags = 0;    // kReport, kSaved: for which seat the sender speaks (wire/control.h)
  Layer layer;               // priority: lower first; control messages use kControlLayer
  std::uint32_t unit = 0;    // index into the job's unit plan
  std::uint32_t detail = 0;  // kPush: bit i is set when part i of the unit (scheduling/unit_plan.h) was not used and counts as
                             // zero; kPull, kValues, kPushes: the last unit meant; kValue: microseconds the server spent to
                             // aggregate and update the unit; otherwise 0
  std::int64_t iteration = 0;
  std::uint64_t payload_bytes = 0;

  bool operator==(const MessageHead&) const = default;
};

// Before every layer.
inline constexpr Layer kControlLayer{-1};
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 36;

// A chunk's body on the wire: message number (u64), offset of the chunk in the payload (u64), the head (32 bytes).
struct ChunkBody {
  std::uint64_t message = 0;  // counts the messages of a session and direction, from 1
  std::uint64_t offset = 0;
  MessageHead head;

  bool operator==(const ChunkBody&) const = default;
};
inline constexpr std::size_t kChunkBodyBytes = 48;

void encode(const ChunkBody& chunk, std::span<std::byte, kChunkBodyBytes> to);
// Errors: kCorrupt for an unknown kind, a length over kMaxMessageBytes, or an offset beyond it.
Result<ChunkBody> decode_chunk(std::span<const std::byte> body);

}  // namespace paceline::wire
