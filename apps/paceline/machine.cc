#include "paceline/machine.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
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

// 0 where there is none.
double number_in(const std::string& file) {
  double number = 0;
  std::ifstream(file) >> number;
  return number;
}

int mtu_of(const std::string& name) {
  ifreq request{};
  std::copy_n(name.begin(), std::min(name.size(), std::size_t{IFNAMSIZ - 1}), request.ifr_name);
  const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool known = any >= 0 && ioctl(any, SIOCGIFMTU, &request) == 0;
  if (any >= 0) close(any);
  return known ? request.ifr_mtu : 0;
}

// Of hardware only: what a virtual interface says is no label of a link. The files may be those of another network namespace.
double label_of(const std::string& name) {
  const std::string folder = "/sys/class/net/" + name;
  std::error_code ignored;
  if (!std::filesystem::exists(folder + "/device", ignored) || number_in(folder + "/ifindex") != if_nametoindex(name.c_str()))
    return 0;
  constexpr double kMegabit = 1e6 / 8;
  return std::max(0.0, number_in(folder + "/speed")) * kMegabit;
}

int ones_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const bool v4 = mask->sa_family == AF_INET;
  const auto* bytes = v4 ? reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
                         : reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr);
  const std::span all(bytes, v4 ? sizeof(in_addr) : sizeof(in6_addr));
  return std::accumulate(all.begin(), all.end(), 0, [](int sum, unsigned char byte) { return sum + std::popcount(byte); });
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
    const std::string name = one->ifa_name;
    found.push_back({.name = name,
                     .address = text,
                     .network_bits = ones_of(one->ifa_netmask),
                     .up = (one->ifa_flags & IFF_UP) != 0,
                     .loopback = (one->ifa_flags & IFF_LOOPBACK) != 0,
                     .mtu = mtu_of(name),
                     .bytes_per_second = label_of(name)});
  }
  freeifaddrs(first);
  return found;
}

}  // namespace

Result<std::string> numeric_address(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int problem = getaddrinfo(host.c_str(), nullptr, &hints, &found); problem != 0)
    return error(ErrorKind::kBadRequest, "{} is no host: {}", host, gai_strerror(problem)).because({"no-host", ""});
  char text[NI_MAXHOST] = "";
  getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  return std::string(text);
}

Result<std::string> address_toward(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int problem = getaddrinfo(host.c_str(), "9", &hints, &found); problem != 0)
    return error(ErrorKind::kBadRequest, "{} is no host: {}", host, gai_strerror(problem)).because({"no-host", ""});
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int probe = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST];
    const bool known = connect(probe, one->ai_addr, one->ai_addrlen) == 0 &&
                       getsockname(probe, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                       getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
    close(probe);
    if (known) return std::string(text);
  }
  return error(ErrorKind::kBadRequest, "this machine has no way to {}", host).because({"unreachable", ""});
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

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
