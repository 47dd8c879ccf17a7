#include "checkpoint/checkpoint_part.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/checksum.h"
#include "base/new_file.h"
#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_json.h"
#include "report/json_text.h"

namespace paceline::checkpoint {
namespace {

using report::Json;

constexpr std::size_t kPrefixBytes = 16;  // magic and length
constexpr std::size_t kCrcBytes = 4;
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 30;
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;

template <typename Integer>
std::array<std::byte, sizeof(Integer)> little_endian(Integer value) {
  std::array<std::byte, sizeof(Integer)> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

template <typename Integer>
Integer from_little_endian(std::span<const std::byte> bytes) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) value |= static_cast<Integer>(static_cast<Integer>(bytes[i]) << (8 * i));
  return value;
}

// Throws when it is no such number, as the other accessors of JSON do.
std::uint32_t crc_in(const report::Json& json, const char* key) {
  const std::string& text = json.at(key).get_ref<const std::string&>();
  std::uint32_t crc = 0;
  std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  if (hex(crc) != text) throw nlohmann::json::other_error::create(501, fmt::format("'{}' is no checksum", text), nullptr);
  return crc;
}

report::Json to_json(const PartHead& head) {
  report::Json arrays = report::Json::array();
  for (const SavedArray& array : head.arrays) {
    arrays.push_back({{"name", array.name},
                      {"dtype", array.dtype},
                      {"shape", array.shape},
                      {"offset", array.offset},
                      {"elements", array.elements},
                      {"planes", array.planes},
                      {"steps", array.steps},
                      {"bytes", array.bytes},
                      {"crc32c", hex(array.crc)}});
    if (!array.seal.empty()) arrays.back()["hmac"] = array.seal;
  }
  return {{"format", kCheckpointFormat},     {"role", head.role}, {"rank", head.rank}, {"iteration", head.iteration},
          {"fingerprint", head.fingerprint}, {"arrays", arrays}};
}

PartHead part_head_from(const report::Json& json) {
  PartHead head;
  head.role = json.at("role");
  head.rank = json.at("rank");
  head.iteration = json.at("iteration");
  head.fingerprint = json.at("fingerprint");
  for (const report::Json& from : json.at("arrays")) {
    SavedArray array;
    array.name = from.at("name");
    array.dtype = from.at("dtype");
    array.shape = from.at("shape").get<std::vector<std::int64_t>>();
    array.offset = from.at("offset");
    array.elements = from.at("elements");
    array.planes = from.at("planes");
    array.steps = from.at("steps");
    array.bytes = from.at("bytes");
    array.crc = crc_in(from, "crc32c");
    array.seal = from.value("hmac", "");
    head.arrays.push_back(std::move(array));
  }
  return head;
}

// A part's name comes from outside and becomes a path.
bool is_part_name(const std::string& name) {
  for (const std::string_view role : {"server-", "worker-"}) {
    if (!name.starts_with(role) || !name.ends_with(".bin")) continue;
    const std::string_view number = std::string_view(name).substr(role.size(), name.size() - role.size() - 4);
    return !number.empty() && number.size() <= 9 && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  }
  return false;
}

// Whether a server's array has the bytes that its elements and planes take.
bool has_room(const SavedArray& array) {
  constexpr std::int64_t kMostPlanes = 8;
  if (array.offset < 0 || array.elements < 1 || array.planes < 0 || array.planes > kMostPlanes) return false;
  const auto bytes_of_element = static_cast<std::uint64_t>(1 + array.planes) * sizeof(float);
  return array.bytes % bytes_of_element == 0 && array.bytes / bytes_of_element == static_cast<std::uint64_t>(array.elements);
}

}  // namespace

std::int64_t whole_at(const report::Json& json, const char* key, std::int64_t least, std::int64_t most) {
  const report::Json& value = json.at(key);
  // What is larger than an int64 is unsigned.
  const bool whole =
      value.is_number_integer() &&
      !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  if (!whole || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    throw nlohmann::json::other_error::create(501, fmt::format("'{}' is {}", key, value.dump()), nullptr);
  return value;
}

std::string hex(std::uint32_t crc) { return fmt::format("{:08x}", crc); }

report::Json to_json(const PartSummary& part) {
  report::Json json{{"name", part.name}, {"bytes", part.bytes}, {"crc32c", hex(part.crc)}};
  if (!part.seal.empty()) json["hmac"] = part.seal;
  if (!part.failure.empty()) json["failure"] = part.failure;
  return json;
}

PartSummary part_summary_from(const report::Json& json) {
  PartSummary part;
  part.name = json.at("name");
  part.bytes = json.at("bytes");
  part.crc = crc_in(json, "crc32c");
  if (!is_part_name(part.name))
    throw nlohmann::json::other_error::create(501, fmt::format("'{}' is no part of a checkpoint", part.name), nullptr);
  part.seal = json.value("hmac", "");
  part.failure = json.value("failure", "");
  return part;
}

std::string encode(const PartSummary& summary) {
  return to_json(summary).dump(-1, ' ', false, report::Json::error_handler_t::replace);
}

Result<PartSummary> decode_part_summary(const std::string& text) {
  try {
    PACELINE_ASSIGN_OR_RETURN(const report::Json json,
                              report::parse_foreign(text, "what a process says of its part of a checkpoint"));
    return part_summary_from(json);
  } catch (const nlohmann::json::exception& problem) {
    return error(ErrorKind::kCorrupt, "what a process says of its part of a checkpoint is malformed: {}", problem.what());
  }
}

Result<PartSummary> write_part(Files& files, const std::string& directory, PartHead head,
                               const std::vector<std::span<const std::byte>>& contents, const CheckpointSeal& seal,
                               IfFinished if_finished) {
  PACELINE_CHECK(head.arrays.size() == contents.size(), "{} arrays, {} contents", head.arrays.size(), contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    head.arrays[i].bytes = contents[i].size();
    head.arrays[i].crc = crc32c(contents[i]);
    head.arrays[i].seal = seal.tag(kSealedArray, contents[i]);
  }
  const std::string header = to_json(head).dump(-1, ' ', false, report::Json::error_handler_t::replace);
  const auto length = little_endian(static_cast<std::uint64_t>(header.size()));
  const std::uint32_t header_crc = crc32c(bytes_of(header), crc32c(length, crc32c(bytes_of(kPartMagic))));
  const auto header_crc_bytes = little_endian(header_crc);

  std::vector<std::span<const std::byte>> pieces = {bytes_of(kPartMagic), length, bytes_of(header), header_crc_bytes};
  pieces.insert(pieces.end(), contents.begin(), contents.end());
  PartSummary summary{.name = head.file_name(), .seal = seal.tag(kSealedHead, bytes_of(header))};
  for (const auto piece : pieces) {
    summary.bytes += piece.size();
    summary.crc = crc32c(piece, summary.crc);
  }
  const std::string folder = checkpoint_folder(directory, head.iteration);
  PACELINE_RETURN_IF_ERROR(make_checkpoint_folder(files, folder));
  PACELINE_ASSIGN_OR_RETURN(const auto file, NewFile::create(files, folder + "/" + summary.name));
  for (const auto piece : pieces) PACELINE_RETURN_IF_ERROR(file->writer().append(piece));
  if (if_finished == IfFinished::kRefuse && files.open(folder + "/" + kManifestName).ok())
    return error(ErrorKind::kIo, "{} is finished, by another job; {} is late", folder, summary.name);
  PACELINE_RETURN_IF_ERROR(file->finish());
  PACELINE_RETURN_IF_ERROR(files.sync_directory(folder));
  return summary;
}

Result<PartReader> PartReader::open(Files& files, const std::string& path, const CheckpointSeal& seal, const std::string& sealed) {
  PartReader part;
  part.path_ = path;
  part.seal_ = seal;
  PACELINE_ASSIGN_OR_RETURN(part.file_, files.open(path));
  const auto damaged = [&](const std::string& what) {
    return error(ErrorKind::kCorrupt, "{} is damaged: {}", path, what).because({"bad-checkpoint", ""});
  };
  const std::uint64_t size = part.file_->size();
  if (size < kPrefixBytes + kCrcBytes) return damaged(fmt::format("it has only {} bytes", size));
  std::array<std::byte, kPrefixBytes> prefix;
  PACELINE_RETURN_IF_ERROR(part.file_->read(0, prefix));
  if (!std::ranges::equal(std::span(prefix).first(kPartMagic.size()), bytes_of(kPartMagic)))
    return damaged("it does not begin like a part of a checkpoint");
  const auto length = from_little_endian<std::uint64_t>(std::span(prefix).subspan(kPartMagic.size()));
  if (length > std::min(kMaxHeaderBytes, size - kPrefixBytes - kCrcBytes))
    return damaged(fmt::format("its header cannot have {} bytes", length));
  std::string header(length, '\0');
  PACELINE_RETURN_IF_ERROR(part.file_->read(kPrefixBytes, std::as_writable_bytes(std::span(header))));
  std::array<std::byte, kCrcBytes> crc;
  PACELINE_RETURN_IF_ERROR(part.file_->read(kPrefixBytes + length, crc));
  if (crc32c(bytes_of(header), crc32c(prefix)) != from_little_endian<std::uint32_t>(crc))
    return damaged("its header does not match its checksum");
  PACELINE_RETURN_IF_ERROR(seal.check(kSealedHead, bytes_of(header), sealed, path));
  try {
    PACELINE_ASSIGN_OR_RETURN(const report::Json json,
                              report::parse_foreign(header, fmt::format("{} is damaged: its header", path)));
    if (json.at("format") != kCheckpointFormat) return damaged("it is of another format than this release reads");
    part.head_ = part_head_from(json);
  } catch (const nlohmann::json::exception& problem) {
    return damaged(fmt::format("its header is malformed: {}", problem.what()));
  }
  std::uint64_t place = kPrefixBytes + length + kCrcBytes;
  for (const SavedArray& array : part.head_.arrays) {
    part.places_.push_back(place);
    if (part.head_.role == "server" && !has_room(array))
      return damaged(fmt::format("tensor \"{}\" has an impossible size", array.name));
    if (array.bytes > size - place) return damaged(fmt::format("it ends inside tensor \"{}\"", array.name));
    place += array.bytes;
  }
  if (place != size) return damaged(fmt::format("it has {} bytes, and {} are right", size, place));
  return part;
}

Status PartReader::read(std::size_t index, std::span<std::byte> to) const {
  const SavedArray& array = head_.arrays[index];
  PACELINE_CHECK(to.size() == array.bytes, "{} bytes for an array of {}", to.size(), array.bytes);
  PACELINE_RETURN_IF_ERROR(file_->read(places_[index], to));
  if (crc32c(to) == array.crc)
    return seal_.check(kSealedArray, to, array.seal, fmt::format("{}: tensor \"{}\"", path_, array.name));
  return error(ErrorKind::kCorrupt, "{} is damaged: tensor \"{}\" (arena offset {}, {} elements) does not match its checksum",
               path_, array.name, array.offset, array.elements);
}

Status PartReader::verify(const PartSummary& expected) const {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kReadAtOnce, file_->size()));
  std::uint32_t whole = 0;
  const auto sum = [&](std::uint64_t begin, std::uint64_t end) -> Result<std::uint32_t> {
    std::uint32_t crc = 0;
    while (begin < end) {
      const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), end - begin));
      PACELINE_RETURN_IF_ERROR(file_->read(begin, piece));
      crc = crc32c(piece, crc);
      whole = crc32c(piece, whole);
      begin += piece.size();
    }
    return crc;
  };
  PACELINE_RETURN_IF_ERROR(sum(0, places_.empty() ? file_->size() : places_[0]).status());
  for (std::size_t i = 0; i < head_.arrays.size(); ++i) {
    const SavedArray& array = head_.arrays[i];
    PACELINE_ASSIGN_OR_RETURN(const std::uint32_t crc, sum(places_[i], places_[i] + array.bytes));
    if (crc != array.crc) {
      return error(ErrorKind::kCorrupt, "{} is damaged: tensor \"{}\" (arena offset {}, {} elements) does not match its checksum",
                   path_, array.name, array.offset, array.elements);
    }
  }
  if (seal_) {
    for (std::size_t i = 0; i < head_.arrays.size(); ++i) {
      buffer.resize(head_.arrays[i].bytes);
      PACELINE_RETURN_IF_ERROR(read(i, buffer));
    }
  }
  if (file_->size() != expected.bytes || whole != expected.crc) {
    return error(ErrorKind::kCorrupt,
                 "{} is not the file that the manifest beside it was written for (bytes {} against {}, CRC32C {} against {})",
                 path_, file_->size(), expected.bytes, hex(whole), hex(expected.crc));
  }
  return {};
}

}  // namespace paceline::checkpoint
