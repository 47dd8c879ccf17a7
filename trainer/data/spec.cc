#include "trainer/data/spec.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::trainer::data {
namespace {

const std::array<Kind, 9> kKinds = {{
    {"mnist-5k", "", "5000 of MNIST's images, 1x28x28, 10 classes; comes with scripts/setup"},
    {"digits", "", "1797 small images of digits, 1x8x8, 10 classes; comes with scripts/setup"},
    {"mnist", "DIR", "MNIST or what has its format: IDX files, plain or .gz, 10 classes"},
    {"cifar-10", "DIR", "CIFAR-10, binary version, 3x32x32, 10 classes"},
    {"cifar-100", "DIR", "CIFAR-100, binary version, 3x32x32, 100 classes"},
    {"images", "DIR[,size=224]", "JPEG and PNG files, one folder for each class (or train/ and test/ or val/ with such folders)"},
    {"text", "SOURCE,TARGET", "sentence pairs in two text files, line by line"},
    {"records", "FILE", "a record file, made by 'paceline datasets pack'"},
    {"synthetic", "CxHxW[,classes=10][,samples=1000][,test=200][,seed=1]",
     "made-up images that can be learned, e.g. synthetic:3x32x32"},
}};

}  // namespace

std::span<const Kind> kinds() { return kKinds; }

Result<Spec> parse_spec(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  const std::string name(spec.substr(0, colon));
  const std::string_view argument = colon == std::string_view::npos ? std::string_view() : spec.substr(colon + 1);

  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.push_back(kind.name);
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.name == name; });
  if (kind == kKinds.end()) {
    return error(ErrorKind::kBadRequest, "unknown data set '{}'{}; known are {}", spec, suggestion(name, names),
                 fmt::join(names, ", "))
        .because({"unknown", ""});
  }
  if (kind->argument.empty() && colon != std::string_view::npos) {
    return error(ErrorKind::kBadRequest, "data set '{}': {} takes nothing behind its name", spec, name).because({"illegal", ""});
  }
  if (!kind->argument.empty() && argument.empty()) {
    return error(ErrorKind::kBadRequest, "data set '{}' is incomplete; write {}:{}; mnist-5k needs no files of yours", spec, name,
                 kind->argument)
        .because({"missing", ""});
  }
  return Spec{.whole = std::string(spec), .kind = name, .argument = std::string(argument)};
}

Result<Argument> parse_argument(const Spec& spec, std::span<const std::string> keys) {
  std::string_view argument = spec.argument;
  Argument parsed;
  for (;;) {
    const std::size_t comma = argument.rfind(',');
    if (keys.empty() || comma == std::string_view::npos) break;
    const std::string_view part = argument.substr(comma + 1);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) break;
    const std::string key(part.substr(0, equals));
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return error(ErrorKind::kBadRequest, "data set '{}' has no option '{}'{}; its options are {}", spec.whole, key,
                   suggestion(key, keys), fmt::join(keys, ", "))
          .because({"unknown", ""});
    }
    if (!parsed.options.emplace(key, part.substr(equals + 1)).second) {
      return error(ErrorKind::kBadRequest, "data set '{}' gives '{}' twice", spec.whole, key);
    }
    argument = argument.substr(0, comma);
  }
  if (argument.empty())
    return error(ErrorKind::kBadRequest, "data set '{}': nothing stands between the colon and its options", spec.whole);
  parsed.subject = std::string(argument);
  return parsed;
}

Result<Argument> parse_images(const Spec& spec) {
  static const std::array<std::string, 1> kKeys = {"size"};
  return parse_argument(spec, kKeys);
}

Result<TextFiles> parse_text(const Spec& spec) {
  const std::string_view text = spec.argument;
  const std::size_t comma = text.find(',');
  if (comma == 0 || comma == std::string_view::npos || comma + 1 == text.size() ||
      text.find(',', comma + 1) != std::string_view::npos) {
    return error(ErrorKind::kBadRequest, "data set '{}': expected two files, text:SOURCE,TARGET", spec.whole);
  }
  return TextFiles{.source = text.substr(0, comma), .target = text.substr(comma + 1)};
}

}  // namespace paceline::trainer::data
