// Record files: a data set in one file that is read in large pieces, made by `paceline datasets pack`.
//
// Numbers are little-endian. A header, the blocks of the training half, the blocks of the test half, nothing else:
//   header  "PLRECORD" · u32 version 1 · u32 header bytes · u32 content (1 images, 2 text) ·
//           u32 channels, height, width (text: 0) · u64 classes · u64 source vocabulary · u64 training records · u64 test records ·
//           u64 records per block (images; text: 0) · u64 file bytes · u32 length of the name · u32 0 ·
//           the name of what was packed · per channel f32 mean, f32 deviation · u32 CRC32C of all that
//   block   u64 payload bytes · u32 records · u32 CRC32C of these 12 bytes and the payload ·
//           the payload: records one behind the other
//   record  images: i32 label, C x H x W bytes · text: u32 source tokens, u32 target tokens, i32 for each token of the two
// A block holds about 1 MiB, at least one record, and only records of one half; with images all but a half's last block hold
// equally many, so that every record's place is known without an index.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "trainer/data/dataset.h"

namespace paceline::trainer::data {

// Writes both halves to `file`, so that there is never half a file (base/new_file.h). `on_progress` is told the number of records
// written so far, now and then; an error of its own ends the packing. Errors: that one; a sample cannot be read; kBadRequest when
// nothing can be written there, kIo when the disk refuses.
Status pack(const DatasetPair& pair, const std::filesystem::path& file, const std::function<Status(std::int64_t)>& on_progress);

// Images: checks header and sizes now, each block's checksum when it is first touched (or by `verify`); a mini-batch costs one read
// of a record for each sample then. Text: everything is read and checked now. kBadRequest: not a record file, another version,
// truncated, sizes that contradict each other; kCorrupt: a checksum differs. The message names file and byte.
Result<DatasetPair> open_records(const std::filesystem::path& file, const std::string& name);

// What the header says; apart, so that it can be fed with any bytes. `content` begins with the header, `file_bytes` is the file's
// size.
struct RecordHeader {
  Form form{};
  std::int64_t train_records = 0;
  std::int64_t test_records = 0;
  std::int64_t records_per_block = 0;
  std::int64_t header_bytes = 0;
  std::string packed_from{};
};
// `fixed`: the first 88 bytes, or the whole file where it is shorter. Gives the length of the header.
Result<std::int64_t> parse_record_header_size(std::span<const std::byte> fixed, std::int64_t file_bytes, const std::string& name);
Result<RecordHeader> parse_record_header(std::span<const std::byte> header, std::int64_t file_bytes, const std::string& name);

}  // namespace paceline::trainer::data
