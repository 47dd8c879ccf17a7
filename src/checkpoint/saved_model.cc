#include "checkpoint/saved_model.h"

#include <algorithm>
#include <cstring>

namespace paceline::checkpoint {

Result<SavedModel> SavedModel::open(Files& files, const std::string& folder, const CheckpointSeal& seal) {
  PACELINE_ASSIGN_OR_RETURN(Manifest manifest, read_manifest(files, folder, seal));
  return open(files, folder, std::move(manifest), seal);
}

Result<SavedModel> SavedModel::open(Files& files, const job::Saving& saving, const CheckpointSeal& seal) {
  PACELINE_ASSIGN_OR_RETURN(Manifest manifest, read_manifest(files, saving, seal));
  return open(files, saving.from, std::move(manifest), seal);
}

Result<SavedModel> SavedModel::open(Files& files, const std::string& folder, Manifest manifest, const CheckpointSeal& seal) {
  SavedModel model;
  model.manifest_ = std::move(manifest);
  for (const PartSummary& expected : model.manifest_.parts) {
    if (!expected.name.starts_with("server-")) continue;
    PACELINE_ASSIGN_OR_RETURN(PartReader part, PartReader::open(files, folder + "/" + expected.name, seal, expected.seal));
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

Result<SavedModel::Stretch> SavedModel::stretch_at(std::int64_t offset, std::size_t most) {
  auto entry = by_offset_.upper_bound(offset);
  if (entry == by_offset_.begin()) return error(ErrorKind::kCorrupt, "the checkpoint has no value at arena offset {}", offset);
  const Place place = (--entry)->second;
  const SavedArray& array = servers_[place.part].head().arrays[place.array];
  if (offset >= array.offset + array.elements)
    return error(ErrorKind::kCorrupt, "the checkpoint has no value at arena offset {}", offset);
  PACELINE_RETURN_IF_ERROR(load(place));
  const auto skip = static_cast<std::size_t>(offset - array.offset);
  return Stretch{array, skip, std::min(most, static_cast<std::size_t>(array.elements) - skip)};
}

void SavedModel::copy(const Stretch& from, std::int64_t plane, float* to) const {
  const std::size_t first = static_cast<std::size_t>(plane * from.array.elements) + from.skip;
  std::memcpy(to, loaded_.data() + first * sizeof(float), from.count * sizeof(float));
}

Status SavedModel::read_values(std::int64_t offset, std::span<float> value) {
  for (std::size_t done = 0; done < value.size();) {
    PACELINE_ASSIGN_OR_RETURN(const Stretch from, stretch_at(offset + static_cast<std::int64_t>(done), value.size() - done));
    copy(from, 0, value.data() + done);
    done += from.count;
  }
  return {};
}

Result<std::int64_t> SavedModel::read(std::int64_t offset, std::span<float> value, std::span<float> state) {
  PACELINE_CHECK(!value.empty() && state.size() % value.size() == 0, "{} values, {} numbers of state", value.size(), state.size());
  const auto planes = static_cast<std::int64_t>(state.size() / value.size());
  std::optional<std::int64_t> steps;
  for (std::size_t done = 0; done < value.size();) {
    PACELINE_ASSIGN_OR_RETURN(const Stretch from, stretch_at(offset + static_cast<std::int64_t>(done), value.size() - done));
    const SavedArray& array = from.array;
    if (planes != 0 && planes != array.planes) {
      return error(ErrorKind::kBadRequest, "the checkpoint has {} planes of optimizer state for tensor \"{}\", the job has {}",
                   array.planes, array.name, planes)
          .because({"other-job", ""});
    }
    if (steps && *steps != array.steps) {
      return error(ErrorKind::kBadRequest,
                   "the checkpoint has parts of tensor \"{}\" after {} and after {} updates, and this job keeps them as one; use "
                   "the schedule it was made with",
                   array.name, *steps, array.steps);
    }
    steps = array.steps;
    copy(from, 0, value.data() + done);
    for (std::int64_t plane = 0; plane < planes; ++plane)
      copy(from, plane + 1, state.data() + static_cast<std::size_t>(plane) * value.size() + done);
    done += from.count;
  }
  return *steps;
}

}  // namespace paceline::checkpoint
