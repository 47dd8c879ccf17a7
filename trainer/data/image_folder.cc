#include "trainer/data/image_folder.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "trainer/data/file.h"
#include "trainer/data/image.h"

namespace paceline::trainer::data {
namespace {

constexpr Bytes kLargestImage{std::int64_t{1} << 30};
constexpr std::size_t kTestEvery = 10;

struct Labelled {
  std::filesystem::path path;
  std::int64_t label;
};

class ImageFolder final : public Dataset {
 public:
  ImageFolder(std::vector<Labelled> files, std::int64_t size, std::int64_t classes)
      : files_(std::move(files)),
        form_{.content = Content::kImages,
              .shape = {3, size, size},
              .classes = classes,
              .normalisation = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}}} {}

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  const Form& form() const override { return form_; }

  Status load(std::int64_t index, Sample& sample) const override {
    const Labelled& file = at(index);
    PACELINE_ASSIGN_OR_RETURN(sample.stored, read_file(file.path, kLargestImage));
    sample.target.assign(1, file.label);
    return {};
  }

  Status decode(std::int64_t index, Sample& sample) const override {
    PACELINE_ASSIGN_OR_RETURN(const Image image, decode_image(sample.stored, at(index).path.string()));
    resize_and_crop(image, form_.shape[1], sample.pixels);
    return {};
  }

  Status verify() const override {
    for (const Labelled& labelled : files_) {
      PACELINE_ASSIGN_OR_RETURN(const File file, File::open(labelled.path));
      std::array<std::byte, 8> head{};
      if (file.size() >= static_cast<std::int64_t>(head.size())) PACELINE_RETURN_IF_ERROR(file.read_at(0, head));
      if (image_format(head) == ImageFormat::kUnknown) {
        return error(ErrorKind::kBadRequest, "{}: unreadable image: neither JPEG nor PNG by its first bytes ({} bytes in all)",
                     labelled.path.string(), file.size());
      }
    }
    return {};
  }

 private:
  const Labelled& at(std::int64_t index) const {
    PACELINE_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    return files_[static_cast<std::size_t>(index)];
  }

  std::vector<Labelled> files_;
  Form form_;
};

bool is_image_name(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

enum class Wanted { kFolders, kImages };

// Names inside `folder`, in the order of their bytes.
Result<std::vector<std::string>> list(const std::filesystem::path& folder, Wanted wanted) {
  std::vector<std::string> names;
  std::error_code problem;
  std::filesystem::directory_iterator entries(folder, problem);
  for (; !problem && entries != std::filesystem::directory_iterator(); entries.increment(problem)) {
    const std::string name = entries->path().filename().string();
    std::error_code ignored;
    const bool is_folder = entries->is_directory(ignored);
    if (name.front() != '.' && (wanted == Wanted::kFolders ? is_folder : !is_folder && is_image_name(name))) names.push_back(name);
  }
  if (problem) {
    const bool absent = problem == std::errc::no_such_file_or_directory || problem == std::errc::not_a_directory;
    return error(absent ? ErrorKind::kBadRequest : ErrorKind::kIo, "{}: cannot be listed as a folder: {}", folder.string(),
                 problem.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct ClassFiles {
  std::string name;
  std::vector<std::filesystem::path> files;
};

Result<std::vector<ClassFiles>> classes_in(const std::filesystem::path& folder) {
  PACELINE_ASSIGN_OR_RETURN(const auto names, list(folder, Wanted::kFolders));
  if (names.empty())
    return error(ErrorKind::kBadRequest, "{}: there is no folder in it, expected one for each class", folder.string());
  std::vector<ClassFiles> classes;
  for (const std::string& name : names) {
    PACELINE_ASSIGN_OR_RETURN(const auto files, list(folder / name, Wanted::kImages));
    if (files.empty()) {
      return error(ErrorKind::kBadRequest,
                   "{}: there is no image in it, expected at least one file that ends in .jpg, .jpeg or .png",
                   (folder / name).string());
    }
    ClassFiles& made = classes.emplace_back();
    made.name = name;
    for (const std::string& file : files) made.files.push_back(folder / name / file);
  }
  return classes;
}

// Whether `file` is an image of a class in `folder`, also by a link from there; classes lie `depth` folders deep at most.
bool holds(const std::filesystem::path& folder, const std::filesystem::path& file, int depth) {
  const auto names = list(folder, Wanted::kFolders);
  if (!names.ok()) return false;
  std::error_code ignored;
  return std::ranges::any_of(*names, [&](const std::string& name) {
    const std::filesystem::path inner = folder / name;
    if (std::filesystem::equivalent(inner, file.parent_path(), ignored)) return true;
    if (depth > 1 && holds(inner, file, depth - 1)) return true;
    if (!std::filesystem::exists(file, ignored)) return false;
    const auto images = list(inner, Wanted::kImages);
    const auto is_file = [&](const std::string& image) { return std::filesystem::equivalent(inner / image, file, ignored); };
    return images.ok() && std::ranges::any_of(*images, is_file);
  });
}

}  // namespace

bool is_image_of(const std::filesystem::path& folder, const std::filesystem::path& file) {
  constexpr int kDeepest = 2;  // train/CLASS
  const bool may_be = is_image_name(file) && file.filename().string().front() != '.';
  return may_be && holds(folder, file, kDeepest);
}

Result<DatasetPair> open_image_folder(const std::filesystem::path& folder, std::int64_t size, const std::string& name) {
  if (size < 1 || size > kLargestImageSide)
    return error(ErrorKind::kBadRequest, "data set '{}': 'size' is {}, expected 1..{}", name, size, kLargestImageSide);
  std::error_code ignored;
  std::filesystem::path train_folder = folder, test_folder;
  if (std::filesystem::is_directory(folder / "train", ignored)) {
    for (const char* half : {"val", "test"}) {
      if (std::filesystem::is_directory(folder / half, ignored)) test_folder = folder / half;
    }
    if (!test_folder.empty()) train_folder = folder / "train";
  }
  PACELINE_ASSIGN_OR_RETURN(const auto classes, classes_in(train_folder));
  std::vector<Labelled> train, test;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    for (std::size_t i = 0; i < classes[label].files.size(); ++i) {
      const bool tests = test_folder.empty() && i % kTestEvery == kTestEvery - 1;
      (tests ? test : train).push_back({classes[label].files[i], static_cast<std::int64_t>(label)});
    }
  }
  if (!test_folder.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const auto test_classes, classes_in(test_folder));
    for (const ClassFiles& own : test_classes) {
      const auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassFiles& c) { return c.name == own.name; });
      if (found == classes.end()) {
        return error(ErrorKind::kBadRequest, "{}: class '{}' has no folder in {}", test_folder.string(), own.name,
                     train_folder.string());
      }
      for (const auto& file : own.files) test.push_back({file, found - classes.begin()});
    }
  }
  const auto count = static_cast<std::int64_t>(classes.size());
  std::vector<std::string> names;
  for (const ClassFiles& one : classes) names.push_back(one.name);
  return DatasetPair{
      .name = name,
      .train = std::make_shared<ImageFolder>(std::move(train), size, count),
      .test = std::make_shared<ImageFolder>(std::move(test), size, count),
      .class_names = std::move(names),
      .preparation =
          fmt::format("RGB; the shorter side is scaled to {0} (bilinear, averaging), and the middle {0} x {0} is cut out", size)};
}

}  // namespace paceline::trainer::data
