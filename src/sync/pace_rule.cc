#include "sync/pace_rule.h"

#include "sync/bounded_lead.h"
#include "sync/elastic_bsp.h"

namespace paceline::sync {
namespace {

Status check_cluster(const PaceCluster& cluster) {
  if (cluster.first < 1) return error(ErrorKind::kBadRequest, "the first iteration is {}; legal is 1 or more", cluster.first);
  return {};
}

}  // namespace

Status PaceRule::on_barrier(Rank worker, Iteration barrier, TimePoint /*now*/, std::vector<Start>& /*starts*/) {
  return error(ErrorKind::kBadRequest, "worker {} was told of a barrier after iteration {}; {} predicts none", worker.value,
               barrier, to_text(kind()));
}

Result<std::unique_ptr<PaceRule>> make_pace_rule(const SyncOptions& options, const PaceCluster& cluster) {
  PACELINE_RETURN_IF_ERROR(validated(options).status());
  PACELINE_RETURN_IF_ERROR(check_cluster(cluster));
  if (options.kind == SyncKind::kElasticBsp) {
    auto rule = std::make_unique<ElasticBsp>(options, cluster.first);
    for (Rank worker : cluster.workers) PACELINE_RETURN_IF_ERROR(rule->add_initial(worker));
    return std::unique_ptr<PaceRule>(std::move(rule));
  }
  auto rule = std::make_unique<BoundedLead>(options);
  for (Rank worker : cluster.workers) PACELINE_RETURN_IF_ERROR(rule->on_joined(worker, cluster.first));
  return std::unique_ptr<PaceRule>(std::move(rule));
}

}  // namespace paceline::sync
