#include "trainer/data/sources.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "trainer/data/cifar.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_folder.h"
#include "trainer/data/spec.h"

namespace paceline::trainer::data {
namespace {

namespace fs = std::filesystem;

// The file itself, there or not; nothing for a device or a pipe.
std::optional<fs::path> regular_file(const fs::path& path) {
  std::error_code problem;
  const fs::path file = path.empty() ? fs::path() : fs::weakly_canonical(fs::absolute(path, problem), problem);
  if (file.empty() || problem || (fs::exists(file, problem) && !fs::is_regular_file(file, problem))) return std::nullopt;
  return file;
}

// The files of a data set whose files have fixed names.
std::vector<fs::path> named_files(const Spec& spec, const fs::path& data_root) {
  if (spec.kind == "mnist-5k" || spec.kind == "digits") return idx_files(data_root / spec.kind);
  if (spec.kind == "mnist") return idx_files(spec.argument);
  if (spec.kind == "cifar-10") return cifar_files(Cifar::k10, spec.argument);
  if (spec.kind == "cifar-100") return cifar_files(Cifar::k100, spec.argument);
  if (spec.kind == "records") return {spec.argument};
  if (spec.kind != "text") return {};
  const auto text = parse_text(spec);
  return text.ok() ? std::vector<fs::path>{text->source, text->target} : std::vector<fs::path>();
}

}  // namespace

bool is_file_of(std::string_view spec, const fs::path& data_root, const fs::path& file) {
  const auto parsed = parse_spec(spec);
  const auto wanted = regular_file(file);
  if (!parsed.ok() || !wanted) return false;
  if (parsed->kind == "images") {
    const auto images = parse_images(*parsed);
    return images.ok() && (is_image_of(images->subject, fs::absolute(file)) || is_image_of(images->subject, *wanted));
  }
  const auto is_wanted = [&](const fs::path& one) { return regular_file(one) == wanted; };
  return std::ranges::any_of(named_files(*parsed, data_root), is_wanted);
}

}  // namespace paceline::trainer::data
