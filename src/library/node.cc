#include "library/node.h"

#include <csignal>
#include <cstdlib>

#include <unistd.h>

#include "base/secret.h"
#include "base/shorten.h"
#include "base/utf8.h"
#include "library/structs.h"
#include "transport/security.h"

namespace paceline::library {

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void HostedNode::start(std::function<Status()> ending) {
  const SignalsBlocked quiet;
  thread_ = std::thread([this, ending = std::move(ending)] {
    transport_->loop().run();
    Status verdict = ending();
    const std::lock_guard lock(mutex_);
    verdict_ = std::move(verdict);
    changed_.notify_all();
  });
}

bool HostedNode::ended() const {
  const std::lock_guard lock(mutex_);
  return verdict_.has_value();
}

Result<bool> HostedNode::finish(Duration limit) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return verdict_ || closing_; };
  const TimePoint now = std::chrono::steady_clock::now();
  if (limit < TimePoint::max() - now) {
    if (!changed_.wait_until(lock, now + limit, over)) return false;
  } else {
    changed_.wait(lock, over);
  }
  if (!verdict_) return Status(ErrorKind::kCancelled, "the node was closed");
  PACELINE_RETURN_IF_ERROR(*verdict_);
  return true;
}

void HostedNode::stop() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

void HostedNode::end(Duration limit) {
  if (!thread_.joinable()) return;
  if (!ended()) {
    post([this] { leave(); });
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return verdict_.has_value(); });
  }
  transport_->loop().stop();
  thread_.join();
}

Result<transport::Address> address_of(const char* text, const char* field) {
  PACELINE_RETURN_IF_ERROR(check_given(text, field));
  auto address = transport::parse_address(text);
  if (!address.ok()) return address.status().because({"illegal", field});
  return address;
}

Result<transport::Address> own_place_of(const char* bind, const char* field, const transport::Address& meeting) {
  auto place = transport::own_place(bind == nullptr ? "" : bind, meeting);
  if (!place.ok()) return place.status().because({"illegal", field});
  return place;
}

Result<std::optional<JobKey>> key_of(const char* job_key_file, const char* security, std::span<const transport::Address> places) {
  const auto text = [](const char* given) { return std::string(given == nullptr ? "" : given); };
  auto key = transport::choose_security(security == nullptr ? "auto" : security, text(job_key_file), places,
                                        text(std::getenv("PACELINE_JOB_KEY_FILE")));
  if (!key.ok()) return key.status().because({"key", key.status().code() == "unknown" ? "security" : "job_key_file"});
  return key;
}

Result<runtime::MemberOptions> member_options(const paceline_place& place, const job::JobSpec& spec) {
  runtime::MemberOptions member;
  PACELINE_ASSIGN_OR_RETURN(member.coordinator, address_of(place.coordinator, "place.coordinator"));
  if (member.coordinator.port == 0)
    return refusal("illegal", "place.coordinator", "coordinator {} has port 0; give the port at which it listens",
                   place.coordinator);
  if (place.rank < -1) return refusal("illegal", "place.rank", "rank {}; legal: 0 and more, or -1 for any", place.rank);
  if (place.workers < 0) return refusal("illegal", "place.workers", "{} workers; legal: 0 (not known) and more", place.workers);
  member.wanted_rank = place.rank;
  member.world_workers = place.workers;
  PACELINE_ASSIGN_OR_RETURN(member.listen, own_place_of(place.bind, "place.bind", member.coordinator));
  member.silence_deadline = from_seconds(spec.limits.deadline);
  member.release = PACELINE_VERSION;
  member.seed = draw_id();
  return member;
}

Result<std::optional<JobKey>> member_key(const paceline_place& place, const runtime::MemberOptions& member) {
  const transport::Address places[] = {member.coordinator, member.listen};
  return key_of(place.job_key_file, place.security, places);
}

}  // namespace paceline::library

using namespace paceline;
using namespace paceline::library;

int32_t paceline_node_info(const paceline_node* node, paceline_info* info, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Node>(node));
    PACELINE_RETURN_IF_ERROR(check_size(info, "info"));
    write_struct(used->info(), info);
    return {};
  });
}

int32_t paceline_finish(paceline_node* node, double seconds, paceline_error* error) {
  return guarded(error, [&]() -> Result<bool> {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Node>(node));
    PACELINE_ASSIGN_OR_RETURN(const Duration limit, limit_of(seconds));
    return used->finish(limit);
  });
}

int32_t paceline_fail(paceline_node* node, int32_t kind, const char* message, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Node>(node));
    PACELINE_RETURN_IF_ERROR(check_given(message, "message"));
    if (!is_error_kind(kind) || kind == PACELINE_CANCELLED)
      return refusal("illegal", "kind", "{} is no kind of a failure; legal: 1 to 7 but 4 (PACELINE_CANCELLED)", kind);
    const std::string_view said = message;
    if (said.empty() || !is_utf8(said))
      return refusal("illegal", "message", "the message is {}; it is what everybody hears",
                     said.empty() ? "empty" : "no UTF-8 text");
    used->fail(Status(error_kind_of(kind), shortened(said, sizeof(paceline_error::message) - 1)));
    return {};
  });
}

int32_t paceline_interrupt(paceline_node* node, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Node>(node));
    used->interrupt();
    return {};
  });
}
