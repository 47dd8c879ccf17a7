#include "sync/sync_model.h"

#include "sync/bounded_lead.h"
#include "sync/elastic_bsp.h"

namespace paceline::sync {
namespace {

Status check_cluster(const SyncCluster& cluster) {
  if (cluster.units < 0) return error(ErrorKind::kBadRequest, "a server has {} units; legal is 0 or more", cluster.units);
  if (cluster.first < 1) return error(ErrorKind::kBadRequest, "the first iteration is {}; legal is 1 or more", cluster.first);
  return {};
}

}  // namespace

Status SyncModel::on_barrier(Rank worker, Iteration barrier, TimePoint /*now*/, std::vector<Start>& /*starts*/) {
  return error(ErrorKind::kBadRequest, "worker {} was told of a barrier after iteration {}; {} predicts none", worker.value,
               barrier, to_text(kind()));
}

Result<std::unique_ptr<SyncModel>> make_sync_model(const SyncOptions& options, const SyncCluster& cluster) {
  PACELINE_RETURN_IF_ERROR(validated(options).status());
  PACELINE_RETURN_IF_ERROR(check_cluster(cluster));
  if (options.kind == SyncKind::kElasticBsp) {
    auto model = std::make_unique<ElasticBsp>(options, cluster.units, cluster.first);
    for (Rank worker : cluster.workers) PACELINE_RETURN_IF_ERROR(model->add_initial(worker));
    return std::unique_ptr<SyncModel>(std::move(model));
  }
  auto model = std::make_unique<BoundedLead>(options, cluster.units);
  for (Rank worker : cluster.workers) PACELINE_RETURN_IF_ERROR(model->on_joined(worker, cluster.first));
  return std::unique_ptr<SyncModel>(std::move(model));
}

}  // namespace paceline::sync
