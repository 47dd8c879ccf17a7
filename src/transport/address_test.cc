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

}  // namespace
}  // namespace paceline::transport
