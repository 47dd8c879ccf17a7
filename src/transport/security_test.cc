#include "transport/security.h"

#include <gmock/gmock.h>

namespace paceline::transport {
namespace {

using ::testing::HasSubstr;

TEST(Security, OnlyTheLoopbackIsTheLoopback) {
  for (const char* const host : {"localhost", "127.0.0.1", "127.3.4.5", "::1"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* const host : {"10.0.0.1", "0.0.0.0", "::", "128.0.0.1", "127.0.0.1.example.org", "127.1",
                                 "localhost.example.org", "::ffff:10.0.0.1", "gpu07", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

TEST(Security, AFileIsThisMachinesAlone) {
  const std::vector<Address> places = {parse_address("unix:/run/job.sock").value()};
  EXPECT_TRUE(stays_on_machine(places[0]));
  EXPECT_FALSE(choose_security(Security::kAuto, {}, places).value().has_value());
  EXPECT_TRUE(choose_security(Security::kAuto, JobKey::draw(), places).value().has_value()) << "a key that is given counts";
}

TEST(Security, NamesAreReadAsTheyAreWritten) {
  for (const Security security : {Security::kAuto, Security::kPsk, Security::kNone})
    EXPECT_EQ(parse_security(to_string(security)).value(), security);
  EXPECT_THAT(parse_security("non").status().message(), HasSubstr("did you mean 'none'"));
}

TEST(Security, WhatLeavesTheMachineIsEncryptedUnlessSomebodySaysOtherwise) {
  const std::optional<JobKey> key = JobKey::draw(), none;
  const std::vector<Address> here = {{"127.0.0.1", 0}, {"localhost", 4100}}, out = {{"127.0.0.1", 0}, {"10.0.0.1", 4100}};
  const auto chosen = [](const auto& result) { return result.ok() ? (result->has_value() ? "psk" : "none") : "refused"; };
  const struct {
    Security wanted;
    const std::optional<JobKey>& key;
    const std::vector<Address>& places;
    const char* what;
  } cases[] = {
      {Security::kAuto, none, here, "none"}, {Security::kAuto, none, out, "refused"}, {Security::kAuto, key, here, "psk"},
      {Security::kAuto, key, out, "psk"},    {Security::kPsk, none, here, "refused"}, {Security::kPsk, none, out, "refused"},
      {Security::kPsk, key, here, "psk"},    {Security::kPsk, key, out, "psk"},       {Security::kNone, none, here, "none"},
      {Security::kNone, none, out, "none"},  {Security::kNone, key, here, "refused"}, {Security::kNone, key, out, "refused"},
  };
  for (const auto& one : cases) {
    const auto result = choose_security(one.wanted, one.key, one.places);
    EXPECT_STREQ(chosen(result), one.what) << to_string(one.wanted) << (one.key ? " with" : " without") << " a key";
    if (result.ok()) continue;
    EXPECT_EQ(result.status().kind(), ErrorKind::kBadRequest);
    if (one.wanted != Security::kNone) {
      EXPECT_THAT(result.status().message(), HasSubstr("paceline key new FILE"));
    }
  }
  const std::string refusal = choose_security(Security::kAuto, none, out).status().message();
  EXPECT_THAT(refusal, HasSubstr("10.0.0.1"));
  EXPECT_THAT(refusal, HasSubstr("--security none"));
}

TEST(Security, TheUsualKeyCountsWhereNoneIsGivenAndNobodyWantsNone) {
  const std::vector<Address> here = {{"127.0.0.1", 0}};
  const auto file = [](const auto& result) { return result.ok() ? std::string("none") : result.status().message(); };
  EXPECT_THAT(file(choose_security("auto", "", here, "/usual")), HasSubstr("job key /usual"));
  EXPECT_THAT(file(choose_security("auto", "/given", here, "/usual")), HasSubstr("job key /given"));
  EXPECT_EQ(file(choose_security("none", "", here, "/usual")), "none");
  EXPECT_EQ(file(choose_security("auto", "", here)), "none");
}

}  // namespace
}  // namespace paceline::transport
