// What a process is told that is to be a worker or the reference of a job. Its parent hands it on out of sight of lists of
// processes (process/handed_text.h); the one argument is {"rank": R, "request": DESCRIPTOR}, where those lists find who it is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/job_key.h"
#include "base/status.h"
#include "job/option.h"
#include "process/handed_text.h"
#include "report/report.h"
#include "runtime/member.h"

namespace paceline::worker {

struct WorkerRequest {
  job::JobSpec settings;
  std::string data_root;
  std::int32_t workers = 0;  // 0: takes the coordinator's number
  bool reference = false;    // prints progress lines and the report, one JSON object per line; what follows does not count then
  std::string coordinator;   // HOST:PORT
  std::int32_t rank = -1;    // -1: the coordinator chooses
  std::uint64_t seed = 1;    // differs between processes
  std::string label = "worker";
  std::string role = "worker";      // or "both": a worker and a server
  std::string bind = "127.0.0.1";   // where it listens, with "both" or without servers
  std::int32_t prefetch = 2;        // mini-batches read ahead
  std::int32_t loader_threads = 1;  // that read them
  std::string job_key;              // where the job's key is to be read (base/job_key_file.h); "": in the clear
  bool alone = false;               // nobody else looks after this process: signals end it
};

std::string encode(const WorkerRequest& request);
// The settings are validated. Errors: kBadRequest.
Result<WorkerRequest> decode_worker_request(const std::string& text);

// The argument of a process that is told by `handed`.
std::string argument_of(std::int32_t rank, const HandedText& handed);
// What stands behind such an argument: the text of the request. Errors: kBadRequest.
Result<std::string> text_behind(const std::string& argument);

// The key that is told, or nothing.
Result<std::optional<JobKey>> job_key(const WorkerRequest& request);

// How the process joins with `table`.
Result<runtime::MemberOptions> member_options(const WorkerRequest& request, wire::TensorTable table);

// What --reference prints while it runs, and its end: the report, and kCancelled when a signal stopped it early.
void print_reference_progress(const report::Json& progress);
using RunReference = std::function<Result<std::vector<report::WorkerReport>>(const std::function<bool()>& stopped)>;
Status print_reference(const WorkerRequest& request, const RunReference& run);

// 0, 2, 130 or 1, after one line of error when there is one.
int exit_code(const Status& status);

}  // namespace paceline::worker
