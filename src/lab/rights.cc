#include "lab/rights.h"

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

#include <fmt/ranges.h>
#include <linux/capability.h>
#include <sched.h>
#include <unistd.h>

namespace paceline::lab {
namespace {

std::string program(const char* name) {
  for (const char* folder : {"/usr/sbin", "/sbin", "/usr/bin", "/bin"}) {
    std::string path = fmt::format("{}/{}", folder, name);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::uint64_t effective_capabilities() {
  constexpr std::string_view kKey = "CapEff:\t";
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(kKey, 0) != 0) continue;
    std::uint64_t value = 0;
    std::from_chars(line.data() + kKey.size(), line.data() + line.size(), value, 16);
    return value;
  }
  return 0;
}

bool may_make_user_namespaces() {
  const auto says_none = [](const char* path) {
    std::ifstream file(path);
    std::uint64_t value = 1;
    return file >> value && value == 0;
  };
  return !says_none("/proc/sys/user/max_user_namespaces") && !says_none("/proc/sys/kernel/unprivileged_userns_clone");
}

Status write_file(const char* path, const std::string& text) {
  errno = 0;
  std::ofstream file(path);
  file << text << std::flush;
  if (file) return {};
  return error(ErrorKind::kBadRequest, "the lab cannot write {}: {}; start it as root", path, std::strerror(errno));
}

}  // namespace

Rights look_up_rights() {
  Rights rights;
  rights.ip = program("ip");
  rights.tc = program("tc");
  const std::uint64_t effective = effective_capabilities();
  std::vector<const char*> missing;
  if ((effective >> CAP_SYS_ADMIN & 1) == 0) missing.push_back("CAP_SYS_ADMIN");
  if ((effective >> CAP_NET_ADMIN & 1) == 0) missing.push_back("CAP_NET_ADMIN");
  if (missing.empty()) {
    rights.namespaces = true;
    rights.reason = "has the capabilities CAP_SYS_ADMIN and CAP_NET_ADMIN";
  } else if (may_make_user_namespaces()) {
    rights.namespaces = rights.user_namespace = true;
    rights.reason = fmt::format("lacks {}, but user namespaces are allowed", fmt::join(missing, " and "));
  } else {
    rights.reason = fmt::format("lacks {}, and user namespaces are switched off; start it as root", fmt::join(missing, " and "));
  }
  return rights;
}

Status acquire_rights() {
  const Rights rights = look_up_rights();
  if (!rights.namespaces)
    return error(ErrorKind::kBadRequest, "the lab cannot make hosts here: this process {}", rights.reason)
        .because({"no-rights", ""});
  for (const auto& [path, name] : {std::pair(&rights.ip, "ip"), std::pair(&rights.tc, "tc")}) {
    if (path->empty())
      return error(ErrorKind::kBadRequest, "the lab needs the program '{}', which is not installed; install iproute2", name)
          .because({"not-installed", ""});
  }
  if (!rights.user_namespace) return {};
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWUSER) != 0) {
    return error(ErrorKind::kBadRequest,
                 "the lab cannot make hosts here: this process {}, yet one cannot be made: {}; start it as root", rights.reason,
                 std::strerror(errno))
        .because({"no-rights", ""});
  }
  PACELINE_RETURN_IF_ERROR(write_file("/proc/self/setgroups", "deny"));
  PACELINE_RETURN_IF_ERROR(write_file("/proc/self/uid_map", fmt::format("0 {} 1", user)));
  return write_file("/proc/self/gid_map", fmt::format("0 {} 1", group));
}

}  // namespace paceline::lab
