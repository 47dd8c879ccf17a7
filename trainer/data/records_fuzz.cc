// Any bytes as a record file, read through to the last sample. The first byte says whether the checksums and the stated size are
// made right first, so that what lies behind them is reached as well.
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "base/checksum.h"
#include "trainer/data/record_format.h"
#include "trainer/data/records.h"

namespace {

using namespace paceline::trainer::data;
using namespace paceline::trainer::data::record_format;

void make_checks_right(std::vector<std::byte>& file) {
  const auto file_bytes = static_cast<std::int64_t>(file.size());
  const auto header_bytes = parse_record_header_size(file, file_bytes, "fuzz");
  if (!header_bytes.ok()) return;
  auto at = static_cast<std::size_t>(*header_bytes);
  std::memcpy(file.data() + kFileBytesAt, &file_bytes, sizeof file_bytes);
  const std::uint32_t header_crc = paceline::crc32c(std::span(file).first(at - 4));
  std::memcpy(file.data() + at - 4, &header_crc, sizeof header_crc);
  while (at + kBlockHead <= file.size()) {
    const auto payload = number_at<std::uint64_t>(file, at);
    const std::span<const std::byte> rest = std::span(file).subspan(at);
    if (payload > rest.size() - kBlockHead) return;
    const std::uint32_t crc = paceline::crc32c(rest.subspan(kBlockHead, payload), paceline::crc32c(rest.first(12)));
    std::memcpy(file.data() + at + 12, &crc, sizeof crc);
    at += kBlockHead + payload;
  }
}

void read_through(const Dataset& set) {
  Sample sample;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    if (!set.load(i, sample).ok()) return;
    const std::int64_t largest = set.form().classes;
    for (const std::int64_t target : sample.target) {
      if (target < 0 || target >= largest) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const auto* content = reinterpret_cast<const std::byte*>(bytes);
  std::vector<std::byte> file(content + 1, content + size);
  if (bytes[0] % 2 == 1) make_checks_right(file);

  const int in_memory = memfd_create("records", 0);
  if (in_memory < 0 || write(in_memory, file.data(), file.size()) != static_cast<ssize_t>(file.size())) std::abort();
  if (const auto pair = open_records("/proc/self/fd/" + std::to_string(in_memory), "fuzz"); pair.ok()) {
    read_through(*pair->train);
    read_through(*pair->test);
  }
  close(in_memory);
  return 0;
}
