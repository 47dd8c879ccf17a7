// Collective operations between processes: broadcast, reduce, allreduce, reduce-scatter, allgather, barrier, over TCP.
//
//   paceline::Communicator all;
//   paceline::Outcome outcome = all.open({.rank = rank, .addresses = {"10.0.0.1:4200", "10.0.0.2:4200"}});
//   std::vector<float> gradient = ...;
//   if (outcome.ok()) outcome = paceline::allreduce(all, gradient, gradient, {.reduction = paceline::Reduction::kMean});
//   if (!outcome.ok()) std::cerr << outcome.message() << '\n';
//
// All ranks of a communicator call the same operations in the same order, with the same element type, count, reduction and root;
// otherwise all of them fail with the same message, which names two ranks and what each called. A communicator chooses algorithms
// once, when it is opened, from the measured links (Communicator::links); all ranks choose the same. Where links differ, a chain
// does not follow the ranks but puts slow hosts where they delay the others least (up to 64 ranks, and not with rank_order).
// Request::choice tells it.
//
// Errors are values; nothing throws. After an operation has failed, the communicator and its groups are of no use: every further
// call fails with the same reason. A call that makes no sense (a null buffer, a root that is no rank) is refused with
// Kind::kBadRequest before anything has begun, and harms nothing.
//
// Threads: any. Operations begin in the order of the calls, which must be the same on all ranks: where several threads call at a
// time, give each a group.
// fork(): communicators and requests stay the parent's. In the child every use of them is refused (kBadRequest) and destroying them
// does nothing; it may open others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#pragma GCC visibility push(default)  // what the library exports
namespace paceline {

enum class ElementType : std::uint8_t { kFloat32, kFloat64, kInt32, kFloat16, kBFloat16 };
enum class Reduction : std::uint8_t { kSum, kMax, kMin, kMean };  // kMean: not of kInt32
enum class Algorithm : std::uint8_t {
  kLinearPipeline,         // blocks along a chain of ranks
  kMinimumSpanningTree,    // binomial tree
  kBidirectionalExchange,  // recursive halving and doubling
  kRing,                   // allreduce, reduce-scatter, allgather
  kDirect,                 // allreduce, reduce-scatter: every rank sums its part in rank order
};

// How something ended.
class [[nodiscard]] Outcome {
 public:
  // Named by what the caller can do.
  enum class Kind : std::uint8_t {
    kOk,
    kBadRequest,  // correct the call, or make the ranks agree
    kPeerLost,    // a process died, went silent or left
    kDeadline,    // alive, but no progress within the limit
    kCancelled,
    kOverloaded,
    kCorrupt,
    kIo,  // the system refused: an address that is in use
  };

  Outcome() = default;
  Outcome(Kind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  bool ok() const { return kind_ == Kind::kOk; }
  Kind kind() const { return kind_; }
  const std::string& message() const { return message_; }  // one sentence: who, what, where, what is legal

 private:
  Kind kind_ = Kind::kOk;
  std::string message_;
};

namespace detail {
template <typename T>
constexpr ElementType element_type_of() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t>,
                "give float, double or std::int32_t; for half precision name the ElementType");
  return std::is_same_v<T, float> ? ElementType::kFloat32 : std::is_same_v<T, double> ? ElementType::kFloat64 : ElementType::kInt32;
}
}  // namespace detail

// Elements of the caller's memory, aligned to the element's size. They belong to an operation from its call to its end.
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;
  ElementType type = ElementType::kFloat32;

  Buffer() = default;
  Buffer(void* where, std::int64_t elements, ElementType of) : data(where), count(elements), type(of) {}
  template <typename T>
  Buffer(std::span<T> elements)
      : Buffer(elements.data(), static_cast<std::int64_t>(elements.size()), detail::element_type_of<T>()) {}
  template <typename T>
  Buffer(std::vector<T>& elements) : Buffer(std::span<T>(elements)) {}
};
struct ConstBuffer {
  const void* data = nullptr;
  std::int64_t count = 0;
  ElementType type = ElementType::kFloat32;

  ConstBuffer() = default;
  ConstBuffer(const void* where, std::int64_t elements, ElementType of) : data(where), count(elements), type(of) {}
  ConstBuffer(const Buffer& buffer) : ConstBuffer(buffer.data, buffer.count, buffer.type) {}
  template <typename T>
  ConstBuffer(std::span<T> elements)
      : ConstBuffer(elements.data(), static_cast<std::int64_t>(elements.size()),
                    detail::element_type_of<std::remove_const_t<T>>()) {}
  template <typename T>
  ConstBuffer(const std::vector<T>& elements) : ConstBuffer(std::span<const T>(elements)) {}
};

struct CallOptions {
  Reduction reduction = Reduction::kSum;
  int root = 0;                             // broadcast, reduce: rank in the communicator
  int priority = 0;                         // 0 or more; lower leaves first when several operations are in flight
  std::optional<Algorithm> algorithm;       // absent: the one with the least predicted time
  std::optional<std::int64_t> block_bytes;  // of kLinearPipeline, at least 1; absent: the best. Larger than the message: all of it,
                                            // and Request::choice says so
};

// What a link costs: a message of n bytes takes alpha + beta * n seconds, and gamma * n more to be added to something.
struct LinkModel {
  double alpha = 0, beta = 0, gamma = 0;
  double residual = 0;  // of the fit: root of the mean squared relative error over message sizes; 0 when given, not measured
};

struct CommunicatorOptions {
  int rank = 0;  // of this process

  // Either where each rank listens, by rank: "10.0.0.1:4200"; the same list on all ranks.
  std::vector<std::string> addresses;
  // Or where rank 0 listens and tells the others of each other, the number of ranks, and the address of this host at which the
  // others reach it (its port is the kernel's choice).
  std::string coordinator;
  int ranks = 0;
  std::string bind;  // "": 127.0.0.1, or a file beside the coordinator's

  // Add in rank order: the same bits whatever the algorithm, but for which of several NaNs. Then reduce needs the last rank as
  // root.
  bool rank_order = false;
  // A broadcast or reduce ends once all ranks have begun it, so that ranks that disagree all fail in it. `false` is faster: the
  // root of a broadcast and the leaves of a reduce do not wait, and each rank sends lg(ranks) messages fewer. But then they hear
  // of a disagreement only in their next operation.
  bool confirm = true;
  // The links' model instead of a measurement when the communicator is opened; the same on all ranks.
  std::optional<LinkModel> link;

  double connect_seconds = 30;  // for everybody to come
  double silence_seconds = 10;  // without a sign of life a rank is lost
  double stall_seconds = 600;   // the longest that an operation may take once it is waited for
  double spin_seconds = 0;      // how long a wait looks without sleeping: saves the time to wake up, costs a processor

  // The file of the key that all ranks share (docs/security.md); every connection is TLS then. Empty: what the environment variable
  // PACELINE_JOB_KEY_FILE names, if it is set. Without a key only the loopback is allowed, unless security is "none".
  std::string job_key_file;
  // Or "psk": a key; "tls": a key or a certificate; "none": in the clear. "psk,clear-data": in the clear behind a handshake.
  std::string security = "auto";
};

namespace detail {
struct CommunicatorState;
struct RequestState;
}  // namespace detail

// An operation in flight. Move only. Outlives neither its buffers nor the program.
class Request {
 public:
  Request();
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();  // waits

  // Returns when the buffers are the caller's again: how the operation ended, or why it was refused. Any number of times.
  Outcome wait();
  bool done() const;
  // "lp with blocks of 65536 bytes, predicted 0.0086 s"; where the chain does not follow the ranks also along which, and the rates
  // of the links. Empty when the call was refused.
  std::string choice() const;

 private:
  friend struct detail::RequestState;
  std::unique_ptr<detail::RequestState> state_;
};

class Communicator {
 public:
  Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();  // leaves, once what was sent has arrived and all groups and requests are gone

  // Returns when all ranks are connected and the links are measured. Errors: kBadRequest for options that make no sense or differ
  // between ranks, kIo for an address that cannot be had, kDeadline naming the ranks that did not come.
  Outcome open(const CommunicatorOptions& options);
  // Some of this communicator's ranks, ascending and with this process among them. `id`: above 0, the same on all of them, used
  // once. Ranks that give it different lists all fail with a sentence that names both.
  Outcome open_group(const Communicator& parent, std::int64_t id, const std::vector<int>& ranks);

  bool is_open() const { return state_ != nullptr; }
  int rank() const;         // -1 when not open
  int size() const;         // 0 when not open
  LinkModel links() const;  // what choices are made for: of the slowest link

 private:
  friend struct detail::CommunicatorState;
  std::shared_ptr<detail::CommunicatorState> state_;
};

// The elements of a message of `count` that belong to a rank in reduce-scatter and allgather. None for a rank that is none of
// `ranks`, such as that of a communicator that is not open.
struct Part {
  std::int64_t first = 0, count = 0;
};
Part part_of(std::int64_t count, int ranks, int rank);

// In place: the same memory as input and output; otherwise the two must not overlap. `start_…` returns at once.

// `data` of the root to all.
Request start_broadcast(Communicator& all, Buffer data, const CallOptions& options = {});
// All ranks' input, reduced, into the root's output; others may leave output empty. In place on another rank: undefined afterwards.
Request start_reduce(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options = {});
Request start_allreduce(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options = {});
// `output`: this rank's part of the reduced input; in place: its place within the input.
Request start_reduce_scatter(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options = {});
// `input`: this rank's part; in place: its place within the output.
Request start_allgather(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options = {});
// Done when all ranks have begun it.
Request start_barrier(Communicator& all);

inline Outcome broadcast(Communicator& all, Buffer data, const CallOptions& options = {}) {
  return start_broadcast(all, data, options).wait();
}
inline Outcome reduce(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options = {}) {
  return start_reduce(all, input, output, options).wait();
}
inline Outcome allreduce(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options = {}) {
  return start_allreduce(all, input, output, options).wait();
}
inline Outcome reduce_scatter(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options = {}) {
  return start_reduce_scatter(all, input, output, options).wait();
}
inline Outcome allgather(Communicator& all, ConstBuffer input, Buffer output, const CallOptions& options = {}) {
  return start_allgather(all, input, output, options).wait();
}
inline Outcome barrier(Communicator& all) { return start_barrier(all).wait(); }

}  // namespace paceline
#pragma GCC visibility pop
