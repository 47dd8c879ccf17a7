// Ranks that reduce without a job, and an operation in flight.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "collectives/exec/communicator.h"
#include "library/handles.h"
#include "runtime/collective_process.h"

namespace paceline::library {

class Ranks final : public Object {
 public:
  static constexpr const char* kType = "communicator";

  // Returns when all ranks are connected and the links are measured.
  static Result<std::shared_ptr<Ranks>> open(const paceline_communicator_options& options);
  Result<std::shared_ptr<Ranks>> group(std::int64_t id, std::span<const std::int32_t> ranks) const;
  // What the others hear of when this process leaves.
  void fail(const std::string& why) const { process_->fail(why); }
  const char* type() const override { return kType; }

  collectives::Communicator& all() { return *all_; }
  paceline_communicator_info info() const;

 private:
  // Of the communicator and all its groups.
  struct GroupIds {
    std::mutex mutex;
    std::set<std::int64_t> used;
  };

  std::shared_ptr<runtime::CollectiveProcess> process_;
  std::shared_ptr<GroupIds> ids_ = std::make_shared<GroupIds>();
  std::unique_ptr<collectives::Communicator> all_;
  paceline_link links_{};
};

class Operation final : public Object {
 public:
  static constexpr const char* kType = "request";

  Operation(std::shared_ptr<Ranks> ranks, collectives::Request request) : ranks_(std::move(ranks)), request_(std::move(request)) {}
  const char* type() const override { return kType; }

  // False: it is not over.
  Result<bool> wait(Duration limit);
  std::string choice() const;

 private:
  std::shared_ptr<Ranks> ranks_;  // outlives the request
  collectives::Request request_;
};

Result<std::shared_ptr<Operation>> begin_operation(std::shared_ptr<Ranks> ranks, const paceline_call& call);

}  // namespace paceline::library
