#include "trainer/data/open.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/text.h"
#include "trainer/data/cifar.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_folder.h"
#include "trainer/data/parallel_text.h"
#include "trainer/data/records.h"
#include "trainer/data/synthetic.h"

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

const Normalisation kMnist{{0.1307f}, {0.3081f}};

// What stands behind the colon: a path or a shape, then key=value parts behind commas. A path may hold commas itself.
struct Argument {
  std::string whole;  // the spec, for messages
  std::string subject;
  std::map<std::string, std::string> options;
};

std::string joined(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Takes `,key=value` parts off the end.
Result<Argument> parse_argument(std::string_view spec, std::string_view argument, std::span<const std::string> keys) {
  Argument parsed{.whole = std::string(spec), .subject = "", .options = {}};
  for (;;) {
    const std::size_t comma = argument.rfind(',');
    if (keys.empty() || comma == std::string_view::npos) break;
    const std::string_view part = argument.substr(comma + 1);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) break;
    const std::string key(part.substr(0, equals));
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return error(ErrorKind::kBadRequest, "data set '{}' has no option '{}'{}; its options are {}", spec, key,
                   suggestion(key, keys), joined(keys))
          .because({"unknown", ""});
    }
    if (!parsed.options.emplace(key, part.substr(equals + 1)).second) {
      return error(ErrorKind::kBadRequest, "data set '{}' gives '{}' twice", spec, key);
    }
    argument = argument.substr(0, comma);
  }
  if (argument.empty())
    return error(ErrorKind::kBadRequest, "data set '{}': nothing stands between the colon and its options", spec);
  parsed.subject = std::string(argument);
  return parsed;
}

template <typename Number>
Status parse_number(std::string_view text, std::string_view what, const std::string& spec, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem == std::errc() && end == text.data() + text.size()) return {};
  return error(ErrorKind::kBadRequest, "data set '{}': {} is '{}', expected a whole number", spec, what, text)
      .because({"illegal", ""});
}

template <typename Number>
Status take_option(const Argument& argument, const std::string& key, Number& number) {
  const auto found = argument.options.find(key);
  return found == argument.options.end() ? Status() : parse_number(found->second, "'" + key + "'", argument.whole, number);
}

Result<DatasetPair> open_shipped(const std::string& name, const Normalisation& normalisation,
                                 const std::filesystem::path& data_root) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(data_root / name, ignored)) {
    return error(ErrorKind::kBadRequest,
                 "data set {}: there is no folder {}; scripts/setup writes it, where PACELINE_DATA names no other place", name,
                 (data_root / name).string())
        .because({"no-file", ""});
  }
  return open_idx(data_root / name, {name, normalisation});
}

Result<DatasetPair> open_synthetic_spec(std::string_view spec, std::string_view text) {
  static const std::array<std::string, 4> kKeys = {"classes", "samples", "test", "seed"};
  PACELINE_ASSIGN_OR_RETURN(const Argument argument, parse_argument(spec, text, kKeys));
  SyntheticOptions options;
  std::array<std::int64_t*, 3> sides = {&options.channels, &options.height, &options.width};
  std::string_view shape = argument.subject;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const std::size_t cross = shape.find('x');
    if ((cross == std::string_view::npos) != (i + 1 == sides.size())) {
      return error(ErrorKind::kBadRequest, "data set '{}': the shape is '{}', expected CHANNELSxHEIGHTxWIDTH, for example 3x32x32",
                   spec, argument.subject)
          .because({"illegal", ""});
    }
    PACELINE_RETURN_IF_ERROR(parse_number(shape.substr(0, cross), "a side of the shape", argument.whole, *sides[i]));
    shape = shape.substr(i + 1 == sides.size() ? shape.size() : cross + 1);
  }
  PACELINE_RETURN_IF_ERROR(take_option(argument, "classes", options.classes));
  PACELINE_RETURN_IF_ERROR(take_option(argument, "samples", options.samples));
  PACELINE_RETURN_IF_ERROR(take_option(argument, "test", options.test));
  PACELINE_RETURN_IF_ERROR(take_option(argument, "seed", options.seed));
  return open_synthetic(options, argument.whole);
}

Result<DatasetPair> open_images_spec(std::string_view spec, std::string_view text) {
  static const std::array<std::string, 1> kKeys = {"size"};
  PACELINE_ASSIGN_OR_RETURN(const Argument argument, parse_argument(spec, text, kKeys));
  std::int64_t size = 224;
  PACELINE_RETURN_IF_ERROR(take_option(argument, "size", size));
  return open_image_folder(argument.subject, size, argument.whole);
}

Result<DatasetPair> open_text_spec(std::string_view spec, std::string_view text) {
  const std::size_t comma = text.find(',');
  if (comma == 0 || comma == std::string_view::npos || comma + 1 == text.size() ||
      text.find(',', comma + 1) != std::string_view::npos) {
    return error(ErrorKind::kBadRequest, "data set '{}': expected two files, text:SOURCE,TARGET", spec);
  }
  return open_parallel_text(text.substr(0, comma), text.substr(comma + 1), std::string(spec));
}

Result<DatasetPair> open_named(std::string_view spec, const std::filesystem::path& data_root) {
  const std::size_t colon = spec.find(':');
  const std::string name(spec.substr(0, colon));
  const std::string_view argument = colon == std::string_view::npos ? std::string_view() : spec.substr(colon + 1);

  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.push_back(kind.name);
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.name == name; });
  if (kind == kKinds.end()) {
    return error(ErrorKind::kBadRequest, "unknown data set '{}'{}; known are {}", spec, suggestion(name, names), joined(names))
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

  if (name == "mnist-5k") return open_shipped(name, kMnist, data_root);
  if (name == "digits") return open_shipped(name, {{0.5f}, {0.5f}}, data_root);
  if (name == "mnist") return open_idx(argument, {std::string(spec), kMnist});
  if (name == "cifar-10") return open_cifar(Cifar::k10, argument, std::string(spec));
  if (name == "cifar-100") return open_cifar(Cifar::k100, argument, std::string(spec));
  if (name == "images") return open_images_spec(spec, argument);
  if (name == "text") return open_text_spec(spec, argument);
  if (name == "records") return open_records(argument, std::string(spec));
  return open_synthetic_spec(spec, argument);
}

}  // namespace

std::span<const Kind> kinds() { return kKinds; }

Result<DatasetPair> open(std::string_view spec, const std::filesystem::path& data_root) {
  auto pair = open_named(spec, data_root);
  if (pair.ok() || pair.status().kind() == ErrorKind::kIo || pair.status().kind() == ErrorKind::kOverloaded) return pair;
  return pair.status().because({"format", ""});
}

}  // namespace paceline::trainer::data
