#include "paceline/machine.h"

#include <charconv>
#include <fstream>
#include <optional>

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace paceline::cli {
namespace {

// What stands behind "key" and a colon in the first line of a /proc file that begins with it.
std::optional<std::string> proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind(key, 0) != 0 || colon == std::string::npos) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return std::nullopt;
}

std::uint64_t number(const std::string& text, int base) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

std::int64_t memory(const char* key) {
  return static_cast<std::int64_t>(number(proc_value("/proc/meminfo", key).value_or("0"), 10)) * 1024;
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6)) continue;
    const socklen_t size = one->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    if (getnameinfo(one->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    found.push_back({one->ifa_name, text, (one->ifa_flags & IFF_UP) != 0, (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(first);
  return found;
}

}  // namespace

Machine this_machine() {
  Machine machine;
  utsname names{};
  if (uname(&names) == 0) {
    machine.name = names.nodename;
    machine.system = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
  }
  machine.processor = proc_value("/proc/cpuinfo", "model name").value_or("unknown");
  machine.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  machine.usable_cores = usable_cores();
  machine.memory_bytes = memory("MemTotal");
  machine.available_bytes = memory("MemAvailable");
  machine.interfaces = interfaces();
  machine.lab = lab::look_up_rights();
  return machine;
}

}  // namespace paceline::cli
