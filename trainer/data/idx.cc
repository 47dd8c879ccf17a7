#include "trainer/data/idx.h"

#include <algorithm>
#include <array>

#include "trainer/data/file.h"

namespace paceline::trainer::data {
namespace {

constexpr std::uint32_t kImagesMagic = 0x803;
constexpr std::uint32_t kLabelsMagic = 0x801;
constexpr std::uint32_t kLargestSide = 65536;
constexpr Bytes kLargestFile{std::int64_t{8} << 30};
constexpr std::int64_t kDigits = 10;

bool is_gzip(std::span<const std::byte> content) {
  return content.size() >= 2 && content[0] == std::byte{0x1f} && content[1] == std::byte{0x8b};
}

// The first `limit` bytes of the content, and whether there are more.
Result<Inflated> plain(std::span<const std::byte> content, std::int64_t limit, const std::string& name) {
  if (is_gzip(content)) return gunzip(content, limit, name);
  const auto taken = std::min(content.size(), static_cast<std::size_t>(limit));
  return Inflated{{content.begin(), content.begin() + static_cast<std::ptrdiff_t>(taken)}, taken < content.size()};
}

// The dimensions of an IDX file, after its magic was found right.
Result<std::vector<std::int64_t>> parse_header(std::span<const std::byte> content, std::uint32_t magic, std::size_t dimensions,
                                               const std::string& name) {
  const std::size_t length = 4 + 4 * dimensions;
  PACELINE_ASSIGN_OR_RETURN(const Inflated head, plain(content, static_cast<std::int64_t>(length), name));
  if (head.bytes.size() >= 4 && big_endian_32(head.bytes, 0) != magic) {
    return error(ErrorKind::kBadRequest, "{}: magic 0x{:08x}, expected 0x{:08x} (IDX, bytes in {} dimension{})", name,
                 big_endian_32(head.bytes, 0), magic, dimensions, dimensions == 1 ? "" : "s");
  }
  if (head.bytes.size() < length) {
    return error(ErrorKind::kBadRequest, "{}: truncated: {} bytes, an IDX header has {}", name, head.bytes.size(), length);
  }
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < dimensions; ++i) sizes.push_back(big_endian_32(head.bytes, 4 + 4 * i));
  if (sizes[0] == 0) return error(ErrorKind::kBadRequest, "{}: holds no samples, at least one expected", name);
  for (std::size_t i = 1; i < dimensions; ++i) {
    if (sizes[i] == 0 || sizes[i] > kLargestSide) {
      return error(ErrorKind::kBadRequest, "{}: images of {} x {} pixels, expected 1..{} each way", name, sizes[1], sizes.back(),
                   kLargestSide);
    }
  }
  return sizes;
}

// The bytes behind the header, exactly `expected` of them.
Result<std::vector<std::byte>> parse_body(std::span<const std::byte> content, std::int64_t header, std::int64_t expected,
                                          const std::string& name) {
  if (expected > kLargestFile.count) {
    return error(ErrorKind::kBadRequest, "{}: its header promises {} bytes, at most {} can be handled", name, expected,
                 kLargestFile.count);
  }
  PACELINE_ASSIGN_OR_RETURN(Inflated all, plain(content, header + expected, name));
  const std::int64_t found = static_cast<std::int64_t>(all.bytes.size()) - header;
  if (found < expected)
    return error(ErrorKind::kBadRequest, "{}: truncated: {} bytes behind the header, expected {}", name, found, expected);
  if (all.more)
    return error(ErrorKind::kBadRequest, "{}: wrong size: more than the {} bytes that its header promises", name, expected);
  all.bytes.erase(all.bytes.begin(), all.bytes.begin() + header);
  return std::move(all.bytes);
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(Form form, IdxImages images, std::vector<std::uint8_t> labels)
      : form_(std::move(form)), images_(std::move(images)), labels_(std::move(labels)) {}

  std::int64_t size() const override { return images_.count; }
  const Form& form() const override { return form_; }

  Status load(std::int64_t index, Sample& sample) const override {
    PACELINE_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    const auto pixels = static_cast<std::size_t>(images_.rows * images_.columns);
    const auto* first = reinterpret_cast<const std::uint8_t*>(images_.pixels.data()) + static_cast<std::size_t>(index) * pixels;
    sample.pixels.assign(first, first + pixels);
    sample.target.assign(1, labels_[static_cast<std::size_t>(index)]);
    return {};
  }

 private:
  Form form_;
  IdxImages images_;
  std::vector<std::uint8_t> labels_;
};

constexpr const char *kTrain = "train", *kTest = "t10k";
std::string images_name(const std::string& half) { return half + "-images-idx3-ubyte"; }
std::string labels_name(const std::string& half) { return half + "-labels-idx1-ubyte"; }
std::array<std::string, 2> forms_of(const std::string& name) { return {name, name + ".gz"}; }

// The file itself or its .gz; the plain one wins.
Result<std::filesystem::path> find(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return error(ErrorKind::kBadRequest, "{}: is not a folder, expected one with train-images-idx3-ubyte and its three companions",
                 folder.string());
  }
  for (const std::string& candidate : forms_of(name)) {
    if (std::filesystem::exists(folder / candidate, ignored)) return folder / candidate;
  }
  return error(ErrorKind::kBadRequest, "{}: there is no such file, nor {}.gz", (folder / name).string(), name);
}

Result<std::shared_ptr<const Dataset>> open_half(const std::filesystem::path& folder, const std::string& half, const IdxSet& set) {
  PACELINE_ASSIGN_OR_RETURN(const auto image_path, find(folder, images_name(half)));
  PACELINE_ASSIGN_OR_RETURN(const auto label_path, find(folder, labels_name(half)));
  PACELINE_ASSIGN_OR_RETURN(const auto image_bytes, read_file(image_path, kLargestFile));
  PACELINE_ASSIGN_OR_RETURN(IdxImages images, parse_idx_images(image_bytes, image_path.string()));
  PACELINE_ASSIGN_OR_RETURN(const auto label_bytes, read_file(label_path, kLargestFile));
  PACELINE_ASSIGN_OR_RETURN(auto labels, parse_idx_labels(label_bytes, label_path.string()));
  if (images.count != static_cast<std::int64_t>(labels.size())) {
    return error(ErrorKind::kBadRequest, "{}: {} images, but {} labels in {}; they must be as many", image_path.string(),
                 images.count, labels.size(), label_path.string());
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= kDigits)
      return error(ErrorKind::kBadRequest, "{}: label {} of sample {}, expected 0..{}", label_path.string(), labels[i], i,
                   kDigits - 1);
  }
  Form form{.content = Content::kImages,
            .shape = {1, images.rows, images.columns},
            .classes = kDigits,
            .normalisation = set.normalisation};
  return std::shared_ptr<const Dataset>(std::make_shared<IdxDataset>(std::move(form), std::move(images), std::move(labels)));
}

}  // namespace

Result<IdxImages> parse_idx_images(std::span<const std::byte> content, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const auto sizes, parse_header(content, kImagesMagic, 3, name));
  IdxImages images{.count = sizes[0], .rows = sizes[1], .columns = sizes[2]};
  if (images.count > kLargestFile.count / (images.rows * images.columns)) {
    return error(ErrorKind::kBadRequest, "{}: its header promises {} images of {} x {} bytes, at most {} bytes can be handled",
                 name, images.count, images.rows, images.columns, kLargestFile.count);
  }
  PACELINE_ASSIGN_OR_RETURN(images.pixels, parse_body(content, 16, images.count * images.rows * images.columns, name));
  return images;
}

Result<std::vector<std::uint8_t>> parse_idx_labels(std::span<const std::byte> content, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const auto sizes, parse_header(content, kLabelsMagic, 1, name));
  PACELINE_ASSIGN_OR_RETURN(const auto bytes, parse_body(content, 8, sizes[0], name));
  std::vector<std::uint8_t> labels(bytes.size());
  std::transform(bytes.begin(), bytes.end(), labels.begin(), [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return labels;
}

Result<DatasetPair> open_idx(const std::filesystem::path& folder, const IdxSet& set) {
  DatasetPair pair{.name = set.name};
  PACELINE_ASSIGN_OR_RETURN(pair.train, open_half(folder, kTrain, set));
  PACELINE_ASSIGN_OR_RETURN(pair.test, open_half(folder, kTest, set));
  if (pair.train->form() != pair.test->form()) {
    const auto &train = pair.train->form().shape, &test = pair.test->form().shape;
    return error(ErrorKind::kBadRequest, "{}: training images of {} x {} pixels, but test images of {} x {}; they must agree",
                 folder.string(), train[1], train[2], test[1], test[2]);
  }
  return pair;
}

std::vector<std::filesystem::path> idx_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const char* half : {kTrain, kTest}) {
    for (const std::string& name : {images_name(half), labels_name(half)}) {
      for (const std::string& form : forms_of(name)) files.push_back(folder / form);
    }
  }
  return files;
}

}  // namespace paceline::trainer::data
