// A command in a host of a lab: in its network, with process numbers, /proc and /sys of its own, so that nothing it starts outlives
// it, nor it the lab. One thread, which must live as long as the process: the kernel ends it with the thread that started it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/status.h"
#include "lab/namespaces.h"
#include "lab/processor_limit.h"

namespace paceline::lab {

struct HostCommand {
  int host = 0;
  std::vector<std::string> arguments;    // [0] is the program, searched in PATH when it has no slash
  std::vector<std::string> environment;  // "NAME=VALUE", added to this process's
};

class HostProcess {
 public:
  // `limit` may be null. Errors: kIo. A program that cannot be started is a process that says so and exits with 127.
  static Result<std::unique_ptr<HostProcess>> start(const Descriptor& network, const ProcessorLimit* limit, HostCommand command);
  ~HostProcess();  // kills it and all it has started when it still runs
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  int output() const { return output_.get(); }  // readable, non-blocking ends of its standard output and error
  int errors() const { return errors_.get(); }
  int ending() const { return ending_.get(); }  // readable once it has ended

  void signal(int number) const;  // to the command and what it started, unless in a process group of its own
  // Has it ended? Then exit_code() is the command's, or 128 + the signal that killed it, and cpu_seconds() what it used with all it
  // waited for.
  bool try_wait();
  int exit_code() const { return exit_code_; }
  double cpu_seconds() const { return cpu_seconds_; }

 private:
  HostProcess() = default;
  void collect(int options);

  pid_t pid_ = -1;
  Descriptor output_, errors_, ending_;
  bool ended_ = false;
  int exit_code_ = -1;
  double cpu_seconds_ = 0;
};

}  // namespace paceline::lab
