// From a data set's name on the command line to its two halves.
#pragma once

#include <filesystem>
#include <string_view>

#include "trainer/data/dataset.h"
#include "trainer/data/spec.h"  // kinds()

namespace paceline::trainer::data {

// Opens `spec`: mnist-5k | digits (from `data_root`, written there by scripts/setup) | mnist:DIR | cifar-10:DIR | cifar-100:DIR |
// images:DIR[,size=224] | text:SOURCE,TARGET | records:FILE | synthetic:CxHxW[,classes=10][,samples=1000][,test=200][,seed=1].
// Everything that can be wrong with the request or its files is kBadRequest, and the message names the file, what was found and
// what was expected; kIo when the system refuses to read an existing file. Lengths stated in files are compared with the file's
// size before memory is taken.
Result<DatasetPair> open(std::string_view spec, const std::filesystem::path& data_root);

}  // namespace paceline::trainer::data
