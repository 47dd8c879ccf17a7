#include "trainer/data/open.h"

#include <array>
#include <charconv>

#include "trainer/data/cifar.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_folder.h"
#include "trainer/data/parallel_text.h"
#include "trainer/data/records.h"
#include "trainer/data/spec.h"
#include "trainer/data/synthetic.h"

namespace paceline::trainer::data {
namespace {

const Normalisation kMnist{{0.1307f}, {0.3081f}};

template <typename Number>
Status parse_number(std::string_view text, std::string_view what, const std::string& spec, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem == std::errc() && end == text.data() + text.size()) return {};
  return error(ErrorKind::kBadRequest, "data set '{}': {} is '{}', expected a whole number", spec, what, text)
      .because({"illegal", ""});
}

template <typename Number>
Status take_option(const Spec& spec, const Argument& argument, const std::string& key, Number& number) {
  const auto found = argument.options.find(key);
  return found == argument.options.end() ? Status() : parse_number(found->second, "'" + key + "'", spec.whole, number);
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

Result<DatasetPair> open_synthetic_spec(const Spec& spec) {
  static const std::array<std::string, 4> kKeys = {"classes", "samples", "test", "seed"};
  PACELINE_ASSIGN_OR_RETURN(const Argument argument, parse_argument(spec, kKeys));
  SyntheticOptions options;
  std::array<std::int64_t*, 3> sides = {&options.channels, &options.height, &options.width};
  std::string_view shape = argument.subject;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const std::size_t cross = shape.find('x');
    if ((cross == std::string_view::npos) != (i + 1 == sides.size())) {
      return error(ErrorKind::kBadRequest, "data set '{}': the shape is '{}', expected CHANNELSxHEIGHTxWIDTH, for example 3x32x32",
                   spec.whole, argument.subject)
          .because({"illegal", ""});
    }
    PACELINE_RETURN_IF_ERROR(parse_number(shape.substr(0, cross), "a side of the shape", spec.whole, *sides[i]));
    shape = shape.substr(i + 1 == sides.size() ? shape.size() : cross + 1);
  }
  PACELINE_RETURN_IF_ERROR(take_option(spec, argument, "classes", options.classes));
  PACELINE_RETURN_IF_ERROR(take_option(spec, argument, "samples", options.samples));
  PACELINE_RETURN_IF_ERROR(take_option(spec, argument, "test", options.test));
  PACELINE_RETURN_IF_ERROR(take_option(spec, argument, "seed", options.seed));
  return open_synthetic(options, spec.whole);
}

Result<DatasetPair> open_images_spec(const Spec& spec) {
  PACELINE_ASSIGN_OR_RETURN(const Argument argument, parse_images(spec));
  std::int64_t size = 224;
  PACELINE_RETURN_IF_ERROR(take_option(spec, argument, "size", size));
  return open_image_folder(argument.subject, size, spec.whole);
}

Result<DatasetPair> open_named(std::string_view whole, const std::filesystem::path& data_root) {
  PACELINE_ASSIGN_OR_RETURN(const Spec spec, parse_spec(whole));
  const std::string& kind = spec.kind;
  if (kind == "mnist-5k") return open_shipped(kind, kMnist, data_root);
  if (kind == "digits") return open_shipped(kind, {{0.5f}, {0.5f}}, data_root);
  if (kind == "mnist") return open_idx(spec.argument, {spec.whole, kMnist});
  if (kind == "cifar-10") return open_cifar(Cifar::k10, spec.argument, spec.whole);
  if (kind == "cifar-100") return open_cifar(Cifar::k100, spec.argument, spec.whole);
  if (kind == "images") return open_images_spec(spec);
  if (kind == "records") return open_records(spec.argument, spec.whole);
  if (kind == "synthetic") return open_synthetic_spec(spec);
  PACELINE_ASSIGN_OR_RETURN(const TextFiles text, parse_text(spec));
  return open_parallel_text(text.source, text.target, spec.whole);
}

}  // namespace

Result<DatasetPair> open(std::string_view spec, const std::filesystem::path& data_root) {
  auto pair = open_named(spec, data_root);
  if (pair.ok() || pair.status().kind() == ErrorKind::kIo || pair.status().kind() == ErrorKind::kOverloaded) return pair;
  return pair.status().because({"format", ""});
}

}  // namespace paceline::trainer::data
