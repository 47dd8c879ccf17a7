// What processes tell the coordinator and hear from it: joining, the job they join, why it ends. Payloads of the control messages
// of wire/message.h. Progress and reports travel as JSON text and need no struct.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "base/secret.h"
#include "base/status.h"
#include "wire/seat.h"
#include "wire/tensor_table.h"

namespace paceline::wire {

// A job's settings as (option, text) pairs in a fixed order, as on the command line without the dashes: ("optimizer", "adam").
using Settings = std::vector<std::pair<std::string, std::string>>;

// `--optimizer: sgd against adam`; nothing when equal.
std::optional<std::string> first_difference(const Settings& a, const Settings& b);

// How long each layer of a table computes, in forward order; empty: not measured.
struct LayerSeconds {
  std::vector<double> forward, backward;  // at least 0

  bool empty() const { return forward.empty(); }
  double total() const;  // of a whole step
  bool operator==(const LayerSeconds&) const = default;
};

struct Join {
  std::int32_t wanted_rank = -1;   // -1: any
  std::int32_t world_workers = 0;  // how many the joiner expects; 0: does not know
  std::string address;             // where it listens; "" for those that do not
  std::string release;             // of the program: "0.1.0"
  TensorTable table;               // workers only
  Settings settings;               // workers only
  LayerSeconds seconds;            // workers only: what it measured of the table's layers, for `--schedule tuned`

  bool operator==(const Join&) const = default;
};

struct Welcome {
  std::int32_t rank = 0;
  std::int32_t workers = 0;
  std::uint64_t job = 0;
  std::uint32_t epoch = 0;
  std::vector<std::string> servers;  // addresses by rank
  std::vector<std::string> peers;    // of a job without servers: the workers' addresses by rank
  TensorTable table;
  Settings settings;
  // What members prove to each other (wire/hello.h), and which process has which rank: who is not named here takes no part.
  Secret secret = kNoSecret;
  std::vector<std::uint32_t> worker_incarnations, server_incarnations;  // by rank; of a process in both roles the same

  bool operator==(const Welcome&) const = default;
  std::vector<Seat> seats() const;  // of the job; incarnation 0: not said
  Role hub() const { return hub_of(servers.size()); }
  const std::vector<std::string>& hub_addresses() const { return servers.empty() ? peers : servers; }
};

enum class StopKind : std::uint8_t { kDone, kInterrupted, kFailed };

// Why the job ends, the same words for everyone. Also kFailed's payload on the way to the coordinator.
struct Stop {
  StopKind kind = StopKind::kDone;
  ErrorKind error = ErrorKind::kCancelled;  // with kFailed
  std::string reason;
  std::string code = {};  // of the error; "": its kind's

  bool operator==(const Stop&) const = default;
  Status status() const;  // success for kDone
};
Stop stop_for(const Status& status);

// The flags of kReport and kSaved say for which of its seats a process speaks: 0 its worker's, 1 its server's.
constexpr std::uint8_t flags_of(Role role) { return static_cast<std::uint8_t>(static_cast<std::uint8_t>(role) - 1); }
constexpr Role role_of(std::uint8_t flags) { return flags == 0 ? Role::kWorker : Role::kServer; }

std::vector<std::byte> encode(const Settings& settings);
std::vector<std::byte> encode(const Join& join);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Stop& stop);
// Errors: kCorrupt when bytes are missing, left over, or false.
Result<Settings> decode_settings(std::span<const std::byte> bytes);
Result<Join> decode_join(std::span<const std::byte> bytes);
Result<Welcome> decode_welcome(std::span<const std::byte> bytes);
Result<Stop> decode_stop(std::span<const std::byte> bytes);

// The largest control message a process accepts, and the largest Join of one that has not been admitted yet.
inline constexpr std::uint64_t kMaxControlBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxJoinBytes = std::uint64_t{16} << 20;

}  // namespace paceline::wire
