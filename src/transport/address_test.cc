#include <gtest/gtest.h>

#include "transport/transport.h"

namespace paceline::transport {
namespace {

TEST(Address, IsReadAndWrittenInTheSameForm) {
  for (const char* const text : {"127.0.0.1:4100", "[::1]:4100", "host:0", "a-b.example.org:65535", "[fe80::1%eth0]:1"}) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address.ok()) << address.status().message();
    EXPECT_EQ(address->text(), text);
  }
  EXPECT_EQ(parse_address("[::1]:4100").value(), (Address{"::1", 4100}));
  EXPECT_EQ(parse_address("host:007").value(), (Address{"host", 7}));
}

TEST(Address, WhatIsNotOneIsRefusedAndNamed) {
  for (const char* const text :
       {"",           ":",          "host",    "host:",    ":4100",    "host:65536", "host:-1",
        "host:+1",    "host:4100x", "host: 1", "ho st:1",  "::1:4100", "::1",        "[::1]",
        "[::1",       "[::1]4100",  "[]:1",    "[host]:1", "host]:1",  "host/:1",    "host:99999999999999999999",
        "http://h:1", "host:1:2",   "ho\tst:1"}) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().kind(), ErrorKind::kBadRequest) << text;
    EXPECT_NE(address.status().message().find("'" + std::string(text) + "'"), std::string::npos) << address.status().message();
  }
}

TEST(Address, AFileIsNamedFromTheRootOnAndHasNoPort) {
  const auto address = parse_address("unix:/run/a:b/job.sock");
  ASSERT_TRUE(address.ok()) << address.status().message();
  EXPECT_EQ(address->text(), "unix:/run/a:b/job.sock");
  EXPECT_EQ(address->scheme(), "unix");
  EXPECT_EQ(parse_address("unix:4100").value(), (Address{"unix", 4100})) << "a host may be called so";
  for (const char* const text : {"unix:job.sock", "unix://run/job.sock", "unix:", "Unix:/run/job.sock", ":/run/job.sock"})
    EXPECT_FALSE(parse_address(text).ok()) << text;
}

TEST(Address, AHostAndAPortOfACommandLineArePlaces) {
  EXPECT_EQ(place_at("127.0.0.1", 4100).value(), (Address{"127.0.0.1", 4100}));
  EXPECT_EQ(place_at("unix:/run/job", 0).value(), parse_address("unix:/run/job").value());
  EXPECT_EQ(place_at("unix:/run/job", 4100).status().kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(place_at("::1", 4100).value(), (Address{"::1", 4100}));
  for (const char* const text : {"unix:job", "unix:", "[::1]", "[::1]:4100"}) {
    const Status refused = place_at(text, 0).status();
    EXPECT_EQ(refused.kind(), ErrorKind::kBadRequest) << text;
    EXPECT_EQ(refused.message().find(std::string("'") + text + "' is no place: "), 0U) << refused.message();
  }
}

TEST(Address, WhoIsToldOnlyWhereTheOthersMeetListensWhereTheyReachIt) {
  const Address port = {"10.0.0.1", 4100}, file = parse_address("unix:/run/job").value();
  EXPECT_EQ(own_place("", port).value(), (Address{"127.0.0.1", 0}));
  EXPECT_EQ(own_place("10.0.0.2", port).value(), (Address{"10.0.0.2", 0}));
  EXPECT_EQ(own_place("", file).value(), (Address{"unix:/run/job", 0}));
  EXPECT_EQ(own_place("unix:/run/other", file).value(), (Address{"unix:/run/other", 0}));
}

TEST(Address, AMemberListensWhereOthersReachIt) {
  for (const char* const host : {"0.0.0.0", "0", "0.0", "0x0", "::", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0"}) {
    EXPECT_TRUE(is_wildcard(host)) << host;
    for (const char* const meeting : {"10.0.0.1", "127.0.0.1", "node1"}) {
      const auto place = own_place(host, {meeting, 4100});
      ASSERT_FALSE(place.ok()) << host;
      EXPECT_EQ(place.status().kind(), ErrorKind::kBadRequest);
      EXPECT_EQ(place.status().message().find(std::string(host) + " names no host"), 0U) << place.status().message();
    }
    EXPECT_EQ(own_place(host, {}).value(), (Address{host, 0})) << "a coordinator is told of where it is reached";
    EXPECT_EQ(own_place(host, {"0.0.0.0", 4100}).value(), (Address{host, 0})) << "all are on this machine";
  }
  for (const char* const host : {"127.0.0.1", "1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "node1", "0.0.0.0.example.org", ""})
    EXPECT_FALSE(is_wildcard(host));
}

}  // namespace
}  // namespace paceline::transport
