// A doctor that answers on another machine, started there by ssh, which ends with this object.
#pragma once

#include <memory>
#include <string>

#include "paceline/ssh.h"
#include "process/child.h"
#include "transport/transport.h"

namespace paceline::cli {

struct StartedThere {
  transport::Address address;  // where it answers: the one of `host` by which this machine reaches it
  std::unique_ptr<Child> ssh;  // null: it did not start
  Status ready;                // why not
};

// `host`: a name that ssh knows, perhaps with a port for the doctor. `remote`: the program there. Errors: kBadRequest, no host.
Result<StartedThere> start_there(const std::string& host, const std::string& ssh, const std::string& remote);

}  // namespace paceline::cli
