// N hosts with shaped links on one machine, to see on it what a job does on a slow network. Each host is a network namespace with
// one interface (script.h); congestion control is cubic, which is what clusters use.
//
// Everything is held by descriptors and child processes of the owner, so that the kernel removes it when the owner ends, however it
// ends; what the kernel does not remove (control groups), the next lab does. Several labs at once know nothing of each other.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "lab/host_process.h"
#include "lab/namespaces.h"
#include "lab/processor_limit.h"
#include "lab/script.h"
#include "lab/stream.h"

namespace paceline::lab {

struct LabOptions {
  Shape shape;                // one rate per host
  std::vector<double> cores;  // of the machine's processors, for each host; 0: no limit; empty: none has one
};

// What passed through a host's interface, headers included, packets that were dropped at its queue not.
struct Traffic {
  Bytes sent, received;
};

class Lab {
 public:
  // Needs rights (acquire_rights()). Errors: kBadRequest for options out of range or missing rights, kIo when the system refuses.
  static Result<std::unique_ptr<Lab>> create(const LabOptions& options);

  int hosts() const { return static_cast<int>(networks_.size()); }
  std::string address(int host) const;  // reachable from every host of this lab, and from nowhere else
  BytesPerSecond rate(int host) const { return options_.shape.rates[static_cast<std::size_t>(host)]; }
  int stale_limits_removed() const { return stale_limits_removed_; }

  // See HostProcess for threads.
  Result<std::unique_ptr<HostProcess>> start(HostCommand command) const;
  // The calling thread, and what it opens and starts, is on that host from here on; for a thread of one's own.
  Status enter(int host) const;
  // Runs `action` on a thread on that host, and waits for it. What it opens, such as a socket, stays there wherever it is used.
  Status on(int host, const std::function<Status()>& action) const;
  // Since the lab was made, per host. Cheap enough for every millisecond. Any thread.
  Result<std::vector<Traffic>> traffic() const;
  Result<std::unique_ptr<Stream>> stream(int from, int to, std::optional<BytesPerSecond> pace = {}) const;
  // What a plain stream gets through from one host to another; blocks for about a second, longer on links below 10 Mb/s. `period`
  // of the measurement itself.
  Result<BytesPerSecond> goodput(int from, int to, Duration period = std::chrono::milliseconds(500)) const;

 private:
  explicit Lab(LabOptions options) : options_(std::move(options)) {}
  Status build();
  Result<std::string> read_counters() const;

  LabOptions options_;
  Descriptor switch_;                 // network namespace of the bridge
  Descriptor counters_;               // /proc/net/dev of the switch
  mutable std::mutex reading_;        // held while all of it is read
  std::vector<Descriptor> networks_;  // of the hosts
  std::vector<std::unique_ptr<ProcessorLimit>> limits_;
  int stale_limits_removed_ = 0;
};

}  // namespace paceline::lab
