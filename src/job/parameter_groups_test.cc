#include "job/parameter_groups.h"

#include <random>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::job {
namespace {

using ::testing::HasSubstr;

// The same by the library's regular expressions.
bool fits_plainly(const std::string& pattern, const std::string& name) {
  std::string expression;
  for (const char letter : pattern) expression += letter == '*' ? ".*" : letter == '?' ? "." : std::string("[") + letter + "]";
  return std::regex_match(name, std::regex(expression));
}

TEST(ParameterGroups, APatternFitsAsItsRegularExpressionDoes) {
  std::mt19937 random(1);
  const auto word = [&](const char* letters, std::size_t kinds) {
    std::string text;
    for (std::size_t n = random() % 7; n > 0; --n) text += letters[random() % kinds];
    return text;
  };
  for (int i = 0; i < 4000; ++i) {
    const std::string pattern = word("ab.*?", 5), name = word("ab.", 3);
    EXPECT_EQ(fits(pattern, name), fits_plainly(pattern, name)) << "'" << pattern << "' '" << name << "'";
  }
}

TEST(ParameterGroups, HaveOneTextAndAreReadBack) {
  for (const auto& [typed, text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", ""},
           {"*.bias:decay=0", "*.bias:decay=0"},
           {"a:decay=1e-4,rate=0.50;b?:rate=1", "a:rate=0.5,decay=0.0001;b?:rate=1"}}) {
    const auto rules = parse_groups(typed);
    ASSERT_TRUE(rules.ok()) << rules.status().message();
    EXPECT_EQ(to_text(*rules), text);
    EXPECT_EQ(parse_groups(text).value(), *rules);
  }
  for (const char* bad : {"a", ":rate=1", "a:", "a:rate", "a:rate=x", "a:rate=-1", "a:rate=nan", "a:rate=1e7", "a:decay=inf",
                          "a:decay=1e300", "a:momentum=1", "a:rate=1;;b:rate=1"}) {
    const auto rules = parse_groups(bad);
    ASSERT_FALSE(rules.ok()) << bad;
    EXPECT_THAT(rules.status().message(), HasSubstr("PATTERN:rate=FACTOR,decay=DECAY"));
  }
}

TEST(ParameterGroups, TheFirstRuleThatFitsTakesATensorAndTheRestIsUpdatedAsEver) {
  wire::TensorTable table;
  table.layers = {"conv", "fc"};
  table.tensors = {{"conv.weight", "float32", {2}, Layer{0}, 0},
                   {"conv.bias", "float32", {2}, Layer{0}, 0},
                   {"fc.weight", "float32", {2}, Layer{1}, 0},
                   {"fc.bias", "float32", {2}, Layer{1}, 0}};
  UpdateOptions update;
  update.optimizer.weight_decay = 0.25;
  ASSERT_TRUE(assign_groups(parse_groups("*.bias:decay=0;fc.*:rate=0.5").value(), table, update).ok());
  std::vector<std::int32_t> groups;
  for (const wire::TensorInfo& tensor : table.tensors) groups.push_back(tensor.group);
  EXPECT_THAT(groups, ::testing::ElementsAre(0, 1, 2, 1));
  EXPECT_THAT(update.groups, ::testing::ElementsAre(ParameterGroup{1, 0.25}, ParameterGroup{1, 0}, ParameterGroup{0.5, 0.25}));

  const Status nothing = assign_groups(parse_groups("fc.wieght:rate=2").value(), table, update);
  EXPECT_THAT(nothing.message(), HasSubstr("'fc.wieght' (did you mean 'fc.weight'?)"));
  EXPECT_EQ(nothing.subject(), "--parameter-groups");
  EXPECT_FALSE(assign_groups(parse_groups("*:rate=2;fc.*:rate=3").value(), table, update).ok()) << "nothing is left for the second";
}

}  // namespace
}  // namespace paceline::job
