// A folder with one folder of JPEG or PNG files for each class.
#pragma once

#include <filesystem>

#include "trainer/data/dataset.h"

namespace paceline::trainer::data {

constexpr std::int64_t kLargestImageSide = 4096;

// `folder`/train/CLASS/* and `folder`/test/CLASS/* (or val/), else `folder`/CLASS/*, of which every 10th file of a class, by name,
// tests. Classes are numbered in the order of their names' bytes. Files that do not end in .jpg, .jpeg or .png (any case), and
// names that begin with a dot, are passed over. Images become 3 x size x size (image.h), normalised by ImageNet's usual means and
// deviations.
//
// kBadRequest: no folder, no class, a class without images, a test class that does not train, `size` not in 1..kLargestImageSide.
// That an image is unreadable shows when it is asked for. The test half is empty when every class has fewer than 10 files.
Result<DatasetPair> open_image_folder(const std::filesystem::path& folder, std::int64_t size, const std::string& name);

// Whether the absolute path `file` is an image below a folder below `folder`, or would be if it were there. Looks into folders only
// where the name is that of an image.
bool is_image_of(const std::filesystem::path& folder, const std::filesystem::path& file);

}  // namespace paceline::trainer::data
