// CIFAR-10 and CIFAR-100 in their binary versions: records of one label byte (CIFAR-100: coarse, then fine) and 3 x 32 x 32 bytes,
// no header.
#pragma once

#include <filesystem>
#include <vector>

#include "trainer/data/dataset.h"

namespace paceline::trainer::data {

enum class Cifar { k10, k100 };

// data_batch_1..5.bin and test_batch.bin, or train.bin and test.bin, in `folder` or in its usual subfolder (cifar-10-batches-bin,
// cifar-100-binary). Labels are read here, pixels when asked for, so that processes share the system's cache. CIFAR-100: the fine
// labels. kBadRequest: a file is missing, empty or no whole number of records, a label out of range.
Result<DatasetPair> open_cifar(Cifar which, const std::filesystem::path& folder, const std::string& name);
// The files by their names, there or not.
std::vector<std::filesystem::path> cifar_files(Cifar which, const std::filesystem::path& folder);

}  // namespace paceline::trainer::data
