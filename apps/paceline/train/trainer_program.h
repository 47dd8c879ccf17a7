// Starts paceline-trainer, the program with LibTorch, for work that is no job, and this program itself for jobs whose report is
// wanted: measurements.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "process/child.h"
#include "report/report.h"

namespace paceline::cli {

std::string own_path();      // of this program
std::string trainer_path();  // beside it
// kIo that says how to build it.
Status trainer_exists();

// The trainer, forking workers once it is loaded (trainer/forked_workers.h). It prints their process ids, each in a line, in the
// order of the requests, and ends; they are this process's children then.
class ForkingTrainer {
 public:
  using NamedRequest = std::pair<std::string, report::Json>;
  // `kept`: descriptors that the workers inherit.
  static Result<ForkingTrainer> start(const std::vector<NamedRequest>& requests, std::vector<int> kept);
  // To be read, waited for and ended like any child. Once.
  std::unique_ptr<Child> take_process() { return std::move(process_); }
  // The next worker, whose process id is this line.
  std::unique_ptr<Child> adopt(const std::string& line);

 private:
  struct Worker {
    std::string label;
    int output, errors;  // readable ends
  };

  std::unique_ptr<Child> process_;
  std::vector<Worker> workers_;
  std::size_t adopted_ = 0;
};

// Runs it with `request` and waits for its end. `on_line` gets every JSON object that it prints. Errors: what the trainer says went
// wrong, kBadRequest where it says so; kCancelled after Ctrl-C.
Status run_trainer(const report::Json& request, const std::function<void(const report::Json&)>& on_line);

// Runs this program with `arguments`; its standard output. Errors: what it says went wrong, kBadRequest where it says so.
Result<std::string> run_paceline(std::vector<std::string> arguments);

}  // namespace paceline::cli
