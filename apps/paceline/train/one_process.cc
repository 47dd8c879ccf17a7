#include "paceline/train/one_process.h"

#include <utility>

namespace paceline::cli {
namespace {

template <typename... Parts>
Status contradiction(fmt::format_string<Parts...> sentence, Parts&&... parts) {
  return error(ErrorKind::kBadRequest, sentence, std::forward<Parts>(parts)...);
}

Status check_reference(const TrainRequest& r) {
  if (!r.join.empty()) return contradiction("--reference trains alone; it cannot --join {}", r.join);
  if (r.settings.sync.kind != sync::SyncKind::kBsp)
    return contradiction("--reference computes --sync bsp; {} has no result that can be repeated", to_text(r.settings.sync.kind));
  if (!r.pace_file.empty()) return contradiction("--reference has no server that could see the workers' pace; leave --pace out");
  if (!r.trace_file.empty()) return contradiction("--reference is one process without a network; leave --trace out");
  if (r.settings.saving.resume || !r.settings.saving.directory.empty())
    return contradiction("--reference writes and reads no checkpoints; leave --checkpoint and --resume out");
  return {};
}

Status check_joining(const TrainRequest& r) {
  if (!r.trace_file.empty())
    return contradiction(
        "--trace {} with --join: the coordinator writes the timeline of all processes; give it to 'paceline "
        "coordinator'",
        r.trace_file);
  for (const auto& [name, file] : {std::pair("--metrics", r.metrics_file), std::pair("--pace", r.pace_file)})
    if (!file.empty() && file != "/dev/null")
      return contradiction("{0} {1} with --join writes nothing: the 'paceline train' that starts a whole job does; leave {0} out",
                           name, file);
  for (const auto& [name, given] : {std::pair("--json", r.json), std::pair("--verbose", r.verbose)})
    if (given)
      return contradiction("{} with --join prints nothing: the coordinator has the report; give it to 'paceline coordinator'",
                           name);
  return {};
}

}  // namespace

Status check_one_process(const TrainRequest& request) {
  if (request.reference) PACELINE_RETURN_IF_ERROR(check_reference(request));
  const bool joins_alone = !request.join.empty() && !request.ranks_elsewhere;
  return joins_alone ? check_joining(request) : Status();
}

}  // namespace paceline::cli
