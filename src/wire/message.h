// What peers say to each other. A message is a fixed head and a payload of any length; session/ cuts it into chunks, each of which
// carries the head again, so that a receiver can place any chunk by itself.
#pragma once

#include <cstdint>
#include <span>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::wire {

enum class MessageKind : std::uint8_t {
  // parameter server
  kInitial,  // worker 0 -> server: the unit's initial value
  kPush,     // worker -> server: the unit's gradient of `iteration`; without payload: nothing of it was used
  kPull,     // worker -> server: send the values of the units `unit` to `detail` (those that live there) once their versions are at
             // least `iteration`: one as kValue, several as kValues
  kValue,    // server -> worker: the unit's value, version `iteration` (= updates applied to it)
  kValues,   // server -> worker: the values of its units `unit` to `detail`, one behind the other
  kNotify,   // server -> worker: the unit has version `iteration`, which can be asked for
  kSquareSum,  // server -> server: its part of the gradient's squared norm of `iteration`
  // control plane, payloads in wire/control.h
  kSaved,  // server, worker -> coordinator: its part of the checkpoint of `iteration` is on the disk
  kJoin,
  kWelcome,
  kRefuse,
  kReady,
  kProgress,
  kReport,
  kFailed,    // a process tells the coordinator what went wrong
  kPark,      // coordinator -> worker: stand still after the iteration you are in, and say which
  kParked,    // the answer
  kProbe,     // coordinator -> member: bytes that only measure the link
  kFinishAt,  // coordinator -> all: `iteration` is the last one
  kStop,      // the coordinator ends the job: done, interrupted or failed, with the reason
  // collectives, rank to rank; unit, detail, flags and iteration hold a CollectiveHead, wire/collective.h
  kCollective,        // a block of an operation, or, without payload, that the sender has begun it
  kCollectiveReady,   // the sender has begun the operation: its blocks have a place
  kCollectiveFailed,  // no operation can go on; the payload is a Stop, wire/control.h
  // pace (models other than BSP), without payload
  kBarrier,  // server -> server: worker `unit` runs to the end of `iteration` in the superstep that the receiver has not been told
             // of
  kMiniBatch,  // server -> worker: mini-batch number `iteration` (from 1, each handed out once) is for your `unit`-th iteration
               // (from 1)
  kDone,       // worker -> server: `iteration` was my last one; send the final values when all workers are done
  // timeline, payloads in wire/timeline.h
  kClockAsk,   // coordinator -> member: what does your clock show? `unit` is the question's number; no payload
  kClockTell,  // the answer to question `unit`
  kTimeline,   // member -> coordinator: what one of its threads has recorded
  // parameter server again
  kPushes,  // worker -> server: the gradients of `iteration` of the units `unit` to `detail` that live there, one behind the other
  // control plane again
  kEndAsked,  // worker -> coordinator: somebody asked this process to end, so let the job end; no payload
  // parameter server again
  kVerdict,  // server -> worker: its part of the verdict of `iteration` (paramserver/core/verdict.h)
};
inline constexpr MessageKind kLastMessageKind = MessageKind::kVerdict;

enum MessageFlags : std::uint8_t {
  kNoFlags = 0,
  kOfServer = 1,  // kReport, kSaved from a process that is worker and server: the server's
};

struct MessageHead {
  MessageKind kind = MessageKind::kPush;
  std::uint8_t flags = kNoFlags;
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
