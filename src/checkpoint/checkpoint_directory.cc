#include "checkpoint/checkpoint_directory.h"

#include <algorithm>
#include <charconv>

#include "base/new_file.h"
#include "checkpoint/checkpoint_json.h"

namespace paceline::checkpoint {
namespace {

// What a file of this name begins with if it is ours; "" for a name that is none of ours.
std::string_view beginning_of(std::string_view name) {
  if (name.ends_with(kTemporarySuffix)) name = name.substr(0, name.find('.', name.find('.') + 1));
  if (name == kManifestName) return kManifestBeginning;
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos || !name.ends_with(kPartSuffix)) return "";
  const std::string_view role = name.substr(0, dash), rank = name.substr(dash + 1, name.size() - dash - 1 - kPartSuffix.size());
  const bool number = !rank.empty() && rank.find_first_not_of("0123456789") == std::string_view::npos;
  return number && (role == "server" || role == "worker") ? kPartMagic : "";
}

// One that was being written may be cut off anywhere.
bool is_ours(Files& files, const std::string& folder, const std::string& name) {
  const std::string_view beginning = beginning_of(name);
  if (beginning.empty()) return false;
  const auto file = files.open(folder + "/" + name);
  if (!file.ok()) return false;
  std::string begins(std::min<std::uint64_t>((*file)->size(), beginning.size()), '\0');
  return (*file)->read(0, std::as_writable_bytes(std::span(begins))).ok() && beginning.starts_with(begins);
}

// The folder's files, and whether any of them is ours.
struct Held {
  std::vector<std::string> names;
  bool ours = false;
};

Result<Held> look_into(Files& files, const std::string& folder) {
  Held held;
  PACELINE_ASSIGN_OR_RETURN(held.names, files.list(folder));
  held.ours = std::ranges::any_of(held.names, [&](const std::string& name) { return is_ours(files, folder, name); });
  return held;
}

// A name beside `folder` that nothing has.
Result<std::string> damaged_name(Files& files, const std::string& directory, const std::string& folder) {
  PACELINE_ASSIGN_OR_RETURN(const auto names, files.list(directory));
  for (int number = 1;; ++number) {
    const std::string name = folder + (number == 1 ? ".damaged" : fmt::format(".damaged-{}", number));
    if (!std::ranges::binary_search(names, name.substr(directory.size() + 1))) return name;
  }
}

}  // namespace

std::string checkpoint_folder(const std::string& directory, Iteration iteration) {
  return fmt::format("{}/{:08}", directory, iteration);
}

Result<std::map<Iteration, bool>> list_checkpoints(Files& files, const std::string& directory) {
  std::map<Iteration, bool> found;
  PACELINE_ASSIGN_OR_RETURN(const auto names, files.list(directory));
  for (const std::string& name : names) {
    Iteration iteration = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), iteration);
    if (problem != std::errc() || iteration < 1 || checkpoint_folder("", iteration) != "/" + name) continue;
    const auto held = look_into(files, checkpoint_folder(directory, iteration));
    // What cannot be looked into is a file, or somebody else's.
    if (held.ok() && held->ours) found[iteration] = std::ranges::binary_search(held->names, kManifestName);
  }
  return found;
}

Status make_checkpoint_folder(Files& files, const std::string& folder) {
  PACELINE_RETURN_IF_ERROR(files.make_directories(folder));
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const Held held, look_into(files, folder));
    if (held.ours || held.names.empty()) return {};
    // Another member may have renamed its part between the list and the look into it.
    PACELINE_ASSIGN_OR_RETURN(const auto names, files.list(folder));
    if (names != held.names) continue;
    return error(
               ErrorKind::kBadRequest,
               "{} holds {}, which is no part of a checkpoint, and nothing is written beside it; give --checkpoint a directory of "
               "its own",
               folder, held.names.front())
        .because({"illegal", ""});
  }
}

Status remove_checkpoint(Files& files, const std::string& folder) {
  PACELINE_ASSIGN_OR_RETURN(const auto names, files.list(folder));
  // Without its manifest it is none, so that no half of one can be taken for a whole.
  if (std::ranges::binary_search(names, kManifestName) && is_ours(files, folder, kManifestName)) {
    PACELINE_RETURN_IF_ERROR(files.remove_file(folder + "/" + kManifestName));
    PACELINE_RETURN_IF_ERROR(files.sync_directory(folder));
  }
  for (const std::string& name : names) {
    if (is_ours(files, folder, name)) PACELINE_RETURN_IF_ERROR(files.remove_file(fmt::format("{}/{}", folder, name)));
  }
  return files.remove_directory_if_empty(folder);
}

Status prune_checkpoints(Files& files, const std::string& directory, std::size_t keep) {
  PACELINE_ASSIGN_OR_RETURN(const auto all, list_checkpoints(files, directory));
  std::size_t complete = 0;
  Status first;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (at->second ? ++complete <= keep : complete == 0) continue;
    const Status status = remove_checkpoint(files, checkpoint_folder(directory, at->first));
    if (!status.ok() && first.ok()) first = status;
  }
  return first;
}

Status clear_newer_checkpoints(Files& files, const std::string& directory, Iteration resumed) {
  PACELINE_ASSIGN_OR_RETURN(const auto all, list_checkpoints(files, directory));
  for (auto at = all.upper_bound(resumed); at != all.end(); ++at) {
    const std::string folder = checkpoint_folder(directory, at->first);
    if (!at->second) {
      PACELINE_RETURN_IF_ERROR(remove_checkpoint(files, folder));
      continue;
    }
    PACELINE_ASSIGN_OR_RETURN(const std::string aside, damaged_name(files, directory, folder));
    PACELINE_RETURN_IF_ERROR(files.rename(folder, aside));
  }
  return {};
}

}  // namespace paceline::checkpoint
