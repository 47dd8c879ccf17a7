// The model in a checkpoint, whatever ranges it was saved in: how a job with another number of servers goes on. One thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace paceline::checkpoint {

class SavedModel {
 public:
  static Result<SavedModel> open(Files& files, const std::string& folder, const CheckpointSeal& seal = {});
  // Of a job that goes on. Errors: as read_manifest.
  static Result<SavedModel> open(Files& files, const job::Saving& saving, const CheckpointSeal& seal);
  const Manifest& manifest() const { return manifest_; }

  // Fills `value` with the values from `offset` on, of any number of tensors. kCorrupt naming file and tensor.
  Status read_values(std::int64_t offset, std::span<float> value);
  // The same of a part of one tensor, and fills `state` with as many optimizer planes as it has room for; returns the update steps,
  // which are the same in all of a part. kBadRequest when they are not, or when the checkpoint holds another number of planes (an
  // empty `state` asks for none).
  Result<std::int64_t> read(std::int64_t offset, std::span<float> value, std::span<float> state);

 private:
  SavedModel() = default;
  static Result<SavedModel> open(Files& files, const std::string& folder, Manifest manifest, const CheckpointSeal& seal);
  struct Place {
    std::size_t part = 0, array = 0;
  };
  // What of one array lies within a range, and is in loaded_.
  struct Stretch {
    const SavedArray& array;
    std::size_t skip = 0, count = 0;
  };
  Status load(const Place& place);
  Result<Stretch> stretch_at(std::int64_t offset, std::size_t most);
  void copy(const Stretch& from, std::int64_t plane, float* to) const;

  Manifest manifest_;
  std::vector<PartReader> servers_;
  std::map<std::int64_t, Place> by_offset_;
  std::vector<std::byte> loaded_;  // the array read last
  std::optional<std::int64_t> loaded_offset_;
};

}  // namespace paceline::checkpoint
