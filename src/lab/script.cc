#include "lab/script.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace paceline::lab {
namespace {

constexpr Bytes kLeastBurst{4'000}, kMostBurst{16'000'000};
constexpr std::int64_t kUsualPacket = 65'536;  // at most, on a host's way through the kernel

std::string bucket(const char* device, const Shape& shape, int host) {
  const BytesPerSecond rate = shape.rates[static_cast<std::size_t>(host)];
  const std::int64_t burst = burst_of(shape, rate).count;
  // tc's "bps" are bytes per second. The limit of bytes that wait: what the bucket lets through at once and what the queue holds.
  const std::int64_t limit = burst + std::llround(rate.value * seconds(shape.queue));
  return fmt::format("qdisc add dev {} root tbf rate {}bps burst {}b limit {}b\n", device, std::llround(rate.value), burst, limit);
}

}  // namespace

Status check(const Shape& shape) {
  if (shape.rates.empty() || shape.rates.size() > kMostHosts)
    return error(ErrorKind::kBadRequest, "a lab of {} hosts; legal: 1 to {}", shape.rates.size(), kMostHosts);
  for (const BytesPerSecond rate : shape.rates) {
    if (!(rate.value >= 125e3 && rate.value <= 12.5e9))
      return error(ErrorKind::kBadRequest, "a link of {}; legal: 1mbit to 100gbit", to_text(rate));
  }
  if (shape.queue < std::chrono::milliseconds(1) || shape.queue > std::chrono::seconds(10))
    return error(ErrorKind::kBadRequest, "a link's queue of {}; legal: 1ms to 10s", to_text(shape.queue));
  if (shape.burst && (*shape.burst < kLeastBurst || *shape.burst > kMostBurst))
    return error(ErrorKind::kBadRequest, "a link's burst of {}; legal: {} to {}", to_text(*shape.burst), to_text(kLeastBurst),
                 to_text(kMostBurst));
  return {};
}

std::string address(int host) { return fmt::format("10.77.0.{}", host + 1); }

Bytes burst_of(const Shape& shape, BytesPerSecond rate) {
  return shape.burst.value_or(Bytes{std::max<std::int64_t>(std::llround(rate.value * 0.004), std::int64_t{96} * 1024)});
}

std::string switch_links(const std::vector<std::string>& namespaces) {
  std::string text = "link add br0 type bridge\nlink set dev br0 addrgenmode none\nlink set dev br0 up\n";
  for (std::size_t host = 0; host < namespaces.size(); ++host) {
    text += fmt::format("link add port{} type veth peer name eth0 netns {}\n", host, namespaces[host]);
    text += fmt::format("link set dev port{} addrgenmode none\nlink set dev port{} master br0 up\n", host, host);
  }
  return text;
}

std::string switch_shaping(const Shape& shape) {
  std::string text;
  for (std::size_t host = 0; host < shape.rates.size(); ++host)
    text += bucket(fmt::format("port{}", host).c_str(), shape, static_cast<int>(host));
  return text;
}

std::string host_links(const Shape& shape, int host) {
  const bool small = shape.burst && shape.burst->count / 2 < kUsualPacket;
  const std::string packets = small ? fmt::format("link set dev eth0 gso_max_size {}\n", shape.burst->count / 2) : "";
  // The route is replaced to say cubic whatever the machine's default is.
  return packets + fmt::format(
                       "link set dev lo up\nlink set dev eth0 addrgenmode none\naddress add {0}/24 dev eth0 noprefixroute\nlink "
                       "set dev eth0 up\n"
                       "route add 10.77.0.0/24 dev eth0 src {0} congctl cubic\n",
                       address(host));
}

std::string host_shaping(const Shape& shape, int host) { return bucket("eth0", shape, host); }

}  // namespace paceline::lab
