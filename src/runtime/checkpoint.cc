#include "runtime/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/checksum.h"

namespace paceline::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMagic = "PACEPART";
constexpr std::size_t kPrefixBytes = 16;  // magic and length
constexpr std::size_t kCrcBytes = 4;
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 30;
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;
constexpr int kFormat = 1;
constexpr const char* kManifestName = "manifest.json";

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

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

std::string hex(std::uint32_t crc) { return fmt::format("{:08x}", crc); }

// Throws when it is no such number, as the other accessors of JSON do.
std::uint32_t crc_in(const Json& json, const char* key) {
  const std::string& text = json.at(key).get_ref<const std::string&>();
  std::uint32_t crc = 0;
  std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  if (hex(crc) != text) throw nlohmann::json::other_error::create(501, fmt::format("'{}' is no checksum", text), nullptr);
  return crc;
}

Json to_json(const PartHead& head) {
  Json arrays = Json::array();
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
  }
  return {{"format", kFormat}, {"role", head.role}, {"rank", head.rank}, {"iteration", head.iteration}, {"fingerprint", head.fingerprint}, {"arrays", arrays}};
}

PartHead part_head_from(const Json& json) {
  PartHead head;
  head.role = json.at("role");
  head.rank = json.at("rank");
  head.iteration = json.at("iteration");
  head.fingerprint = json.at("fingerprint");
  for (const Json& from : json.at("arrays")) {
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
    head.arrays.push_back(std::move(array));
  }
  return head;
}

Json to_json(const PartSummary& part) {
  Json json{{"name", part.name}, {"bytes", part.bytes}, {"crc32c", hex(part.crc)}};
  if (!part.failure.empty()) json["failure"] = part.failure;
  return json;
}

PartSummary part_summary_from(const Json& json) {
  PartSummary part;
  part.name = json.at("name");
  part.bytes = json.at("bytes");
  part.crc = crc_in(json, "crc32c");
  part.failure = json.value("failure", "");
  return part;
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

// The settings that decide which bits a job computes, with the words for people.
constexpr std::array<const char*, 12> kMustMatch = {"model",        "dataset",   "seed",       "mini-batch", "optimizer",  "learning-rate",
                                                    "momentum",     "weight-decay", "clip-norm", "sync",       "staleness",  "lookahead"};

std::string value_of(const wire::Settings& settings, std::string_view name) {
  for (const auto& [key, value] : settings) {
    if (key == name) return value;
  }
  return "";
}

}  // namespace

// --- parts ---

std::string encode(const PartSummary& summary) { return to_json(summary).dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<PartSummary> decode_part_summary(const std::string& text) {
  try {
    PartSummary part = part_summary_from(Json::parse(text));
    if (!is_part_name(part.name)) return error(ErrorKind::kCorrupt, "'{}' is no part of a checkpoint", part.name);
    return part;
  } catch (const nlohmann::json::exception& problem) {
    return error(ErrorKind::kCorrupt, "what a process says of its part of a checkpoint is malformed: {}", problem.what());
  }
}

Result<PartSummary> write_part(Files& files, const std::string& directory, PartHead head, const std::vector<std::span<const std::byte>>& contents) {
  PACELINE_CHECK(head.arrays.size() == contents.size(), "{} arrays, {} contents", head.arrays.size(), contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    head.arrays[i].bytes = contents[i].size();
    head.arrays[i].crc = crc32c(contents[i]);
  }
  const std::string header = to_json(head).dump();
  const auto length = little_endian(static_cast<std::uint64_t>(header.size()));
  const std::uint32_t header_crc = crc32c(bytes_of(header), crc32c(length, crc32c(bytes_of(kMagic))));
  const auto header_crc_bytes = little_endian(header_crc);

  std::vector<std::span<const std::byte>> pieces = {bytes_of(kMagic), length, bytes_of(header), header_crc_bytes};
  pieces.insert(pieces.end(), contents.begin(), contents.end());
  PartSummary summary{head.file_name(), 0, 0, ""};
  for (const auto piece : pieces) {
    summary.bytes += piece.size();
    summary.crc = crc32c(piece, summary.crc);
  }
  const std::string folder = checkpoint_folder(directory, head.iteration);
  PACELINE_RETURN_IF_ERROR(files.make_directories(folder));
  PACELINE_RETURN_IF_ERROR(write_file(files, folder + "/" + summary.name, pieces));
  return summary;
}

Result<PartReader> PartReader::open(Files& files, const std::string& path) {
  PartReader part;
  part.path_ = path;
  PACELINE_ASSIGN_OR_RETURN(part.file_, files.open(path));
  const auto damaged = [&](const std::string& what) { return error(ErrorKind::kCorrupt, "{} is damaged: {}", path, what); };
  const std::uint64_t size = part.file_->size();
  if (size < kPrefixBytes + kCrcBytes) return damaged(fmt::format("it has only {} bytes", size));
  std::array<std::byte, kPrefixBytes> prefix;
  PACELINE_RETURN_IF_ERROR(part.file_->read(0, prefix));
  if (!std::ranges::equal(std::span(prefix).first(kMagic.size()), bytes_of(kMagic))) return damaged("it does not begin like a part of a checkpoint");
  const auto length = from_little_endian<std::uint64_t>(std::span(prefix).subspan(kMagic.size()));
  if (length > std::min(kMaxHeaderBytes, size - kPrefixBytes - kCrcBytes)) return damaged(fmt::format("its header cannot have {} bytes", length));
  std::string header(length, '\0');
  PACELINE_RETURN_IF_ERROR(part.file_->read(kPrefixBytes, std::as_writable_bytes(std::span(header))));
  std::array<std::byte, kCrcBytes> crc;
  PACELINE_RETURN_IF_ERROR(part.file_->read(kPrefixBytes + length, crc));
  if (crc32c(bytes_of(header), crc32c(prefix)) != from_little_endian<std::uint32_t>(crc)) return damaged("its header does not match its checksum");
  try {
    const Json json = Json::parse(header);
    if (json.at("format") != kFormat) return damaged("it is of another format than this release reads");
    part.head_ = part_head_from(json);
  } catch (const nlohmann::json::exception& problem) {
    return damaged(fmt::format("its header is malformed: {}", problem.what()));
  }
  std::uint64_t place = kPrefixBytes + length + kCrcBytes;
  for (const SavedArray& array : part.head_.arrays) {
    part.places_.push_back(place);
    if (part.head_.role == "server" && !has_room(array)) return damaged(fmt::format("tensor \"{}\" has an impossible size", array.name));
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
  if (crc32c(to) == array.crc) return {};
  return error(ErrorKind::kCorrupt, "{} is damaged: tensor \"{}\" (arena offset {}, {} elements) does not match its checksum", path_, array.name, array.offset, array.elements);
}

Status PartReader::verify(const PartSummary& expected) const {
  std::vector<std::byte> buffer(kReadAtOnce);
  std::uint32_t whole = 0;
  const auto sum = [&](std::uint64_t begin, std::uint64_t end) -> Result<std::uint32_t> {
    std::uint32_t crc = 0;
    while (begin < end) {
      const auto piece = std::span(buffer).first(std::min<std::uint64_t>(kReadAtOnce, end - begin));
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
      return error(ErrorKind::kCorrupt, "{} is damaged: tensor \"{}\" (arena offset {}, {} elements) does not match its checksum", path_, array.name, array.offset,
                   array.elements);
    }
  }
  if (file_->size() != expected.bytes || whole != expected.crc) {
    return error(ErrorKind::kCorrupt, "{} is not the file that the manifest beside it was written for (bytes {} against {}, CRC32C {} against {})", path_, file_->size(),
                 expected.bytes, hex(whole), hex(expected.crc));
  }
  return {};
}

// --- manifest ---

std::string checkpoint_folder(const std::string& directory, Iteration iteration) { return fmt::format("{}/{:08}", directory, iteration); }

// The text is one JSON object whose last member is the CRC32C of every byte before it, so that the check needs no canonical form.
std::string to_text(const Manifest& manifest) {
  Json settings = Json::object(), tensors = Json::array(), parts = Json::array();
  for (const auto& [name, value] : manifest.settings) settings[name] = value;
  for (const wire::TensorInfo& tensor : manifest.table.tensors) {
    tensors.push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"layer", tensor.layer.index}, {"group", tensor.group}});
  }
  for (const PartSummary& part : manifest.parts) parts.push_back(to_json(part));
  std::string text = Json{{"format", kFormat},
                          {"iteration", manifest.iteration},
                          {"release", manifest.release},
                          {"workers", manifest.workers},
                          {"servers", manifest.servers},
                          {"settings", settings},
                          {"layers", manifest.table.layers},
                          {"tensors", tensors},
                          {"parts", parts}}
                         .dump(1);
  text.resize(text.size() - 2);  // "\n}"
  text += ",\n \"crc32c\": \"";
  return text + hex(crc32c(bytes_of(text))) + "\"\n}\n";
}

Result<Manifest> parse_manifest(const std::string& text, const std::string& path) {
  constexpr std::string_view kEnd = "\"\n}\n";
  constexpr std::size_t kHexDigits = 8;
  const auto damaged = [&](const std::string& what) { return error(ErrorKind::kCorrupt, "{} is damaged: {}", path, what); };
  if (text.size() < kHexDigits + kEnd.size() || !text.ends_with(kEnd)) return damaged("it does not end like a manifest");
  const std::string_view body(text.data(), text.size() - kEnd.size() - kHexDigits);
  if (text.substr(body.size(), kHexDigits) != hex(crc32c(bytes_of(body)))) return damaged("it does not match its checksum");
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat) return error(ErrorKind::kCorrupt, "{} is of format {}; this release reads format {}", path, json.at("format").dump(), kFormat);
    Manifest manifest;
    manifest.iteration = json.at("iteration");
    manifest.release = json.at("release");
    manifest.workers = json.at("workers");
    manifest.servers = json.at("servers");
    for (const auto& [name, value] : json.at("settings").items()) manifest.settings.emplace_back(name, value.get<std::string>());
    manifest.table.layers = json.at("layers").get<std::vector<std::string>>();
    for (const Json& tensor : json.at("tensors")) {
      manifest.table.tensors.push_back({tensor.at("name"), tensor.at("dtype"), tensor.at("shape").get<std::vector<std::int64_t>>(), Layer{tensor.at("layer")}, tensor.at("group")});
    }
    for (const Json& part : json.at("parts")) {
      manifest.parts.push_back(part_summary_from(part));
      if (!is_part_name(manifest.parts.back().name)) return damaged(fmt::format("it names '{}', which is no part", manifest.parts.back().name));
    }
    if (manifest.iteration < 1 || manifest.workers < 1) return damaged("it has no workers or no iteration");
    PACELINE_RETURN_IF_ERROR(wire::validate(manifest.table));
    return manifest;
  } catch (const nlohmann::json::exception& problem) {
    return damaged(problem.what());
  }
}

Status write_manifest(Files& files, const std::string& directory, const Manifest& manifest) {
  const std::string folder = checkpoint_folder(directory, manifest.iteration);
  const std::string text = to_text(manifest);
  const std::array pieces = {bytes_of(text)};
  PACELINE_RETURN_IF_ERROR(write_file(files, folder + "/" + kManifestName, pieces));
  return files.sync_directory(directory);
}

Result<Manifest> read_manifest(Files& files, const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  PACELINE_ASSIGN_OR_RETURN(const auto file, files.open(path));
  if (file->size() > kMaxHeaderBytes) return error(ErrorKind::kCorrupt, "{} is damaged: no manifest has {} bytes", path, file->size());
  std::string text(file->size(), '\0');
  PACELINE_RETURN_IF_ERROR(file->read(0, std::as_writable_bytes(std::span(text))));
  return parse_manifest(text, path);
}

// --- whole checkpoints ---

Status verify_checkpoint(Files& files, const std::string& folder, const Manifest& manifest) {
  if (checkpoint_folder("", manifest.iteration) != folder.substr(folder.rfind('/'))) {
    return error(ErrorKind::kCorrupt, "{}/{} belongs to iteration {}, not into this folder", folder, kManifestName, manifest.iteration);
  }
  std::int32_t workers = 0;
  std::map<std::int64_t, std::int64_t> ranges;  // of the arena: begin to end
  for (const PartSummary& expected : manifest.parts) {
    const std::string path = folder + "/" + expected.name;
    PACELINE_ASSIGN_OR_RETURN(const PartReader part, PartReader::open(files, path));
    const PartHead& head = part.head();
    if (head.file_name() != expected.name || head.iteration != manifest.iteration) {
      return error(ErrorKind::kCorrupt, "{} is the part {} of iteration {}, not that of iteration {}", path, head.file_name(), head.iteration, manifest.iteration);
    }
    PACELINE_RETURN_IF_ERROR(part.verify(expected));
    if (head.role == "worker") ++workers;
    if (head.role != "server") continue;
    for (const SavedArray& array : head.arrays) {
      if (!ranges.emplace(array.offset, array.offset + array.elements).second) {
        return error(ErrorKind::kCorrupt, "{} is damaged: tensor \"{}\" is there twice", path, array.name);
      }
    }
  }
  std::int64_t covered = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != covered) break;
    covered = end;
  }
  if (workers != manifest.workers || covered != manifest.table.elements() || (!ranges.empty() && ranges.rbegin()->second != covered)) {
    return error(ErrorKind::kCorrupt, "{} is damaged: it lacks parts of the model, or of {} workers", folder, manifest.workers);
  }
  return {};
}

Result<std::map<Iteration, bool>> list_checkpoints(Files& files, const std::string& directory) {
  std::map<Iteration, bool> found;
  PACELINE_ASSIGN_OR_RETURN(const auto names, files.list(directory));
  for (const std::string& name : names) {
    Iteration iteration = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), iteration);
    if (problem != std::errc() || iteration < 1 || checkpoint_folder("", iteration) != "/" + name) continue;
    PACELINE_ASSIGN_OR_RETURN(const auto inside, files.list(directory + "/" + name));
    found[iteration] = std::ranges::binary_search(inside, kManifestName);
  }
  return found;
}

Result<FoundCheckpoint> newest_good_checkpoint(Files& files, const std::string& directory) {
  PACELINE_ASSIGN_OR_RETURN(const auto all, list_checkpoints(files, directory));
  FoundCheckpoint found;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    found.folder = checkpoint_folder(directory, at->first);
    if (!at->second) {
      found.warnings.push_back(fmt::format("the checkpoint {} was never finished (it has no {}) and is left out", found.folder, kManifestName));
      continue;
    }
    auto manifest = read_manifest(files, found.folder);
    const Status status = manifest.ok() ? verify_checkpoint(files, found.folder, *manifest) : manifest.status();
    if (status.ok()) {
      found.manifest = std::move(*manifest);
      return found;
    }
    found.warnings.push_back(fmt::format("the checkpoint {} is left out: {}", found.folder, status.message()));
  }
  const bool any = std::ranges::any_of(all, [](const auto& entry) { return entry.second; });
  if (!any) return error(ErrorKind::kBadRequest, "--resume finds no checkpoint in {}; give the directory of an earlier job, or leave --resume out", directory);
  return error(ErrorKind::kCorrupt, "--resume finds no good checkpoint in {}: {}", directory, fmt::join(found.warnings, "; "));
}

Status can_resume(const FoundCheckpoint& checkpoint, const wire::Settings& settings, const wire::TensorTable& table, std::int32_t workers) {
  const auto refused = [&](const std::string& difference) {
    return error(ErrorKind::kBadRequest, "the checkpoint {} is of another job: {}; give what it was made with, or another --checkpoint", checkpoint.folder, difference);
  };
  for (const char* name : kMustMatch) {
    const std::string saved = value_of(checkpoint.manifest.settings, name), wanted = value_of(settings, name);
    if (saved != wanted) return refused(fmt::format("--{} {} there against {} here", name, saved, wanted));
  }
  if (checkpoint.manifest.workers != workers) return refused(fmt::format("--workers {} there against {} here", checkpoint.manifest.workers, workers));
  if (const auto difference = wire::first_difference(checkpoint.manifest.table, table)) return refused(*difference);
  return {};
}

Status prune_checkpoints(Files& files, const std::string& directory, std::size_t keep) {
  PACELINE_ASSIGN_OR_RETURN(const auto all, list_checkpoints(files, directory));
  std::size_t complete = 0;
  Status first;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    const bool is_complete = at->second;
    if (is_complete ? ++complete <= keep : complete == 0) continue;
    const std::string folder = checkpoint_folder(directory, at->first);
    // Without its manifest it is none, so that no half of one can be taken for a whole.
    Status status = is_complete ? files.remove_all(folder + "/" + kManifestName) : Status();
    if (status.ok() && is_complete) status = files.sync_directory(folder);
    if (status.ok()) status = files.remove_all(folder);
    if (!status.ok() && first.ok()) first = status;
  }
  return first;
}

Status clear_newer_checkpoints(Files& files, const std::string& directory, Iteration resumed) {
  PACELINE_ASSIGN_OR_RETURN(const auto all, list_checkpoints(files, directory));
  for (auto at = all.upper_bound(resumed); at != all.end(); ++at) {
    const std::string folder = checkpoint_folder(directory, at->first), aside = folder + ".damaged";
    if (at->second) {
      PACELINE_RETURN_IF_ERROR(files.remove_all(aside));
      PACELINE_RETURN_IF_ERROR(files.rename(folder, aside));
    } else {
      PACELINE_RETURN_IF_ERROR(files.remove_all(folder));
    }
  }
  return {};
}

// --- the model in a checkpoint ---

Result<SavedModel> SavedModel::open(Files& files, const std::string& folder) {
  SavedModel model;
  PACELINE_ASSIGN_OR_RETURN(model.manifest_, read_manifest(files, folder));
  for (const PartSummary& expected : model.manifest_.parts) {
    if (!expected.name.starts_with("server-")) continue;
    PACELINE_ASSIGN_OR_RETURN(PartReader part, PartReader::open(files, folder + "/" + expected.name));
    for (std::size_t array = 0; array < part.head().arrays.size(); ++array) {
      model.by_offset_[part.head().arrays[array].offset] = {model.servers_.size(), array};
    }
    model.servers_.push_back(std::move(part));
  }
  return model;
}

Status SavedModel::load(const Place& place) {
  const SavedArray& array = servers_[place.part].head().arrays[place.array];
  if (loaded_offset_ == array.offset) return {};
  loaded_offset_.reset();
  loaded_.resize(array.bytes);
  PACELINE_RETURN_IF_ERROR(servers_[place.part].read(place.array, loaded_));
  loaded_offset_ = array.offset;
  return {};
}

Result<std::int64_t> SavedModel::read(std::int64_t offset, std::span<float> value, std::span<float> state) {
  PACELINE_CHECK(!value.empty() && state.size() % value.size() == 0, "{} values, {} numbers of state", value.size(), state.size());
  const auto planes = static_cast<std::int64_t>(state.size() / value.size());
  std::optional<std::int64_t> steps;
  for (std::size_t done = 0; done < value.size();) {
    const std::int64_t at = offset + static_cast<std::int64_t>(done);
    auto entry = by_offset_.upper_bound(at);
    if (entry == by_offset_.begin()) return error(ErrorKind::kCorrupt, "the checkpoint has no value at arena offset {}", at);
    const Place place = (--entry)->second;
    const SavedArray& array = servers_[place.part].head().arrays[place.array];
    if (at >= array.offset + array.elements) return error(ErrorKind::kCorrupt, "the checkpoint has no value at arena offset {}", at);
    if (planes != 0 && planes != array.planes) {
      return error(ErrorKind::kBadRequest, "the checkpoint has {} planes of optimizer state for tensor \"{}\", the job has {}", array.planes, array.name, planes);
    }
    if (steps && *steps != array.steps) {
      return error(ErrorKind::kBadRequest, "the checkpoint has parts of tensor \"{}\" after {} and after {} updates, and this job keeps them as one; use the schedule it was made with",
                   array.name, *steps, array.steps);
    }
    steps = array.steps;
    PACELINE_RETURN_IF_ERROR(load(place));
    const auto skip = static_cast<std::size_t>(at - array.offset);
    const std::size_t count = std::min(value.size() - done, static_cast<std::size_t>(array.elements) - skip);
    const auto copy = [&](std::int64_t plane, std::span<float> to) {
      const std::size_t from = static_cast<std::size_t>(plane * array.elements) + skip;
      std::memcpy(to.data() + done, loaded_.data() + from * sizeof(float), count * sizeof(float));
    };
    copy(0, value);
    for (std::int64_t plane = 0; plane < planes; ++plane) copy(plane + 1, state.subspan(static_cast<std::size_t>(plane) * value.size(), value.size()));
    done += count;
  }
  return *steps;
}

}  // namespace paceline::runtime
