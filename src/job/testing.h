// For tests: options of a job as they are typed.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "job/option.h"

namespace paceline::job::testing {

// Expects the option to be legal.
inline void give(JobSpec& spec, std::string_view name, std::string_view text) {
  const Status status = set_option(spec, name, text);
  EXPECT_TRUE(status.ok()) << status.message();
}

inline JobSpec spec_of(std::initializer_list<std::pair<const char*, std::string>> given) {
  JobSpec spec;
  for (const auto& [name, text] : given) give(spec, name, text);
  return spec;
}

}  // namespace paceline::job::testing
