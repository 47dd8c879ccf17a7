// Checkpoints on the disk. A checkpoint is a folder `DIR/<iteration, 8 digits>` with a file per server (its ranges of the arena: values,
// optimizer state, step counts), a file per worker (its BatchNorm buffers), and `manifest.json`, which is written last and without which
// it is none. Every file is there completely or not at all (files.h), has a CRC32C per tensor and one for the whole in the manifest, and
// the manifest has one over itself, so that a checkpoint is used only when every byte of it is as it was written.
//
// What is not in it needs not be: randomness is seeded anew from (seed, rank, iteration), and the place in the data is the iteration.
//
// A part file: "PACEPART", length of the header (u64, little-endian), header (JSON), CRC32C of all before (u32), then the arrays' bytes in
// the header's order, and nothing behind.
//
// Threads: plain functions and values; any thread, one at a time per folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "runtime/files.h"
#include "runtime/job_settings.h"
#include "wire/tensor_table.h"

namespace paceline::runtime {

// One array of a part. A server's: a range of the arena, `elements` float32 values followed by `planes` planes of optimizer state of as
// many. A worker's: a buffer of `dtype` and `shape`; offset, planes and steps are 0.
struct SavedArray {
  std::string name;  // the tensor (or buffer) it is (a part of)
  std::string dtype = "float32";
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0, elements = 0, planes = 0;
  std::int64_t steps = 0;    // updates made
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;     // filled in by write_part

  bool operator==(const SavedArray&) const = default;
};

struct PartHead {
  std::string role;            // "server" or "worker"
  std::int32_t rank = 0;
  Iteration iteration = 0;
  std::string fingerprint;     // what the bits depend on besides the job: versions, instruction set; "" for servers
  std::vector<SavedArray> arrays;

  std::string file_name() const { return role + "-" + std::to_string(rank) + ".bin"; }
};

// What a process tells the coordinator about its part: kSaved's payload.
struct PartSummary {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  std::string failure;  // not empty: it could not be written, and why

  bool operator==(const PartSummary&) const = default;
};
std::string encode(const PartSummary& summary);
Result<PartSummary> decode_part_summary(const std::string& text);

// Writes a part into the checkpoint of its iteration below `directory`. `contents[i]` are the bytes of head.arrays[i].
Result<PartSummary> write_part(Files& files, const std::string& directory, PartHead head, const std::vector<std::span<const std::byte>>& contents);

// A part that is open for reading; its header has passed its checks.
class PartReader {
 public:
  // Errors: kIo when it cannot be read, kCorrupt when it is not as it was written; both name the file.
  static Result<PartReader> open(Files& files, const std::string& path);

  const PartHead& head() const { return head_; }
  // All bytes of array `index`. kCorrupt that names file and tensor when they do not pass their check.
  Status read(std::size_t index, std::span<std::byte> to) const;
  // Reads everything; compares with what the manifest says.
  Status verify(const PartSummary& expected) const;

 private:
  PartReader() = default;
  std::string path_;
  std::shared_ptr<FileReader> file_;
  PartHead head_;
  std::vector<std::uint64_t> places_;  // of each array in the file
};

struct Manifest {
  Iteration iteration = 0;
  std::string release;
  std::int32_t workers = 0, servers = 0;
  wire::Settings settings;
  wire::TensorTable table;
  std::vector<PartSummary> parts;  // by name

  bool operator==(const Manifest&) const = default;
};

std::string to_text(const Manifest& manifest);
// `path` is for messages.
Result<Manifest> parse_manifest(const std::string& text, const std::string& path);

// The folder of an iteration's checkpoint.
std::string checkpoint_folder(const std::string& directory, Iteration iteration);

Status write_manifest(Files& files, const std::string& directory, const Manifest& manifest);
Result<Manifest> read_manifest(Files& files, const std::string& folder);
// Reads every byte of the checkpoint. kCorrupt or kIo naming file and tensor.
Status verify_checkpoint(Files& files, const std::string& folder, const Manifest& manifest);

struct FoundCheckpoint {
  std::string folder;
  Manifest manifest;
  std::vector<std::string> warnings;  // newer ones that are not good, and why
};
// The newest checkpoint in `directory` of which every byte is good. kBadRequest when there is none, kCorrupt when all are damaged.
Result<FoundCheckpoint> newest_good_checkpoint(Files& files, const std::string& directory);

// Whether a job can go on from the checkpoint without changing what it computes: kBadRequest naming the first difference in workers, model,
// tensors, data, optimizer, learning rate, mini-batch or seed. Servers, schedule, length and limits may differ.
Status can_resume(const FoundCheckpoint& checkpoint, const wire::Settings& settings, const wire::TensorTable& table, std::int32_t workers);

// Iterations of which there is a folder in `directory`, ascending, and whether it has a manifest.
Result<std::map<Iteration, bool>> list_checkpoints(Files& files, const std::string& directory);
// Keeps the newest `keep` checkpoints; removes older ones, and unfinished ones that are older than the newest.
Status prune_checkpoints(Files& files, const std::string& directory, std::size_t keep);
// Before a job begins that goes on after `resumed` (0: from the start): what is newer is out of the way. Damaged checkpoints are kept under
// another name, unfinished ones are removed.
Status clear_newer_checkpoints(Files& files, const std::string& directory, Iteration resumed);

// The model in a checkpoint: any range of the arena, whatever ranges it was saved in.
class SavedModel {
 public:
  static Result<SavedModel> open(Files& files, const std::string& folder);
  const Manifest& manifest() const { return manifest_; }

  // Fills `value` with the values from `offset` on, and `state` with as many optimizer planes as it has room for; returns the update steps.
  // kCorrupt naming file and tensor; kBadRequest when the checkpoint holds another number of planes (an empty `state` asks for none).
  Result<std::int64_t> read(std::int64_t offset, std::span<float> value, std::span<float> state);

 private:
  SavedModel() = default;
  struct Place {
    std::size_t part = 0, array = 0;
  };
  Status load(const Place& place);

  Manifest manifest_;
  std::vector<PartReader> servers_;
  std::map<std::int64_t, Place> by_offset_;
  std::vector<std::byte> loaded_;  // the array read last
  std::optional<std::int64_t> loaded_offset_;
};

}  // namespace paceline::runtime
