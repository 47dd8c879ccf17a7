// A rank's plan made ready to run: which messages, in which order, and what has to wait for what. Pure; any thread.
//
// A plan's rounds are one legal order, but not the fastest: the steps of a program may run as soon as no earlier one that is not
// done yet uses the same elements (runner.h looks), so that receiving, reducing and sending overlap. Three changes make that worth
// it:
// - A receive into scratch memory and the reduction that reads it become one step, which reduces straight from where the message
//   was received. It stands where the reduction stood, so sums keep their order.
// - Ring and direct are cut into segments, so that a part is sent on while the rest of it still arrives ("chunked ring").
// - With Agreement::kBeforeCompletion, unless the plan itself waits for all ranks, every rank also tells lg(ranks) others that it
//   has begun, in a pattern (rank + 1, 2, 4, ...) in which whoever has heard from all it waits for knows of all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/plan/plan.h"
#include "wire/collective.h"

namespace paceline::collectives {

// Blocks that are larger are alike until their messages meet.
inline constexpr std::uint32_t kMostCut = wire::kMostCollectiveIndex;

// When a rank may be done with an operation.
enum class Agreement {
  kBeforeCompletion,  // once all ranks have begun the same operation: a disagreement fails it on all
  kWithData,          // once its own data is there: costs no message; who is done before a disagreement is found (the root of a
                      // broadcast, the leaves of a reduce) hears of it in the next operation
};

enum class ActionKind : std::uint8_t { kSend, kReceive, kReceiveAndReduce, kReduce, kCopy };

struct Action {
  ActionKind kind = ActionKind::kSend;
  int peer = 0;
  std::uint32_t index = 0;    // of the message among those from the same sender to the same receiver
  std::int64_t elements = 0;  // of the message; 0: it says only that the sender has begun, and is the first to its receiver
  Place from;                 // kSend, kReduce, kCopy; the last two in one piece
  Place to;                   // all but kSend; kReceiveAndReduce: to = to + what was received
};

struct Program {
  int rank = 0;
  int ranks = 1;
  std::int64_t elements = 0;
  std::int64_t scratch = 0;  // elements of memory besides the buffer
  std::uint32_t cut = 1;     // elements of a block, at most kMostCut: what ranks must agree on before one of them is done
  std::vector<Action> actions;
  std::vector<std::vector<std::uint32_t>> receives;      // by peer and index of the message: the action
  std::vector<std::int64_t> elements_from, elements_to;  // by peer
};

struct ProgramRequest {
  PlanRequest plan;
  int rank = 0;
  Agreement agreement = Agreement::kBeforeCompletion;
  std::int64_t segment = 65'536;  // elements; at least 1; ring and direct
};

// Requires a valid request.
Program compile(const ProgramRequest& request);

// Parts that go straight from who gives them to who takes them, all at once: all-to-all, gather, scatter. Each part is one message,
// read in Memory::kInput and received in Memory::kBuffer, in both in the order of the ranks.
struct ExchangeRequest {
  int rank = 0;
  std::vector<std::int64_t> gives, takes;  // elements, by rank; the own part is copied
  // kAll: every rank hears something of every other one, if only that it gives nothing. kSome: parts without elements are no
  // messages, and ranks may have to agree besides.
  enum class Among { kAll, kSome } among = Among::kAll;
  Agreement agreement = Agreement::kBeforeCompletion;
};
Program compile(const ExchangeRequest& request);

}  // namespace paceline::collectives
