#include <algorithm>
#include <atomic>
#include <cmath>
#include <tuple>

#include "base/checksum.h"
#include "trainer/data/file.h"
#include "trainer/data/parallel_text.h"
#include "trainer/data/record_format.h"
#include "trainer/data/records.h"

namespace paceline::trainer::data {
namespace {

using namespace record_format;

Status contradiction(const std::string& name, const std::string& what) {
  return error(ErrorKind::kBadRequest, "{}: the header of this record file contradicts itself: {}", name, what);
}

std::int64_t blocks_of(std::int64_t records, std::int64_t per_block) { return records / per_block + (records % per_block != 0); }

Status check_counts(const RecordHeader& header, std::int64_t file_bytes, const std::string& name) {
  const std::int64_t body = file_bytes - header.header_bytes;
  if (header.train_records == 0)
    return error(ErrorKind::kBadRequest, "{}: holds no samples to train with, at least one expected", name);
  const bool images = header.form.content == Content::kImages;
  const std::int64_t smallest = images ? 4 + input_values(header.form) : 8;
  if (header.train_records < 0 || header.test_records < 0 || header.train_records > body / smallest ||
      header.test_records > body / smallest) {
    return contradiction(name, fmt::format("{} and {} records of at least {} bytes in a file of {} bytes", header.train_records,
                                           header.test_records, smallest, file_bytes));
  }
  if (!images) return {};
  if (header.records_per_block < 1 || header.records_per_block > std::max<std::int64_t>(1, kBlockBytes / smallest)) {
    return contradiction(name, fmt::format("{} records of {} bytes in a block", header.records_per_block, smallest));
  }
  const std::int64_t blocks =
      blocks_of(header.train_records, header.records_per_block) + blocks_of(header.test_records, header.records_per_block);
  const std::int64_t expected = (header.train_records + header.test_records) * smallest + blocks * kBlockHead;
  if (body != expected)
    return contradiction(name, fmt::format("its records take {} bytes, but {} follow the header", expected, body));
  return {};
}

Status parse_form(std::span<const std::byte> header, std::size_t normalisation_at, Form& form, const std::string& name) {
  form.content = number_at<std::uint32_t>(header, kContentAt) == kImageRecords ? Content::kImages : Content::kText;
  form.classes = number_at<std::int64_t>(header, kClassesAt);
  form.source_vocabulary = number_at<std::int64_t>(header, kSourceVocabularyAt);
  if (form.classes < 1 || form.classes > kMostClasses)
    return contradiction(name, fmt::format("{} classes, expected 1..{}", form.classes, kMostClasses));
  if (form.content == Content::kText) {
    if (form.source_vocabulary < kFirstWord || form.source_vocabulary > kMostClasses) {
      return contradiction(name, fmt::format("a vocabulary of {} ids", form.source_vocabulary));
    }
    return {};
  }
  for (const std::size_t at : {kChannelsAt, kHeightAt, kWidthAt}) form.shape.push_back(number_at<std::uint32_t>(header, at));
  const auto& [channels, height, width] = std::tie(form.shape[0], form.shape[1], form.shape[2]);
  if (channels < 1 || channels > kMostChannels || height < 1 || width < 1 || height > kLargestInput ||
      width > kLargestInput / height || channels > kLargestInput / (height * width)) {
    return contradiction(
        name, fmt::format("samples of {} x {} x {} values, expected at most {}", channels, height, width, kLargestInput));
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto mean = number_at<float>(header, normalisation_at), deviation = number_at<float>(header, normalisation_at + 4);
    if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation <= 0)
      return contradiction(name, fmt::format("mean {}, deviation {}", mean, deviation));
    form.normalisation.mean.push_back(mean);
    form.normalisation.deviation.push_back(deviation);
    normalisation_at += 8;
  }
  return {};
}

// The file and what its two halves have in common.
struct Opened {
  File file;
  RecordHeader header;
};

Status damaged(const File& file, std::int64_t at) {
  return error(ErrorKind::kCorrupt, "{}: damaged: the block at byte {} fails its check (CRC32C); copy or pack the file again",
               file.path().string(), at);
}

// One half of a file with images.
class ImageRecords final : public Dataset {
 public:
  ImageRecords(std::shared_ptr<const Opened> opened, std::int64_t begin, std::int64_t records)
      : opened_(std::move(opened)),
        begin_(begin),
        records_(records),
        per_block_(opened_->header.records_per_block),
        record_bytes_(4 + input_values(opened_->header.form)),
        checked_(static_cast<std::size_t>(blocks_of(records, per_block_))) {}

  std::int64_t size() const override { return records_; }
  const Form& form() const override { return opened_->header.form; }

  Status load(std::int64_t index, Sample& sample) const override {
    PACELINE_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    const std::int64_t block = index / per_block_;
    const std::int64_t within = kBlockHead + index % per_block_ * record_bytes_;
    if (checked_[static_cast<std::size_t>(block)].load(std::memory_order_relaxed)) {
      sample.stored.resize(static_cast<std::size_t>(record_bytes_));
      PACELINE_RETURN_IF_ERROR(opened_->file.read_at(place_of(block) + within, sample.stored));
      return unpack(index, sample.stored, sample);
    }
    PACELINE_RETURN_IF_ERROR(check_block(block, sample.stored));
    return unpack(index,
                  std::span<const std::byte>(sample.stored)
                      .subspan(static_cast<std::size_t>(within), static_cast<std::size_t>(record_bytes_)),
                  sample);
  }

  Status verify() const override {
    std::vector<std::byte> buffer;
    for (std::size_t block = 0; block < checked_.size(); ++block)
      PACELINE_RETURN_IF_ERROR(check_block(static_cast<std::int64_t>(block), buffer));
    return {};
  }

 private:
  std::int64_t place_of(std::int64_t block) const { return begin_ + block * (kBlockHead + per_block_ * record_bytes_); }

  // Reads a whole block into `buffer` and compares its checksum. Two threads may do the same at once; that is only work done twice.
  Status check_block(std::int64_t block, std::vector<std::byte>& buffer) const {
    const std::int64_t records = std::min(per_block_, records_ - block * per_block_);
    buffer.resize(static_cast<std::size_t>(kBlockHead + records * record_bytes_));
    PACELINE_RETURN_IF_ERROR(opened_->file.read_at(place_of(block), buffer));
    const std::span<const std::byte> all(buffer);
    const bool intact = number_at<std::int64_t>(all, 0) == records * record_bytes_ &&
                        number_at<std::uint32_t>(all, 8) == static_cast<std::uint32_t>(records) &&
                        number_at<std::uint32_t>(all, 12) == crc32c(all.subspan(kBlockHead), crc32c(all.first(12)));
    if (!intact) return damaged(opened_->file, place_of(block));
    checked_[static_cast<std::size_t>(block)].store(true, std::memory_order_relaxed);
    return {};
  }

  Status unpack(std::int64_t index, std::span<const std::byte> record, Sample& sample) const {
    const auto label = number_at<std::int32_t>(record, 0);
    if (label < 0 || label >= form().classes) {
      return error(ErrorKind::kBadRequest, "{}: label {} of record {}, expected 0..{}", opened_->file.path().string(), label, index,
                   form().classes - 1);
    }
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(record.data());
    sample.pixels.assign(pixels + 4, pixels + record.size());
    sample.target.assign(1, label);
    return {};
  }

  std::shared_ptr<const Opened> opened_;
  std::int64_t begin_, records_, per_block_, record_bytes_;
  mutable std::vector<std::atomic<bool>> checked_;
};

DatasetPair open_images(const std::shared_ptr<const Opened>& opened, const std::string& name) {
  const RecordHeader& header = opened->header;
  const std::int64_t test_begin = header.header_bytes + header.train_records * (4 + input_values(header.form)) +
                                  blocks_of(header.train_records, header.records_per_block) * kBlockHead;
  return {.name = name,
          .train = std::make_shared<ImageRecords>(opened, header.header_bytes, header.train_records),
          .test = std::make_shared<ImageRecords>(opened, test_begin, header.test_records)};
}

// Text records of one block into the corpus.
Status take_text(std::span<const std::byte> payload, std::uint32_t records, const Form& form, const std::string& where,
                 Corpus& corpus) {
  std::vector<std::int32_t> sides[2];
  for (std::uint32_t i = 0; i < records; ++i) {
    const std::uint64_t lengths[2] = {payload.size() < 8 ? 0 : number_at<std::uint32_t>(payload, 0),
                                      payload.size() < 8 ? 0 : number_at<std::uint32_t>(payload, 4)};
    if (payload.size() < 8 || lengths[0] == 0 || lengths[1] == 0 || (lengths[0] + lengths[1]) * 4 > payload.size() - 8) {
      return error(ErrorKind::kBadRequest, "{}: record {} of the block has {} and {} tokens, but {} bytes are left in it", where, i,
                   lengths[0], lengths[1], payload.size());
    }
    payload = payload.subspan(8);
    for (std::size_t side = 0; side < 2; ++side) {
      const std::int64_t ids = side == 0 ? form.source_vocabulary : form.classes;
      sides[side].clear();
      for (std::uint64_t t = 0; t < lengths[side]; ++t) {
        const auto token = number_at<std::int32_t>(payload, static_cast<std::size_t>(t) * 4);
        if (token < 0 || token >= ids)
          return error(ErrorKind::kBadRequest, "{}: token {} in record {} of the block, expected 0..{}", where, token, i, ids - 1);
        sides[side].push_back(token);
      }
      payload = payload.subspan(static_cast<std::size_t>(lengths[side]) * 4);
    }
    corpus.add(sides[0], sides[1]);
  }
  if (!payload.empty())
    return error(ErrorKind::kBadRequest, "{}: {} bytes behind the last record of the block", where, payload.size());
  return {};
}

Result<DatasetPair> open_text(const Opened& opened, const std::string& name) {
  const RecordHeader& header = opened.header;
  const std::string path = opened.file.path().string();
  auto corpus = std::make_shared<Corpus>();
  std::vector<std::byte> block;
  for (std::int64_t at = header.header_bytes; at < opened.file.size();) {
    block.resize(kBlockHead);
    const std::int64_t left = opened.file.size() - at - kBlockHead;
    if (left < 0)
      return error(ErrorKind::kBadRequest, "{}: truncated: {} bytes at byte {}, a block begins with {}", path, left + kBlockHead,
                   at, kBlockHead);
    PACELINE_RETURN_IF_ERROR(opened.file.read_at(at, block));
    const auto payload_bytes = number_at<std::int64_t>(block, 0);
    const auto records = number_at<std::uint32_t>(block, 8);
    if (payload_bytes < 0 || payload_bytes > left) return damaged(opened.file, at);
    block.resize(static_cast<std::size_t>(kBlockHead + payload_bytes));
    PACELINE_RETURN_IF_ERROR(opened.file.read_at(at, block));
    const std::span<const std::byte> all(block);
    if (number_at<std::uint32_t>(all, 12) != crc32c(all.subspan(kBlockHead), crc32c(all.first(12))))
      return damaged(opened.file, at);
    PACELINE_RETURN_IF_ERROR(
        take_text(all.subspan(kBlockHead), records, header.form, fmt::format("{}: block at byte {}", path, at), *corpus));
    at += kBlockHead + payload_bytes;
  }
  if (corpus->size() != header.train_records + header.test_records) {
    return error(ErrorKind::kBadRequest, "{}: {} records, its header promises {} and {}", path, corpus->size(),
                 header.train_records, header.test_records);
  }
  return DatasetPair{.name = name,
                     .train = make_text_dataset(corpus, 0, header.train_records, header.form),
                     .test = make_text_dataset(corpus, header.train_records, header.test_records, header.form)};
}

}  // namespace

Result<std::int64_t> parse_record_header_size(std::span<const std::byte> fixed, std::int64_t file_bytes, const std::string& name) {
  if (fixed.size() < kFixed) {
    return error(ErrorKind::kBadRequest, "{}: not a record file, or truncated: {} bytes, the header alone has more than {}", name,
                 fixed.size(), kFixed);
  }
  if (std::memcmp(fixed.data(), kMagic, 8) != 0) {
    return error(ErrorKind::kBadRequest, "{}: not a record file: it does not begin with {}; make one with 'paceline datasets pack'",
                 name, kMagic);
  }
  if (const auto version = number_at<std::uint32_t>(fixed, kVersionAt); version != kVersion) {
    return error(ErrorKind::kBadRequest, "{}: record file of version {}, expected {}; pack it again", name, version, kVersion);
  }
  const std::int64_t header_bytes = number_at<std::uint32_t>(fixed, kHeaderBytesAt);
  const std::int64_t largest = static_cast<std::int64_t>(kFixed) + kLongestName + kMostChannels * 8 + 4;
  if (header_bytes < static_cast<std::int64_t>(kFixed) + 4 || header_bytes > largest) {
    return contradiction(name, fmt::format("a header of {} bytes, expected {}..{}", header_bytes, kFixed + 4, largest));
  }
  if (header_bytes > file_bytes)
    return error(ErrorKind::kBadRequest, "{}: truncated: {} bytes, its header alone has {}", name, file_bytes, header_bytes);
  return header_bytes;
}

Result<RecordHeader> parse_record_header(std::span<const std::byte> bytes, std::int64_t file_bytes, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t header_bytes, parse_record_header_size(bytes, file_bytes, name));
  if (static_cast<std::int64_t>(bytes.size()) < header_bytes) {
    return error(ErrorKind::kBadRequest, "{}: truncated: {} bytes, its header alone has {}", name, bytes.size(), header_bytes);
  }
  bytes = bytes.first(static_cast<std::size_t>(header_bytes));
  if (number_at<std::uint32_t>(bytes, bytes.size() - 4) != crc32c(bytes.first(bytes.size() - 4))) {
    return error(ErrorKind::kCorrupt, "{}: damaged: the header fails its check (CRC32C); copy or pack the file again", name);
  }
  const auto name_length = number_at<std::uint32_t>(bytes, kNameLengthAt);
  const auto content = number_at<std::uint32_t>(bytes, kContentAt);
  if (content != kImageRecords && content != kTextRecords)
    return contradiction(name, fmt::format("content {}, expected 1 (images) or 2 (text)", content));
  const std::uint64_t channels = content == kImageRecords ? number_at<std::uint32_t>(bytes, kChannelsAt) : 0;
  if (name_length > kLongestName || bytes.size() != kFixed + name_length + channels * 8 + 4) {
    return contradiction(name, fmt::format("{} bytes for a name of {} and {} channels", header_bytes, name_length, channels));
  }
  if (const auto stated = number_at<std::int64_t>(bytes, kFileBytesAt); stated != file_bytes) {
    return error(ErrorKind::kBadRequest, "{}: {}: {} bytes, its header promises {}", name,
                 file_bytes < stated ? "truncated" : "wrong size", file_bytes, stated);
  }
  RecordHeader header{.train_records = number_at<std::int64_t>(bytes, kTrainAt),
                      .test_records = number_at<std::int64_t>(bytes, kTestAt),
                      .records_per_block = number_at<std::int64_t>(bytes, kPerBlockAt),
                      .header_bytes = header_bytes,
                      .packed_from = std::string(reinterpret_cast<const char*>(bytes.data()) + kFixed, name_length)};
  PACELINE_RETURN_IF_ERROR(parse_form(bytes, kFixed + name_length, header.form, name));
  PACELINE_RETURN_IF_ERROR(check_counts(header, file_bytes, name));
  return header;
}

Result<DatasetPair> open_records(const std::filesystem::path& path, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(File file, File::open(path));
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), kFixed)));
  PACELINE_RETURN_IF_ERROR(file.read_at(0, bytes));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t header_bytes, parse_record_header_size(bytes, file.size(), path.string()));
  bytes.resize(static_cast<std::size_t>(header_bytes));
  PACELINE_RETURN_IF_ERROR(file.read_at(0, bytes));
  PACELINE_ASSIGN_OR_RETURN(RecordHeader header, parse_record_header(bytes, file.size(), path.string()));
  const auto opened = std::make_shared<const Opened>(Opened{std::move(file), std::move(header)});
  PACELINE_ASSIGN_OR_RETURN(DatasetPair pair, opened->header.form.content == Content::kImages
                                                  ? Result<DatasetPair>(open_images(opened, name))
                                                  : open_text(*opened, name));
  pair.note = fmt::format("packed from {}", opened->header.packed_from);
  return pair;
}

}  // namespace paceline::trainer::data
