// How much of the processors a host may use: a control group per host, version 1 or 2 of them. The only thing of a lab that
// outlives its owner when that is killed, so its name says whose it is, and the next lab removes it.
#pragma once

#include <memory>
#include <string>

#include <sys/types.h>

#include "base/status.h"

namespace paceline::lab {

class ProcessorLimit {
 public:
  // `cores` > 0, e.g. 0.5: half of one processor's time in every 10 ms. Errors: kBadRequest when this machine has no controller
  // that this process may use.
  static Result<std::unique_ptr<ProcessorLimit>> create(double cores);
  ~ProcessorLimit();  // its processes must have ended
  ProcessorLimit(const ProcessorLimit&) = delete;
  ProcessorLimit& operator=(const ProcessorLimit&) = delete;

  // The process and all that it starts from here on.
  Status admit(pid_t process) const;
  const std::string& folder() const { return folder_; }

 private:
  explicit ProcessorLimit(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

// Removes the groups of owners that are gone, with the processes in them; returns how many.
int remove_stale_limits();

}  // namespace paceline::lab
