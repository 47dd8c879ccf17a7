// The folders of a checkpoint directory: which are checkpoints, and how they go. What is in the directory besides belongs to the
// user. A file is ours when it has the name of a part or of a manifest, complete or being written, and begins like one; a folder
// is ours when it holds such a file. Only our files are removed, one by one, and a folder only when it is empty after that.
//
// Threads: plain functions; any thread, one at a time per directory.
#pragma once

#include <map>
#include <string>

#include "base/files.h"
#include "base/quantity.h"
#include "base/status.h"

namespace paceline::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";

// The folder of an iteration's checkpoint.
std::string checkpoint_folder(const std::string& directory, Iteration iteration);

// Iterations of which there is a folder of ours in `directory`, ascending, and whether it has a manifest.
Result<std::map<Iteration, bool>> list_checkpoints(Files& files, const std::string& directory);
// Makes the folder, unless it is there. kBadRequest when it holds something and nothing of ours, so that nothing of the user's is
// replaced.
Status make_checkpoint_folder(Files& files, const std::string& folder);
// The manifest first. What is not ours stays, and the folder with it.
Status remove_checkpoint(Files& files, const std::string& folder);
// Keeps the newest `keep` checkpoints; removes older ones, and unfinished ones that are older than the newest.
Status prune_checkpoints(Files& files, const std::string& directory, std::size_t keep);
// Before a job begins that goes on after `resumed` (0: from the start): what is newer is out of the way. Damaged checkpoints are
// kept under another name, unfinished ones are removed.
Status clear_newer_checkpoints(Files& files, const std::string& directory, Iteration resumed);

}  // namespace paceline::checkpoint
