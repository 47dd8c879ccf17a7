// A server of a job on a thread of the library.
#include "library/hosting.h"
#include "runtime/node.h"
#include "transport/open/open.h"

namespace paceline::library {
namespace {

class ServerNode final : public HostedNode {
 public:
  static constexpr const char* kType = "server";

  static Result<std::shared_ptr<ServerNode>> make(const paceline_place& place, const job::JobSpec& spec);
  ~ServerNode() override { end({}); }
  const char* type() const override { return kType; }

  paceline_info info() const override {
    paceline_info info{};
    info.role = PACELINE_SERVER;
    info.rank = -1;
    return info;
  }
  void fail(const Status& reason) override {
    post([this, reason] { process_->fail(reason); });
  }
  void interrupt() override {
    post([this] { process_->interrupt(Status(ErrorKind::kCancelled, "a server was asked to end")); });
  }

 private:
  using HostedNode::HostedNode;
  void leave() override { process_->interrupt(Status(ErrorKind::kCancelled, "a server left before the job was over")); }

  std::unique_ptr<runtime::Node> process_;
  wire::Stop stop_;  // once the loop has stopped
};

Result<std::shared_ptr<ServerNode>> ServerNode::make(const paceline_place& place, const job::JobSpec& spec) {
  PACELINE_ASSIGN_OR_RETURN(const runtime::MemberOptions member, member_options(place, spec));
  PACELINE_ASSIGN_OR_RETURN(const auto key, member_key(place, member));
  const SignalsBlocked quiet;
  PACELINE_ASSIGN_OR_RETURN(auto transport, transport::open(member.coordinator, {.key = key}));
  const std::shared_ptr<ServerNode> node(new ServerNode(std::move(transport)));
  node->process_ = runtime::make_server(node->transport(), member, [node = node.get()](const wire::Stop& stop) {
    node->stop_ = stop;
    node->transport().loop().stop();
  });
  PACELINE_RETURN_IF_ERROR(node->process_->start());
  node->start([node = node.get()] { return node->stop_.status(); });
  return node;
}

}  // namespace
}  // namespace paceline::library

using namespace paceline;
using namespace paceline::library;

int32_t paceline_serve(const paceline_job* job, const paceline_place* place, paceline_node** node, paceline_error* error) {
  return host<ServerNode>(job, place, node, error);
}
