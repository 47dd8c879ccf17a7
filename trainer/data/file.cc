#include "trainer/data/file.h"

#include <algorithm>
#include <memory>

#include <zlib.h>

namespace paceline::trainer::data {

Result<File> File::open(const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(auto reader, system_files().open(path.string()));
  return File(path, std::move(reader));
}

// A data set that ends too early is a wrong request: nobody wrote a checksum that says how it was.
Status File::read_at(std::int64_t offset, std::span<std::byte> to) const {
  const Status status = reader_->read(static_cast<std::uint64_t>(offset), to);
  return status.ok() || status.kind() != ErrorKind::kCorrupt ? status : Status(ErrorKind::kBadRequest, status.message());
}

Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, Bytes limit) {
  PACELINE_ASSIGN_OR_RETURN(const File file, File::open(path));
  if (file.size() > limit.count) {
    return error(ErrorKind::kBadRequest, "{}: {} bytes, at most {} can be handled", path.string(), file.size(), limit.count);
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
  PACELINE_RETURN_IF_ERROR(file.read_at(0, bytes));
  return bytes;
}

std::uint32_t big_endian_32(std::span<const std::byte> bytes, std::size_t at) {
  PACELINE_CHECK(at + 4 <= bytes.size(), "4 bytes at {} of {}", at, bytes.size());
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
  return value;
}

Result<Inflated> gunzip(std::span<const std::byte> compressed, std::int64_t limit, const std::string& name) {
  PACELINE_CHECK(limit >= 0, "a limit of {} bytes", limit);
  constexpr std::size_t kStep = 1 << 16;
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return error(ErrorKind::kOverloaded, "{}: no memory to inflate it", name);
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, &inflateEnd);
  const auto all_given = [&] { return stream.next_in == reinterpret_cast<const Bytef*>(compressed.data()) + compressed.size(); };
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(compressed.data()));

  Inflated result;
  std::vector<std::byte> piece(kStep);
  for (;;) {
    const std::byte* given = reinterpret_cast<const std::byte*>(stream.next_in);
    const auto left = static_cast<std::size_t>(compressed.data() + compressed.size() - given);
    stream.avail_in = static_cast<uInt>(std::min<std::size_t>(left, 1u << 30));
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int problem = inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = piece.size() - stream.avail_out;
    const std::size_t room = static_cast<std::size_t>(limit) - result.bytes.size();
    result.bytes.insert(result.bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(std::min(made, room)));
    if (made > room) {
      result.more = true;
      return result;
    }
    if (problem == Z_STREAM_END) {
      if (all_given()) return result;
      if (inflateReset(&stream) != Z_OK) return error(ErrorKind::kBadRequest, "{}: not a gzip file", name);
      continue;
    }
    if (problem == Z_BUF_ERROR || (problem == Z_OK && made == 0 && all_given())) {
      return error(ErrorKind::kBadRequest, "{}: truncated: the gzip stream ends too early, after {} bytes of content", name,
                   result.bytes.size());
    }
    if (problem != Z_OK) {
      return error(ErrorKind::kBadRequest, "{}: the gzip stream is damaged after {} bytes of content: {}", name,
                   result.bytes.size(), stream.msg ? stream.msg : "unknown reason");
    }
  }
}

}  // namespace paceline::trainer::data
