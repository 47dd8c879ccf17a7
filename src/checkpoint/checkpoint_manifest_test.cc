#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/testing_checkpoint.h"

namespace paceline::checkpoint {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(Checkpoint, NumbersThatDoNotFitAreDamageThoughTheChecksumIsRight) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  const std::string good = manifest_text(newest_good_checkpoint(files, kDirectory)->manifest);
  const auto problem = [&](const std::string& before, const std::string& after) {
    const std::size_t at = good.find(before), end = std::string_view("01234567\"\n}\n").size();
    EXPECT_NE(at, std::string::npos) << before;
    std::string text = std::string(good).replace(at, before.size(), after);
    text.resize(text.size() - end);
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(text.data(), text.size())));
    return parse_manifest(fmt::format("{}{:08x}\"\n}}\n", text, crc), "x").status().message();
  };
  EXPECT_EQ(problem("\"workers\": ", "\"workers\": "), "");
  for (const char* number : {"4294967298", "2.5", "-1", "0", "18446744073709551615", "\"2\"", "null"})
    EXPECT_THAT(problem("\"workers\": ", fmt::format("\"workers\": {}, \"was\": ", number)),
                HasSubstr(fmt::format("'workers' is {}", number)));
  EXPECT_THAT(problem("\"servers\": ", "\"servers\": -1, \"was\": "), HasSubstr("'servers' is -1"));
  EXPECT_THAT(problem("\"group\": ", "\"group\": 999999999999, \"was\": "), HasSubstr("'group' is 999999999999"));
}

}  // namespace
}  // namespace paceline::checkpoint
