// `paceline train --resume`: what the command line does not say comes from the job that wrote the checkpoint.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "paceline/train/request.h"

namespace paceline::cli {

class EarlierJob {
 public:
  using Given = std::function<bool(const std::string& option)>;  // "--mini-batch", on the command line or in --config

  // That of the newest checkpoint in the request's --checkpoint. Nothing where there is none to ask about: without --resume, and of
  // a server, which is told everything. Errors: no checkpoint there is good, or it is of a program.
  static Result<std::optional<EarlierJob>> find(const TrainRequest& typed, Given given);

  // What was not given, taken from it.
  void fill(TrainRequest& request) const;
  // kBadRequest naming all that differs and must not. `request` may be one that contradicts itself.
  Status check(const TrainRequest& request) const;
  // One line on standard error: what was taken, and what was not though it stands there. None, when there is neither.
  void tell(const TrainRequest& request) const;

 private:
  EarlierJob(checkpoint::FoundCheckpoint found, job::JobSpec spec, Given given)
      : found_(std::move(found)), spec_(std::move(spec)), given_(std::move(given)) {}
  bool said(std::string_view option, const TrainRequest& request) const;

  checkpoint::FoundCheckpoint found_;
  job::JobSpec spec_;
  Given given_;
};

// ". The last checkpoint is ...; go on with ...", of the newest in the job's --checkpoint; "" where there is none.
std::string way_on(const job::JobSpec& job);

}  // namespace paceline::cli
