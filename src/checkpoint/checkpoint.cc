#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/ranges.h>

#include "base/checksum.h"
#include "base/new_file.h"
#include "checkpoint/checkpoint_json.h"
#include "collectives/exec/operation.h"
#include "collectives/training/loop_options.h"
#include "job/option.h"
#include "report/json_text.h"

namespace paceline::checkpoint {
namespace {

using report::Json;

constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30;

constexpr std::string_view kHmac = ",\n \"hmac\": \"", kCrc = "\",\n \"crc32c\": \"";

// Of the text up to its CRC32C.
Status check_seal(std::string_view body, const std::string& path, const CheckpointSeal& seal) {
  const std::size_t digits = 2 * sizeof(Proof), behind = digits + kCrc.size();
  const bool sealed = body.size() > behind + kHmac.size() && body.ends_with(kCrc) &&
                      body.substr(body.size() - behind - kHmac.size(), kHmac.size()) == kHmac;
  if (!sealed) return seal.check(kSealedManifest, {}, "", path);
  const std::string_view tag = body.substr(body.size() - behind, digits);
  return seal.check(kSealedManifest, bytes_of(body.substr(0, body.size() - behind - kHmac.size())), tag, path);
}

std::string said(const std::string& text) { return text.empty() ? "the default" : text; }

// In which order a job adds the workers' gradients, for people; what decides it when that is not the ranks' order.
std::string sums_of(const job::JobSpec& spec, std::int32_t workers) {
  constexpr const char* kUsual = "in rank order";
  if (spec.has_servers()) return kUsual;
  const auto training = job::training_of(spec);
  if (!training.ok() || collectives::rules_of(*training, workers).order == collectives::SumOrder::kRank) return kUsual;
  return fmt::format("as --collective {} --algorithm {} --merge {} does", to_string(training->loop),
                     training->algorithm ? collectives::to_string(*training->algorithm) : "best", spec.schedule.merge.value_or(0));
}

}  // namespace

// --- manifest ---

// The text is one JSON object whose last member is the CRC32C of every byte before it, so that the check needs no canonical form.
// Before that stands, in one that is sealed, the tag of every byte before that.
std::string manifest_text(const Manifest& manifest, const CheckpointSeal& seal) {
  report::Json settings = report::Json::object(), tensors = report::Json::array(), parts = report::Json::array();
  for (const auto& [name, value] : manifest.settings) settings[name] = value;
  for (const wire::TensorInfo& tensor : manifest.table.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"layer", tensor.layer.index},
                       {"group", tensor.group},
                       {"frozen", tensor.frozen}});
  }
  for (const PartSummary& part : manifest.parts) parts.push_back(to_json(part));
  std::string text = report::Json{
      {"format", kCheckpointFormat},
      {"iteration", manifest.iteration},
      {"release", manifest.release},
      {"workers", manifest.workers},
      {"servers", manifest.servers},
      {"settings", settings},
      {"layers", manifest.table.layers},
      {"tensors", tensors},
      {"parts", parts}}.dump(1, ' ', false, report::Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}"
  if (seal) text += fmt::format("{}{}\"", kHmac, seal.tag(kSealedManifest, bytes_of(text)));
  text += ",\n \"crc32c\": \"";
  return text + hex(crc32c(bytes_of(text))) + "\"\n}\n";
}

Result<Manifest> parse_manifest(const std::string& text, const std::string& path, const CheckpointSeal& seal) {
  constexpr std::string_view kEnd = "\"\n}\n";
  constexpr std::size_t kHexDigits = 8;
  const auto damaged = [&](const std::string& what) {
    return error(ErrorKind::kCorrupt, "{} is damaged: {}", path, what).because({"bad-checkpoint", ""});
  };
  if (text.size() < kHexDigits + kEnd.size() || !text.ends_with(kEnd)) return damaged("it does not end like a manifest");
  const std::string_view body(text.data(), text.size() - kEnd.size() - kHexDigits);
  if (text.substr(body.size(), kHexDigits) != hex(crc32c(bytes_of(body)))) return damaged("it does not match its checksum");
  if (seal) PACELINE_RETURN_IF_ERROR(check_seal(body, path, seal));
  try {
    PACELINE_ASSIGN_OR_RETURN(const report::Json json, report::parse_foreign(text, fmt::format("{} is damaged: its JSON", path)));
    if (json.at("format") != kCheckpointFormat)
      return error(ErrorKind::kCorrupt, "{} is of format {}; this release reads format {}", path, json.at("format").dump(),
                   kCheckpointFormat)
          .because({"release", ""});
    Manifest manifest;
    manifest.iteration = whole_at(json, "iteration", 1, std::numeric_limits<std::int64_t>::max());
    manifest.release = json.at("release");
    manifest.workers = static_cast<std::int32_t>(whole_at(json, "workers", 1, kMostInt32));
    manifest.servers = static_cast<std::int32_t>(whole_at(json, "servers", 0, kMostInt32));
    for (const auto& [name, value] : json.at("settings").items()) manifest.settings.emplace_back(name, value.get<std::string>());
    manifest.table.layers = json.at("layers").get<std::vector<std::string>>();
    for (const report::Json& tensor : json.at("tensors")) {
      manifest.table.tensors.push_back({tensor.at("name"), tensor.at("dtype"), tensor.at("shape").get<std::vector<std::int64_t>>(),
                                        Layer{static_cast<std::int32_t>(whole_at(tensor, "layer", 0, kMostInt32))},
                                        static_cast<std::int32_t>(whole_at(tensor, "group", 0, kMostInt32)),
                                        tensor.value("frozen", false)});
    }
    for (const report::Json& part : json.at("parts")) manifest.parts.push_back(part_summary_from(part));
    PACELINE_RETURN_IF_ERROR(wire::validate(manifest.table));
    manifest.checksum = text.substr(body.size(), kHexDigits);
    return manifest;
  } catch (const nlohmann::json::exception& problem) {
    return damaged(problem.what());
  }
}

Status write_manifest(Files& files, const std::string& directory, const Manifest& manifest, const CheckpointSeal& seal) {
  const std::string folder = checkpoint_folder(directory, manifest.iteration);
  const std::string text = manifest_text(manifest, seal);
  const std::array pieces = {bytes_of(text)};
  PACELINE_RETURN_IF_ERROR(write_file(files, folder + "/" + kManifestName, pieces));
  return files.sync_directory(directory);
}

Result<Manifest> read_manifest(Files& files, const std::string& folder, const CheckpointSeal& seal) {
  const std::string path = folder + "/" + kManifestName;
  PACELINE_ASSIGN_OR_RETURN(const auto file, files.open(path));
  if (file->size() > kMaxManifestBytes)
    return error(ErrorKind::kCorrupt, "{} is damaged: no manifest has {} bytes", path, file->size())
        .because({"bad-checkpoint", ""});
  std::string text(file->size(), '\0');
  PACELINE_RETURN_IF_ERROR(file->read(0, std::as_writable_bytes(std::span(text))));
  return parse_manifest(text, path, seal);
}

Result<Manifest> read_manifest(Files& files, const job::Saving& saving, const CheckpointSeal& seal) {
  PACELINE_ASSIGN_OR_RETURN(Manifest manifest, read_manifest(files, saving.from, seal));
  if (manifest.checksum == saving.manifest) return manifest;
  return error(ErrorKind::kCorrupt, "{} is not the checkpoint that the job was to go on from: it was replaced meanwhile",
               saving.from)
      .because({"bad-checkpoint", ""});
}

Result<PartReader> open_part(Files& files, const job::Saving& saving, const std::string& name, const CheckpointSeal& seal) {
  PACELINE_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(files, saving, seal));
  const auto part = std::ranges::find(manifest.parts, name, &PartSummary::name);
  return PartReader::open(files, saving.from + "/" + name, seal, part == manifest.parts.end() ? "" : part->seal);
}

// --- whole checkpoints ---

Status verify_checkpoint(Files& files, const std::string& folder, const Manifest& manifest, const CheckpointSeal& seal) {
  if (checkpoint_folder("", manifest.iteration) != folder.substr(folder.rfind('/'))) {
    return error(ErrorKind::kCorrupt, "{}/{} belongs to iteration {}, not into this folder", folder, kManifestName,
                 manifest.iteration)
        .because({"bad-checkpoint", ""});
  }
  std::int32_t workers = 0;
  std::map<std::int64_t, std::int64_t> ranges;  // of the arena: begin to end
  for (const PartSummary& expected : manifest.parts) {
    const std::string path = folder + "/" + expected.name;
    PACELINE_ASSIGN_OR_RETURN(const PartReader part, PartReader::open(files, path, seal, expected.seal));
    const PartHead& head = part.head();
    if (head.file_name() != expected.name || head.iteration != manifest.iteration) {
      return error(ErrorKind::kCorrupt, "{} is the part {} of iteration {}, not that of iteration {}", path, head.file_name(),
                   head.iteration, manifest.iteration)
          .because({"bad-checkpoint", ""});
    }
    PACELINE_RETURN_IF_ERROR(part.verify(expected));
    if (head.role == "worker") ++workers;
    if (head.role != "server") continue;
    for (const SavedArray& array : head.arrays) {
      if (!ranges.emplace(array.offset, array.offset + array.elements).second) {
        return error(ErrorKind::kCorrupt, "{} is damaged: tensor \"{}\" is there twice", path, array.name)
            .because({"bad-checkpoint", ""});
      }
    }
  }
  std::int64_t covered = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != covered) break;
    covered = end;
  }
  if (workers != manifest.workers || covered != manifest.table.elements() ||
      (!ranges.empty() && ranges.rbegin()->second != covered)) {
    return error(ErrorKind::kCorrupt, "{} is damaged: it lacks parts of the model, or of {} workers", folder, manifest.workers)
        .because({"bad-checkpoint", ""});
  }
  return {};
}

namespace {

// The newest with a manifest that passes `check(folder, manifest)`.
template <typename Check>
Result<FoundCheckpoint> newest(Files& files, const std::string& directory, const CheckpointSeal& seal, Check check) {
  PACELINE_ASSIGN_OR_RETURN(const auto all, list_checkpoints(files, directory));
  FoundCheckpoint found;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    found.folder = checkpoint_folder(directory, at->first);
    if (!at->second) {
      found.warnings.push_back(
          fmt::format("the checkpoint {} was never finished (it has no {}) and is left out", found.folder, kManifestName));
      continue;
    }
    auto manifest = read_manifest(files, found.folder, seal);
    const Status status = manifest.ok() ? check(found.folder, *manifest) : manifest.status();
    if (status.ok()) {
      found.manifest = std::move(*manifest);
      return found;
    }
    if (seal) {
      return error(
                 ErrorKind::kBadRequest,
                 "--resume refuses {}: {}; with --checkpoint-key no older one is taken for it: give the key and the files that it "
                 "was written with, or move {} away to go on from an older one",
                 found.folder, status.message(), found.folder)
          .because({"bad-checkpoint", ""});
    }
    found.warnings.push_back(fmt::format("the checkpoint {} is left out: {}", found.folder, status.message()));
  }
  const bool any = std::ranges::any_of(all, [](const auto& entry) { return entry.second; });
  if (!any)
    return error(ErrorKind::kBadRequest,
                 "--resume finds no checkpoint in {}; give the directory of an earlier job, or leave --resume out", directory)
        .because({"no-checkpoint", ""});
  return error(ErrorKind::kCorrupt, "--resume finds no good checkpoint in {}: {}", directory, fmt::join(found.warnings, "; "))
      .because({"bad-checkpoint", ""});
}

Status refused(const FoundCheckpoint& checkpoint, const std::string& difference) {
  return error(ErrorKind::kBadRequest,
               "the checkpoint {} is of another job: {}; give what it was made with, or another --checkpoint", checkpoint.folder,
               difference)
      .because({"other-job", ""});
}

}  // namespace

Result<FoundCheckpoint> newest_good_checkpoint(Files& files, const std::string& directory, const CheckpointSeal& seal) {
  return newest(files, directory, seal, [&](const std::string& folder, const Manifest& manifest) {
    return verify_checkpoint(files, folder, manifest, seal);
  });
}

Result<FoundCheckpoint> newest_manifest(Files& files, const std::string& directory, const CheckpointSeal& seal) {
  return newest(files, directory, seal, [](const std::string&, const Manifest&) { return Status(); });
}

Status is_same_job(const FoundCheckpoint& checkpoint, const job::JobSpec& wanted, std::optional<std::int32_t> workers) {
  const auto saved = job::from_saved(checkpoint.manifest.settings);
  if (!saved.ok()) return refused(checkpoint, saved.status().message());
  std::vector<std::string> differences;
  job::JobSpec rest = wanted;
  while (const job::Option* option = job::resume_difference(*saved, rest)) {
    const std::string there = option->text(*saved);
    differences.push_back(fmt::format("--{} {} there against {} here", option->name, said(there), said(option->text(rest))));
    PACELINE_RETURN_IF_ERROR(option->set(rest, there));
  }
  const std::int32_t saved_workers = checkpoint.manifest.workers;
  if (workers && saved_workers != *workers)
    differences.push_back(fmt::format("--workers {} there against {} here", saved_workers, *workers));
  const std::string saved_sums = sums_of(*saved, saved_workers), sums = sums_of(wanted, saved_workers);
  if (saved_sums != sums) differences.push_back(fmt::format("it adds gradients {} there against {} here", saved_sums, sums));
  return differences.empty() ? Status() : refused(checkpoint, fmt::format("{}", fmt::join(differences, ", ")));
}

Status can_resume(const FoundCheckpoint& checkpoint, const job::JobSpec& wanted, const wire::TensorTable& table,
                  std::int32_t workers) {
  PACELINE_RETURN_IF_ERROR(is_same_job(checkpoint, wanted, workers));
  if (const auto difference = wire::first_difference(checkpoint.manifest.table, table)) return refused(checkpoint, *difference);
  return {};
}

}  // namespace paceline::checkpoint
