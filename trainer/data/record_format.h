// Places and limits inside record files, shared by writer and reader (records.h describes the format).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace paceline::trainer::data::record_format {

static_assert(std::endian::native == std::endian::little, "record files are read and written without swapping bytes");

constexpr char kMagic[] = "PLRECORD";
constexpr std::uint32_t kVersion = 1;
enum ContentCode : std::uint32_t { kImageRecords = 1, kTextRecords = 2 };

// Byte positions in the header.
constexpr std::size_t kVersionAt = 8, kHeaderBytesAt = 12, kContentAt = 16, kChannelsAt = 20, kHeightAt = 24, kWidthAt = 28,
                      kClassesAt = 32, kSourceVocabularyAt = 40, kTrainAt = 48, kTestAt = 56, kPerBlockAt = 64, kFileBytesAt = 72,
                      kNameLengthAt = 80, kFixed = 88;
constexpr std::uint32_t kLongestName = 4096;
constexpr std::int64_t kLargestInput = std::int64_t{1} << 28;  // values of a sample
constexpr std::int64_t kMostChannels = 65536;
constexpr std::int64_t kMostClasses = std::int64_t{1} << 31;  // labels and tokens are 32-bit
constexpr std::int64_t kBlockBytes = 1 << 20;                 // what a block aims at
constexpr std::int64_t kBlockHead = 16;

template <typename Number>
Number number_at(std::span<const std::byte> bytes, std::size_t at) {
  Number number;
  std::memcpy(&number, bytes.subspan(at, sizeof number).data(), sizeof number);
  return number;
}

template <typename Number>
void append(std::vector<std::byte>& bytes, Number number) {
  const auto* first = reinterpret_cast<const std::byte*>(&number);
  bytes.insert(bytes.end(), first, first + sizeof number);
}

}  // namespace paceline::trainer::data::record_format
