// One process's part of a checkpoint (checkpoint.h), as a file: "PACEPART", length of the header (u64, little-endian), header
// (JSON), CRC32C of all before (u32), then the arrays' bytes in the header's order, and nothing behind. Every array has a CRC32C in
// the header.
//
// Threads: plain functions and values; any thread, one at a time per file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/quantity.h"
#include "base/status.h"
#include "checkpoint/checkpoint_seal.h"

namespace paceline::checkpoint {

// One array of a part. A server's: a range of the arena, `elements` float32 values followed by `planes` planes of optimizer state
// of as many. A worker's: a buffer of `dtype` and `shape`; offset, planes and steps are 0.
struct SavedArray {
  std::string name;  // the tensor (or buffer) it is (a part of)
  std::string dtype = "float32";
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0, elements = 0, planes = 0;
  std::int64_t steps = 0;  // updates made
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  // filled in by write_part, like the next
  std::string seal;       // "": none

  bool operator==(const SavedArray&) const = default;
};

struct PartHead {
  std::string role;  // "server" or "worker"
  std::int32_t rank = 0;
  Iteration iteration = 0;
  std::string fingerprint;  // what the bits depend on besides the job: versions, instruction set; "" for servers
  std::vector<SavedArray> arrays;

  std::string file_name() const { return role + "-" + std::to_string(rank) + ".bin"; }
};

// What a process tells the coordinator about its part: kSaved's payload.
struct PartSummary {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  std::string seal;     // of its header; "": none
  std::string failure;  // not empty: it could not be written, and why

  bool operator==(const PartSummary&) const = default;
};
std::string encode(const PartSummary& summary);
Result<PartSummary> decode_part_summary(const std::string& text);

// A checkpoint that has a manifest: a process that was frozen may wake when another job has finished it.
enum class IfFinished { kReplace, kRefuse };
// Writes a part into the checkpoint of its iteration below `directory`. `contents[i]` are the bytes of head.arrays[i].
Result<PartSummary> write_part(Files& files, const std::string& directory, PartHead head,
                               const std::vector<std::span<const std::byte>>& contents, const CheckpointSeal& seal = {},
                               IfFinished if_finished = IfFinished::kReplace);

// A part that is open for reading; its header has passed its checks.
class PartReader {
 public:
  // Errors: kIo when it cannot be read, kCorrupt when it is not as it was written; both name the file.
  // With `seal` it has to be the part that the manifest's `sealed` is about, and what read() gives passes its seal too.
  static Result<PartReader> open(Files& files, const std::string& path, const CheckpointSeal& seal = {},
                                 const std::string& sealed = "");

  const PartHead& head() const { return head_; }
  // All bytes of array `index`. kCorrupt that names file and tensor when they do not pass their check.
  Status read(std::size_t index, std::span<std::byte> to) const;
  // Reads everything; compares with what the manifest says.
  Status verify(const PartSummary& expected) const;

 private:
  PartReader() = default;
  std::string path_;
  CheckpointSeal seal_;
  std::shared_ptr<FileReader> file_;
  PartHead head_;
  std::vector<std::uint64_t> places_;  // of each array in the file
};

}  // namespace paceline::checkpoint
