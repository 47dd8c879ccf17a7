#include "bench/collectives/member.h"

#include <chrono>
#include <optional>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "bench/collectives/line_socket.h"
#include "bench/collectives/pattern.h"
#include "runtime/collective_process.h"

namespace paceline::bench {
namespace {

using collectives::Call;
using collectives::CollectiveKind;
using Json = nlohmann::ordered_json;

struct Order {
  std::string operation, algorithm;
  std::int64_t elements = 0;
  int repetitions = 0, warm_up = 0;
  std::int64_t rest = 0;  // microseconds
  std::optional<Bytes> block;
};

std::optional<Order> parse(const std::string& line) {
  std::istringstream words(line);
  std::string first;
  Order order;
  words >> first >> order.operation >> order.algorithm >> order.elements >> order.repetitions >> order.warm_up >> order.rest;
  if (!words || first != "run") return std::nullopt;
  if (std::int64_t block = 0; words >> block) order.block = Bytes{block};
  return order;
}

Result<Call> call_of(const Order& order, std::vector<float>& data, const collectives::Range& part) {
  Call call{.output = data.data(), .count = order.elements};
  float* const own = data.data() + part.first;
  if (order.operation == "barrier") {
    call = {.kind = CollectiveKind::kBarrier};
  } else if (order.operation == "reduce-scatter") {
    call.kind = CollectiveKind::kReduceScatter;
    call.input = data.data();
    call.output = own;
  } else if (order.operation == "allgather") {
    call.kind = CollectiveKind::kAllgather;
    call.input = own;
  } else if (order.operation == "broadcast") {
    call.kind = CollectiveKind::kBroadcast;
  } else if (order.operation == "reduce" || order.operation == "allreduce") {
    call.kind = order.operation == "reduce" ? CollectiveKind::kReduce : CollectiveKind::kAllreduce;
    call.input = data.data();
  } else {
    return error(ErrorKind::kBadRequest, "no operation '{}'", order.operation);
  }
  call.block = order.block;
  if (order.algorithm == "best") return call;
  for (int i = 0; i <= static_cast<int>(collectives::Algorithm::kDirect); ++i) {
    const auto algorithm = static_cast<collectives::Algorithm>(i);
    if (order.algorithm == collectives::to_string(algorithm)) call.algorithm = algorithm;
  }
  if (!call.algorithm) return error(ErrorKind::kBadRequest, "no algorithm '{}'", order.algorithm);
  return call;
}

// What must stand where after the operation: this rank's view of it.
Status check(const Order& order, int rank, int ranks, std::span<const float> data) {
  const auto part_is = [&](int of, const Period& period) -> Status {
    const collectives::Range range = collectives::part_of(order.elements, ranks, of);
    const auto begin = static_cast<std::size_t>(range.first), count = static_cast<std::size_t>(range.count);
    const std::size_t wrong = first_wrong(data.subspan(begin, count), period, begin);
    if (wrong == count) return {};
    return error(ErrorKind::kCorrupt, "element {} is {}", begin + wrong, data[begin + wrong]);
  };
  if (order.operation == "barrier" || (order.operation == "reduce" && rank != 0)) return {};
  const Period result = expected_result(order.operation, ranks);
  if (order.operation == "reduce-scatter") return part_is(rank, result);
  for (int of = 0; of < ranks; ++of)
    PACELINE_RETURN_IF_ERROR(part_is(of, order.operation == "allgather" ? contribution(of) : result));
  return {};
}

Result<Json> answer(collectives::Communicator& all, const Order& order) {
  std::vector<float> data(static_cast<std::size_t>(order.elements));
  PACELINE_ASSIGN_OR_RETURN(const Call call, call_of(order, data, collectives::part_of(order.elements, all.size(), all.rank())));
  const Period own = contribution(all.rank());
  std::vector<double> times;
  Json reply;
  for (int i = -order.warm_up; i < order.repetitions; ++i) {
    fill(data, own);
    // What is measured (--rest): how long the links were idle before. The barrier below is what makes the ranks begin together.
    if (order.rest > 0) std::this_thread::sleep_for(std::chrono::microseconds(order.rest));
    PACELINE_RETURN_IF_ERROR(all.run({.kind = CollectiveKind::kBarrier}));
    const auto begin = std::chrono::steady_clock::now();
    PACELINE_ASSIGN_OR_RETURN(collectives::Request request, all.start(call));
    PACELINE_RETURN_IF_ERROR(request.wait());
    if (i >= 0) times.push_back(seconds(std::chrono::steady_clock::now() - begin));
    reply["choice"] = request.choice().text();
    reply["predicted"] = request.choice().seconds;
  }
  PACELINE_RETURN_IF_ERROR(check(order, all.rank(), all.size(), data));
  reply["seconds"] = times;
  return reply;
}

Result<LineSocket> connect_to(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const sockaddr_un address, path_address(path));
  lab::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return error(ErrorKind::kIo, "cannot reach the driver at {}", path);
  return LineSocket(std::move(socket));
}

}  // namespace

Status run_collectives_member(const MemberOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(LineSocket driver, connect_to(options.control));
  runtime::CollectiveProcessOptions process_options;
  process_options.self = Rank{options.rank};
  process_options.addresses = options.addresses;
  process_options.spin = options.spin;
  process_options.seed = static_cast<std::uint64_t>(options.rank) + 1;
  PACELINE_ASSIGN_OR_RETURN(const auto process, runtime::CollectiveProcess::connect(std::move(process_options)));
  const auto post = [&](std::function<void()> work) { process->post(std::move(work)); };
  collectives::CommunicatorOptions communicator_options;
  communicator_options.driver = &process->driver();
  if (!options.confirm) communicator_options.rules.agreement = collectives::Agreement::kWithData;
  PACELINE_ASSIGN_OR_RETURN(
      const auto calibration,
      collectives::calibrate(process->engine(), post, process->rank(), process->ranks(), communicator_options, options.compare));
  communicator_options.rules.links = calibration.links;
  communicator_options.rules.latency = calibration.latency;
  communicator_options.rules.crowding = calibration.crowding;
  communicator_options.rules.expected = calibration.expected;
  const cost::LinkCost& link = communicator_options.rules.link = calibration.fit.cost;
  collectives::Communicator all(process->engine(), post, collectives::world_group(process->rank(), process->ranks()),
                                communicator_options);
  driver.send(Json{{"rank", options.rank},
                   {"alpha", link.alpha},
                   {"beta", link.beta},
                   {"gamma", link.gamma},
                   {"latency", calibration.latency},
                   {"crowding", calibration.crowding},
                   {"residual", calibration.fit.residual},
                   {"rates", calibration.links == nullptr ? Json(nullptr) : Json(calibration.links->text())}}
                  .dump());
  while (driver.read()) {
    while (const auto line = driver.take()) {
      const auto order = parse(*line);
      if (!order) return error(ErrorKind::kBadRequest, "the driver said '{}'", *line);
      const auto reply = answer(all, *order);
      driver.send(reply.ok() ? reply->dump() : Json{{"error", reply.status().message()}}.dump());
    }
  }
  return {};
}

}  // namespace paceline::bench
