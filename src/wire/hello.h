// The first words of a session: bodies of the frames kHello and kHelloReply (wire/frame.h). Little-endian, fixed size; a later
// minor version may append fields, so a longer body is accepted and what follows is ignored. Golden bytes: hello_test.cc.
//
//   side that connects      kHello, without proof
//   side that listens       kHelloReply kProve with a nonce that it has never used before, or kRefused, kUnknown
//   side that connects      kHello again, with a proof
//   side that listens       kHelloReply kAccepted with a proof of its own, or kRefused, kUnknown
//
// So bytes that were recorded open nothing: each proof is an HMAC-SHA256 (base/secret.h) over what the other side has drawn for
// this connection. Its key is the job's secret, which the coordinator's welcome tells the members. Whoever has no secret yet draws
// one for this session, and tells it as `key` with its first proof; from then on only it can take the session up again.
//
//   kHello       offset 0 session u64 · 8 job u64 · 16 received u64 · 24 epoch u32 · 28 attempt u32 · 32 lowest u16
//                34 highest u16 · 36 from.roles u8 · 37 to.roles u8 · 38 resume u8 · 39 zero u8 · 40 from.rank i32 · 44 to.rank i32
//                48 from.incarnation u32 · 52 to.incarnation u32 · 56 nonce 16 bytes · 72 key 32 bytes · 104 proof 32 bytes
//                136 door u16
//   kHelloReply  offset 0 session u64 · 8 job u64 · 16 received u64 · 24 epoch u32 · 28 lowest u16 · 30 highest u16
//                32 verdict u8 · 33 from.roles u8 · 34 zero u16 · 36 from.rank i32
//                40 from.incarnation u32 · 44 zero u32 · 48 nonce 16 bytes · 64 proof 32 bytes
//                payload: the reason of a refusal, text of at most kMaxReason bytes
//
// Version 1 ended with the ranks, version 2 with the proof. The fields up to the ranks stay where they are in all versions, so that
// each can tell the other its versions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "base/status.h"
#include "wire/seat.h"

namespace paceline::wire {

// Versions of the session protocol (chunks, acknowledgements, resending) that this build speaks, beside the version of the frames.
inline constexpr std::uint16_t kLowestSession = 4;
inline constexpr std::uint16_t kHighestSession = 4;

inline constexpr std::size_t kMaxReason = 1024;

struct Hello {
  std::uint64_t session = 0;   // drawn by the side that connects, never 0
  std::uint64_t job = 0;       // 0: not known yet
  std::uint64_t received = 0;  // highest sequence received from the peer; not 0 only when the session is resumed
  std::uint32_t epoch = 0;     // 0: not known yet
  std::uint32_t attempt =
      1;  // counts the hellos of a session: an older one that was under way for long does not replace a newer one
  std::uint16_t lowest = kLowestSession, highest = kHighestSession;
  PeerName from, to;  // to.rank -1: any
  enum class Resume : std::uint8_t {
    kNo,
    kYes
  } resume = Resume::kNo;  // yes: was accepted before, so a peer without memory of it must refuse
  Nonce nonce{};           // drawn for this connection
  Secret key = kNoSecret;  // of this session, when it proves something for the first time without knowing the job's secret
  Proof proof{};           // all zero: not asked yet
  std::uint16_t door = 0;  // a port at the connecting side's address where its process listens as long as it lives; 0: none

  bool operator==(const Hello&) const = default;
};
inline constexpr std::size_t kHelloBytes = 138;

enum class Verdict : std::uint8_t {
  kAccepted,
  kRefused,  // for good; the reason says why
  kUnknown,  // a session to be resumed is not known here: this process was restarted, or has given the peer up
  kProve,    // say it again with a proof for this nonce
};

struct HelloReply {
  std::uint64_t session = 0;
  std::uint64_t job = 0;
  std::uint64_t received = 0;
  std::uint32_t epoch = 0;
  std::uint16_t lowest = kLowestSession, highest = kHighestSession;
  Verdict verdict = Verdict::kAccepted;
  PeerName from;
  Nonce nonce{};  // with kProve
  Proof proof{};  // with kAccepted

  bool operator==(const HelloReply&) const = default;
};
inline constexpr std::size_t kHelloReplyBytes = 96;

std::array<std::byte, kHelloBytes> encode(const Hello& hello);
std::array<std::byte, kHelloReplyBytes> encode(const HelloReply& reply);
// Errors: kCorrupt for a body that is too short or a value out of range. Of a side that speaks only other versions nothing behind
// the ranks is read.
Result<Hello> decode_hello(std::span<const std::byte> body);
Result<HelloReply> decode_hello_reply(std::span<const std::byte> body);

// What the sender has to put into `proof`, whose present value does not count. `challenge`: the nonce of the side that listens.
Proof proof_for(const Hello& hello, const Secret& secret, const Nonce& challenge);
Proof proof_for(const HelloReply& reply, const Secret& secret, const Hello& hello, const Nonce& challenge);

// What a peer gives as a reason, made fit for a log line: at most kMaxReason bytes, control characters replaced.
std::string printable_reason(std::span<const std::byte> text);

}  // namespace paceline::wire
