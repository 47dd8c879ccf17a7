// Checkpoints on the disk. A checkpoint is a folder `DIR/<iteration, 8 digits>` with a file per server (its ranges of the arena:
// values, optimizer state, step counts), a file per worker (its BatchNorm buffers), and `manifest.json`, which is written last and
// without which it is none. Every file is there completely or not at all (files.h), has a CRC32C per tensor and one for the whole
// in the manifest, and the manifest has one over itself, so that a checkpoint is used only when every byte of it is as it was
// written.
//
// What is not in it needs not be: randomness is seeded anew from (seed, rank, iteration), and the place in the data is the
// iteration.
//
// Threads: plain functions and values; any thread, one at a time per folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/quantity.h"
#include "base/status.h"
#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_part.h"
#include "job/spec.h"
#include "wire/control.h"
#include "wire/tensor_table.h"

namespace paceline::checkpoint {

struct Manifest {  // NOLINT(clang-analyzer-core.uninitialized.Assign): does not follow Result
  Iteration iteration = 0;
  std::string release;
  std::int32_t workers = 0, servers = 0;
  wire::Settings settings;
  wire::TensorTable table;
  std::vector<PartSummary> parts;  // by name
  std::string checksum;            // of one that was read: of its text

  bool operator==(const Manifest&) const = default;
};

std::string manifest_text(const Manifest& manifest, const CheckpointSeal& seal = {});
// `path` is for messages.
Result<Manifest> parse_manifest(const std::string& text, const std::string& path, const CheckpointSeal& seal = {});

Status write_manifest(Files& files, const std::string& directory, const Manifest& manifest, const CheckpointSeal& seal = {});
Result<Manifest> read_manifest(Files& files, const std::string& folder, const CheckpointSeal& seal = {});
// The checkpoint that a job goes on from, as its coordinator has verified it. kCorrupt: another one lies there now.
Result<Manifest> read_manifest(Files& files, const job::Saving& saving, const CheckpointSeal& seal);
// Its part `name`, as its manifest knows it.
Result<PartReader> open_part(Files& files, const job::Saving& saving, const std::string& name, const CheckpointSeal& seal);
// Reads every byte of the checkpoint. kCorrupt or kIo naming file and tensor.
Status verify_checkpoint(Files& files, const std::string& folder, const Manifest& manifest, const CheckpointSeal& seal = {});

struct FoundCheckpoint {
  std::string folder;
  Manifest manifest;
  std::vector<std::string> warnings;  // newer ones that are not good, and why
};
// The newest checkpoint in `directory` of which every byte is good. kBadRequest when there is none, kCorrupt when all are
// damaged. With `seal` kBadRequest when the newest is: whoever spoils one must not choose which older one is taken.
Result<FoundCheckpoint> newest_good_checkpoint(Files& files, const std::string& directory, const CheckpointSeal& seal = {});

// The newest of which the manifest is good, whatever its parts are: quick, and enough to know the job. Errors: as above.
Result<FoundCheckpoint> newest_manifest(Files& files, const std::string& directory, const CheckpointSeal& seal = {});

// Whether a job can go on from the checkpoint without changing what it computes: kBadRequest naming all differences in workers,
// model, data, optimizer, learning rate, mini-batch or seed, or in the order in which gradients are summed. Servers (or none),
// schedule, length and limits may differ. Without `workers` their number is somebody else's to compare.
Status is_same_job(const FoundCheckpoint& checkpoint, const job::JobSpec& wanted, std::optional<std::int32_t> workers);
// And whether it has the same tensors, in which the message names the first difference.
Status can_resume(const FoundCheckpoint& checkpoint, const job::JobSpec& wanted, const wire::TensorTable& table,
                  std::int32_t workers);

}  // namespace paceline::checkpoint
