#include "lab/script.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "lab/processor_limit.h"

namespace paceline::lab {
namespace {

Shape two_hosts() { return {.rates = {*parse_rate("1gbit"), *parse_rate("100mbit")}}; }

TEST(Script, BothEndsOfALinkAreShapedWithTheHostsRate) {
  // 4 ms of 1 Gb/s are 500 000 bytes and 10 ms 1.25 MB; 4 ms of 100 Mb/s are less than the least burst.
  EXPECT_EQ(switch_shaping(two_hosts()),
            "qdisc add dev port0 root tbf rate 125000000bps burst 500000b limit 1750000b\n"
            "qdisc add dev port1 root tbf rate 12500000bps burst 98304b limit 223304b\n");
  EXPECT_EQ(host_shaping(two_hosts(), 1), "qdisc add dev eth0 root tbf rate 12500000bps burst 98304b limit 223304b\n");
}

TEST(Script, ASmallerBurstHasSmallerPackets) {
  Shape shape = two_hosts();
  shape.burst = Bytes{20'000};
  EXPECT_EQ(host_shaping(shape, 1), "qdisc add dev eth0 root tbf rate 12500000bps burst 20000b limit 145000b\n");
  EXPECT_NE(host_links(shape, 1).find("link set dev eth0 gso_max_size 10000\n"), std::string::npos);
  EXPECT_TRUE(check(shape).ok());
  shape.burst = Bytes{2'000'000};
  EXPECT_EQ(host_links(shape, 1).find("gso_max_size"), std::string::npos) << "they are no larger than the kernel's";
  for (const std::int64_t burst : {0, 3'999, 16'000'001}) {
    shape.burst = Bytes{burst};
    EXPECT_EQ(check(shape).kind(), ErrorKind::kBadRequest) << burst;
  }
}

TEST(Script, AHostHasOneRouteWithCubic) {
  const std::string text = host_links(two_hosts(), 3);
  EXPECT_EQ(text.find("gso_max_size"), std::string::npos) << text;
  EXPECT_NE(text.find("address add 10.77.0.4/24 dev eth0"), std::string::npos) << text;
  EXPECT_NE(text.find("route add 10.77.0.0/24 dev eth0 src 10.77.0.4 congctl cubic"), std::string::npos) << text;
}

TEST(Script, EveryHostHasAPortAtTheBridge) {
  const std::string text = switch_links({"/a", "/b"});
  EXPECT_NE(text.find("link add port1 type veth peer name eth0 netns /b\n"), std::string::npos) << text;
  EXPECT_NE(text.find("link set dev port1 master br0 up\n"), std::string::npos) << text;
}

TEST(Script, ShapesThatCannotBeAreRefused) {
  EXPECT_TRUE(check(two_hosts()).ok());
  EXPECT_FALSE(check({}).ok());
  EXPECT_FALSE(check({.rates = std::vector<BytesPerSecond>(kMostHosts + 1, BytesPerSecond{1e6})}).ok());
  for (const double rate : {0.0, -1.0, 1e3, 1e12, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_FALSE(check({.rates = {{rate}}}).ok()) << rate;
  Shape shape = two_hosts();
  shape.queue = Duration(0);
  EXPECT_FALSE(check(shape).ok());
}

}  // namespace
}  // namespace paceline::lab
