// A data set's name on the command line, taken apart without a look into files.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paceline::trainer::data {

// A kind of data set, as listed by `paceline datasets`.
struct Kind {
  std::string name;      // what stands before the colon, e.g. "cifar-10"
  std::string argument;  // what stands after it, e.g. "DIR"; "" = takes none
  std::string about;     // one line for people
};
std::span<const Kind> kinds();

struct Spec {
  std::string whole;     // for messages
  std::string kind;      // one of kinds()
  std::string argument;  // what stands after the colon; "" exactly where the kind takes none
};
Result<Spec> parse_spec(std::string_view spec);

// What stands behind the colon: a path or a shape, then key=value parts behind commas. A path may hold commas itself.
struct Argument {
  std::string subject;
  std::map<std::string, std::string> options;
};
// Takes `,key=value` parts off the end.
Result<Argument> parse_argument(const Spec& spec, std::span<const std::string> keys);

Result<Argument> parse_images(const Spec& spec);  // DIR[,size=224]
struct TextFiles {
  std::filesystem::path source, target;
};
Result<TextFiles> parse_text(const Spec& spec);  // SOURCE,TARGET

}  // namespace paceline::trainer::data
