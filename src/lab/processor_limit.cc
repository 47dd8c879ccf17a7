#include "lab/processor_limit.h"

#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace paceline::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersion1 = "/sys/fs/cgroup/cpu";
constexpr const char* kVersion2 = "/sys/fs/cgroup";
constexpr long kPeriodMicroseconds = 10'000;
constexpr const char* kPrefix = "paceline-lab-";

Status put(const std::string& file, const std::string& text) {
  errno = 0;
  std::ofstream stream(file);
  stream << text << std::flush;
  if (stream) return {};
  return error(ErrorKind::kIo, "cannot write '{}' to {}: {}", text, file, std::strerror(errno));
}

// When the process began, in ticks since the machine did; 0 when it is not there. With the pid it names a process for good.
unsigned long long start_time(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 2));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  unsigned long long ticks = 0;
  fields >> ticks;
  return ticks;
}

bool remove_group(const fs::path& folder) {
  std::ifstream processes(folder / "cgroup.procs");
  for (pid_t pid = 0; processes >> pid;) kill(pid, SIGKILL);
  return rmdir(folder.c_str()) == 0;
}

}  // namespace

Result<std::unique_ptr<ProcessorLimit>> ProcessorLimit::create(double cores) {
  static std::atomic<int> serial = 0;
  const bool first = fs::exists(fs::path(kVersion1) / "cpu.cfs_quota_us");
  const std::string folder =
      fmt::format("{}/{}{}-{}-{}", first ? kVersion1 : kVersion2, kPrefix, getpid(), start_time(getpid()), ++serial);
  const std::string quota = std::to_string(std::max(1000L, std::lround(cores * static_cast<double>(kPeriodMicroseconds))));
  if (!first) {
    // May fail where it is switched on already; writing cpu.max below shows whether it is.
    [[maybe_unused]] const Status switched_on = put(fmt::format("{}/cgroup.subtree_control", kVersion2), "+cpu");
  }
  std::error_code problem;
  if (!fs::create_directory(folder, problem)) {
    return error(ErrorKind::kBadRequest, "processors cannot be limited here: cannot make the control group {}: {}", folder,
                 problem.message());
  }
  std::unique_ptr<ProcessorLimit> limit(new ProcessorLimit(folder));
  Status status;
  if (first) {
    status = put(folder + "/cpu.cfs_period_us", std::to_string(kPeriodMicroseconds));
    if (status.ok()) status = put(folder + "/cpu.cfs_quota_us", quota);
  } else {
    status = put(folder + "/cpu.max", fmt::format("{} {}", quota, kPeriodMicroseconds));
  }
  if (!status.ok()) return error(ErrorKind::kBadRequest, "processors cannot be limited here: {}", status.message());
  return limit;
}

ProcessorLimit::~ProcessorLimit() { remove_group(folder_); }

Status ProcessorLimit::admit(pid_t process) const { return put(folder_ + "/cgroup.procs", std::to_string(process)); }

int remove_stale_limits() {
  int removed = 0;
  for (const char* root : {kVersion1, kVersion2}) {
    std::error_code problem;
    for (const fs::directory_entry& entry : fs::directory_iterator(root, problem)) {
      const std::string name = entry.path().filename();
      pid_t pid = 0;
      unsigned long long began = 0;
      if (std::sscanf(name.c_str(), "paceline-lab-%d-%llu-", &pid, &began) != 2 || start_time(pid) == began) continue;
      removed += remove_group(entry.path()) ? 1 : 0;
    }
  }
  return removed;
}

}  // namespace paceline::lab
