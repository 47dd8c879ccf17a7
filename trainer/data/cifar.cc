#include "trainer/data/cifar.h"

#include <algorithm>

#include "trainer/data/file.h"

namespace paceline::trainer::data {
namespace {

constexpr std::int64_t kPixels = 3LL * 32 * 32;

struct Layout {
  const char* subfolder;
  std::vector<std::string> train_files;
  std::string test_file;
  std::vector<std::int64_t> classes;  // of each label byte; the last is the label
  Normalisation normalisation;        // of the training set, as generally used
};

Layout layout_of(Cifar which) {
  if (which == Cifar::k10) {
    return {"cifar-10-batches-bin",
            {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
            "test_batch.bin",
            {10},
            {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}}};
  }
  return {"cifar-100-binary", {"train.bin"}, "test.bin", {20, 100}, {{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}}};
}

class CifarDataset final : public Dataset {
 public:
  explicit CifarDataset(const Layout& layout)
      : form_{.content = Content::kImages,
              .shape = {3, 32, 32},
              .classes = layout.classes.back(),
              .normalisation = layout.normalisation},
        label_bytes_(static_cast<std::int64_t>(layout.classes.size())) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const Form& form() const override { return form_; }

  Status load(std::int64_t index, Sample& sample) const override {
    PACELINE_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    const auto file = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin()) - 1;
    const std::int64_t record = index - starts_[file];
    sample.pixels.resize(kPixels);
    sample.target.assign(1, labels_[static_cast<std::size_t>(index)]);
    return files_[file].read_at(record * (label_bytes_ + kPixels) + label_bytes_, std::as_writable_bytes(std::span(sample.pixels)));
  }

  // Takes a file's labels in and checks them.
  Status add(File file, const Layout& layout) {
    const std::int64_t record_bytes = label_bytes_ + kPixels;
    if (file.size() == 0 || file.size() % record_bytes != 0) {
      return error(ErrorKind::kBadRequest,
                   "{}: wrong size: {} bytes, expected a whole number, at least one, of records of {} bytes", file.path().string(),
                   file.size(), record_bytes);
    }
    starts_.push_back(size());
    constexpr std::int64_t kAtOnce = 256;  // records; reading on in one go is faster than picking out the labels
    std::vector<std::byte> buffer;
    for (std::int64_t first = 0, count = file.size() / record_bytes; first < count; first += kAtOnce) {
      buffer.resize(static_cast<std::size_t>(std::min(kAtOnce, count - first) * record_bytes));
      PACELINE_RETURN_IF_ERROR(file.read_at(first * record_bytes, buffer));
      for (std::size_t at = 0; at < buffer.size(); at += static_cast<std::size_t>(record_bytes)) {
        for (std::size_t i = 0; i < layout.classes.size(); ++i) {
          const auto label = std::to_integer<std::uint8_t>(buffer[at + i]);
          if (label >= layout.classes[i]) {
            return error(ErrorKind::kBadRequest, "{}: label {} of record {}, expected 0..{}", file.path().string(), label,
                         size() - starts_.back(), layout.classes[i] - 1);
          }
          if (i + 1 == layout.classes.size()) labels_.push_back(label);
        }
      }
    }
    files_.push_back(std::move(file));
    return {};
  }

 private:
  Form form_;
  std::int64_t label_bytes_;
  std::vector<File> files_;
  std::vector<std::int64_t> starts_;  // the first sample of each file
  std::vector<std::uint8_t> labels_;
};

Result<std::shared_ptr<const Dataset>> open_half(const std::filesystem::path& folder, const std::vector<std::string>& names,
                                                 const Layout& layout) {
  auto set = std::make_shared<CifarDataset>(layout);
  for (const std::string& name : names) {
    PACELINE_ASSIGN_OR_RETURN(File file, File::open(folder / name));
    PACELINE_RETURN_IF_ERROR(set->add(std::move(file), layout));
  }
  return std::shared_ptr<const Dataset>(std::move(set));
}

// Where the files are looked for.
std::filesystem::path place_of(const Layout& layout, const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_directory(folder / layout.subfolder, ignored) ? folder / layout.subfolder : folder;
}

}  // namespace

Result<DatasetPair> open_cifar(Cifar which, const std::filesystem::path& folder, const std::string& name) {
  const Layout layout = layout_of(which);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return error(ErrorKind::kBadRequest, "{}: is not a folder, expected one with {} and {}", folder.string(),
                 layout.train_files.front(), layout.test_file);
  }
  const std::filesystem::path files = place_of(layout, folder);
  DatasetPair pair{.name = name};
  if (which == Cifar::k10)
    pair.class_names = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  PACELINE_ASSIGN_OR_RETURN(pair.train, open_half(files, layout.train_files, layout));
  PACELINE_ASSIGN_OR_RETURN(pair.test, open_half(files, {layout.test_file}, layout));
  return pair;
}

std::vector<std::filesystem::path> cifar_files(Cifar which, const std::filesystem::path& folder) {
  const Layout layout = layout_of(which);
  const std::filesystem::path place = place_of(layout, folder);
  std::vector<std::filesystem::path> files = {place / layout.test_file};
  for (const std::string& name : layout.train_files) files.push_back(place / name);
  return files;
}

}  // namespace paceline::trainer::data
