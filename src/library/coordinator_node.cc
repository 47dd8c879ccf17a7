// A job's coordinator on a thread of the library.
#include "base/secret.h"
#include "library/hosting.h"
#include "library/text.h"
#include "planner/tuning/decide.h"
#include "runtime/coordinator_process.h"
#include "transport/open/open.h"

namespace paceline::library {
namespace {

constexpr std::int32_t kMostMembers = 100'000;

class CoordinatorNode final : public HostedNode {
 public:
  static constexpr const char* kType = "coordinator";

  static Result<std::shared_ptr<CoordinatorNode>> make(const paceline_place& place, const job::JobSpec& spec);
  ~CoordinatorNode() override { end({}); }
  const char* type() const override { return kType; }

  paceline_info info() const override {
    paceline_info info{};
    info.role = PACELINE_COORDINATOR;
    info.workers = workers_;
    info.servers = servers_;
    return info;
  }
  void fail(const Status& reason) override {
    post([this, reason] { process_->fail(reason); });
  }
  void interrupt() override {
    post([this] { process_->interrupt("interrupted by the user"); });
  }
  const std::string& address() const { return address_; }
  // Nothing: the job is not over.
  std::optional<std::string> report() const {
    if (!ended()) return std::nullopt;
    return report_ ? report_->dump() : "null";
  }

 private:
  using HostedNode::HostedNode;
  void leave() override { process_->fail(Status(ErrorKind::kPeerLost, "the coordinator left before the job was over")); }

  std::int32_t workers_ = 0, servers_ = 0;
  std::unique_ptr<runtime::CoordinatorProcess> process_;
  std::string address_;
  std::optional<report::Json> report_;  // once ended
};

Result<runtime::CoordinatorProcessOptions> options_of(const paceline_place& place, const job::JobSpec& spec) {
  if (place.workers < 1 || place.workers > kMostMembers)
    return refusal("illegal", "place.workers", "{} workers; legal: 1 to {}", place.workers, kMostMembers);
  if (place.servers < 0 || place.servers > kMostMembers)
    return refusal("illegal", "place.servers", "{} servers; legal: 0 to {}", place.servers, kMostMembers);
  runtime::CoordinatorProcessOptions options;
  auto& coordinator = options.coordinator;
  PACELINE_ASSIGN_OR_RETURN(coordinator.listen, place.coordinator != nullptr ? address_of(place.coordinator, "place.coordinator")
                                                                             : own_place_of(place.bind, "place.bind", {}));
  coordinator.workers = place.workers;
  coordinator.servers = place.servers;
  coordinator.silence_deadline = from_seconds(spec.limits.deadline);
  coordinator.gathering_deadline = from_seconds(spec.limits.stall_deadline);
  coordinator.release = PACELINE_VERSION;
  coordinator.job = draw_id();
  options.decide = [workers = place.workers, servers = place.servers](job::JobSpec& job, const wire::TensorTable& table,
                                                                      const runtime::Gathering& gathering) {
    return tuning::decide(job, table, workers, servers, gathering);
  };
  return options;
}

Result<std::shared_ptr<CoordinatorNode>> CoordinatorNode::make(const paceline_place& place, const job::JobSpec& spec) {
  PACELINE_ASSIGN_OR_RETURN(auto options, options_of(place, spec));
  PACELINE_ASSIGN_OR_RETURN(const auto key, key_of(place.job_key_file, place.security, {&options.coordinator.listen, 1}));
  const SignalsBlocked quiet;
  PACELINE_ASSIGN_OR_RETURN(auto transport, transport::open(options.coordinator.listen, {.key = key}));
  const std::shared_ptr<CoordinatorNode> node(new CoordinatorNode(std::move(transport)));
  node->workers_ = place.workers;
  node->servers_ = place.servers;
  options.on_ended = [&loop = node->transport().loop()] { loop.stop(); };
  node->process_ = std::make_unique<runtime::CoordinatorProcess>(node->transport(), std::move(options));
  PACELINE_ASSIGN_OR_RETURN(const transport::Address address, node->process_->start());
  node->address_ = address.text();
  node->start([node = node.get()] {
    auto [status, report] = node->process_->ending();
    node->report_ = std::move(report);
    return status;
  });
  return node;
}

}  // namespace
}  // namespace paceline::library

using namespace paceline;
using namespace paceline::library;

int32_t paceline_coordinate(const paceline_job* job, const paceline_place* place, paceline_node** node, paceline_error* error) {
  return host<CoordinatorNode>(job, place, node, error);
}

int32_t paceline_node_address(const paceline_node* node, paceline_text** address, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<CoordinatorNode>(node));
    PACELINE_RETURN_IF_ERROR(check_given(address, "address"));
    give_text(used->address(), address);
    return {};
  });
}

int32_t paceline_node_report(const paceline_node* node, paceline_text** json, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<CoordinatorNode>(node));
    PACELINE_RETURN_IF_ERROR(check_given(json, "json"));
    auto report = used->report();
    if (!report) return refusal(kOrder, "node", "the job is not over; wait for its end with paceline_finish first");
    give_text(std::move(*report), json);
    return {};
  });
}
