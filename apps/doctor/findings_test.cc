#include "doctor/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

HostFacts healthy() {
  HostFacts facts;
  facts.host = "10.1.0.2:4170";
  facts.way = {.own_address = "10.1.0.1",
               .interface = "eth0",
               .neighbour = true,
               .bytes_per_second = 125e6,
               .mtu = 1500,
               .segment_bytes = 1448};
  facts.there = 117e6;
  facts.back = 116e6;
  facts.several = 118e6;
  facts.round_trip = 1e-4;
  facts.release = facts.own_release = "0.1.0";
  return facts;
}

std::vector<std::string> whats(const HostFacts& facts) {
  std::vector<std::string> texts;
  for (const Finding& one : findings(facts)) texts.push_back(one.what);
  return texts;
}

TEST(Findings, ThereAreNoneOnAHealthyWay) { EXPECT_TRUE(whats(healthy()).empty()); }

TEST(Findings, ALinkBelowItsLabelNamesBoth) {
  HostFacts facts = healthy();
  facts.there = facts.back = facts.several = 11.7e6;
  EXPECT_THAT(whats(facts), testing::ElementsAre("carries 11.7 MB/s, 9 % of the 125.0 MB/s of eth0"));
  facts.label = 12.5e6;  // the user knows better
  EXPECT_TRUE(whats(facts).empty());
  facts.label = 1250e6;
  EXPECT_THAT(whats(facts), testing::ElementsAre(HasSubstr("of the 1.2 GB/s of --label")));
  facts.label.reset();
  facts.way.bytes_per_second = 0;  // a virtual interface says nothing
  EXPECT_TRUE(whats(facts).empty());
}

TEST(Findings, OneSlowDirectionIsToldFromBoth) {
  HostFacts facts = healthy();
  facts.back = 10e6;
  EXPECT_THAT(whats(facts), testing::ElementsAre("is slow in one direction: 10.0 MB/s back, 117.0 MB/s there"));
  EXPECT_THAT(findings(facts)[0].remedy, HasSubstr("10.1.0.2"));
}

TEST(Findings, SeveralConnectionsThatCarryMorePointAtOneConnectionsBuffers) {
  HostFacts facts = healthy();
  facts.there = facts.back = 40e6;
  EXPECT_THAT(whats(facts), testing::ElementsAre("carries 40.0 MB/s by one connection and 118.0 MB/s by several"));
}

TEST(Findings, ASmallMtuAtEitherEndShowsInTheSegments) {
  HostFacts facts = healthy();
  facts.way.segment_bytes = 448;
  EXPECT_THAT(whats(facts),
              testing::ElementsAre(HasSubstr("TCP segments of 448 bytes, where 1448 are usual: an MTU of about 500")));
}

TEST(Findings, AClockFarOffIsTheLeastOfAll) {
  HostFacts facts = healthy();
  facts.clock_offset = -3.2;
  facts.release = "0.2.0";
  EXPECT_THAT(whats(facts),
              testing::ElementsAre("runs paceline 0.2.0, and this machine 0.1.0", "has a clock that is 3.2 s behind"));
  facts.clock_offset = 0.5;
  EXPECT_EQ(whats(facts).size(), 1U);
}

TEST(Findings, WhereNobodyAnswersTheWayIsPartOfTheAnswer) {
  HostFacts facts = healthy();
  facts.reached = error(ErrorKind::kPeerLost, "cannot connect to 10.1.0.2:4170: Connection refused");
  ASSERT_EQ(findings(facts).size(), 1U);
  EXPECT_THAT(findings(facts)[0].what, HasSubstr("Connection refused; packets leave by eth0 (10.1.0.1)"));
  EXPECT_THAT(findings(facts)[0].remedy, HasSubstr("paceline doctor --serve 4170"));
  facts.way.gateway = "10.1.0.99";
  facts.reached = error(ErrorKind::kDeadline, "10.1.0.2:4170 did not answer within 15 s");
  EXPECT_THAT(findings(facts)[0].what, HasSubstr("through 10.1.0.99"));
  EXPECT_THAT(findings(facts)[0].remedy, HasSubstr("mend the route"));
}

TEST(Findings, TheDearestStandsFirst) {
  HostFacts facts = healthy();
  facts.back = 10e6;
  facts.way.segment_bytes = 448;
  facts.clock_offset = 5;
  const auto all = findings(facts);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_THAT(all[0].what, HasSubstr("one direction"));
  EXPECT_THAT(all[1].what, HasSubstr("segments"));
}

}  // namespace
}  // namespace paceline::cli
