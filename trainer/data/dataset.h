// What every data set looks like to the trainer, whatever file it came from. Plain C++: no torch.
//
// Two contents exist. Images: pixels of one byte in C x H x W order with one label; the input is (byte / 255 - mean) / deviation
// per channel, as float32. Text: a pair of token sequences of varying length. Data sets are opened by `open` (open.h), cut into
// mini-batches by `Sampler` (sampler.h), read ahead by `Loader` (loader.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace paceline::trainer::data {

enum class Content { kImages, kText };
const char* to_string(Content content);  // "images", "text"

// Ids that every vocabulary begins with; words follow.
enum Token : std::int64_t { kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3, kFirstWord = 4 };

// Per channel, in units of a pixel scaled to 0..1. Deviations are above zero.
struct Normalisation {
  std::vector<float> mean{};
  std::vector<float> deviation{};
  bool operator==(const Normalisation&) const = default;
};

// What one sample looks like; the same for every sample of a data set, and for its training and test half.
struct Form {
  Content content = Content::kImages;
  std::vector<std::int64_t> shape{};   // images: {C, H, W}, each at least 1; text: {} because lengths vary
  std::int64_t classes = 0;            // images: labels are 0..classes-1; text: ids of the target vocabulary
  std::int64_t source_vocabulary = 0;  // text only: ids of the source vocabulary
  Normalisation normalisation{};       // images only: one value per channel
  bool operator==(const Form&) const = default;
};

// Values of one input: C * H * W. Images only.
std::int64_t input_values(const Form& form);

// One sample on its way; scratch of the caller, reused from sample to sample so that nothing is allocated in steady state.
struct Sample {
  std::vector<std::byte> stored;     // as it lies on the disk (an image folder: the compressed file)
  std::vector<std::uint8_t> pixels;  // images, once decoded: C * H * W
  std::vector<std::int64_t> tokens;  // text: the source, ended by kEnd
  std::vector<std::int64_t> target;  // images: one label; text: kBegin, the target's tokens, kEnd
};

// Immutable once opened: every method may be called by any thread at any time. Indices are 0..size()-1 (anything else aborts).
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual const Form& form() const = 0;

  // Brings the stored bytes and the target of one sample into memory (the `load` phase). Fails when the file cannot be read
  // (kIo), fails its check (kCorrupt) or holds what it must not (kBadRequest); the message names the file.
  virtual Status load(std::int64_t index, Sample& sample) const = 0;

  // Turns what `load` left into `pixels`. Only image folders have something to do here.
  virtual Status decode(std::int64_t index, Sample& sample) const;

  // Text: tokens of the source including kEnd, which decides the length bucket. Images: 0.
  virtual std::int64_t length(std::int64_t index) const;

  // Looks at every stored byte as cheaply as the format allows: record files compare checksums, image folders look at the first
  // bytes of each file. What was read completely by `open` has nothing left to check.
  virtual Status verify() const;

  // Images: load, decode and normalise one sample. `input` holds exactly C * H * W values, `target` one.
  Status read(std::int64_t index, std::span<float> input, std::span<std::int64_t> target) const;
};

// (byte / 255 - mean) / deviation, by a table of 256 values per channel. One per thread or shared; immutable.
class Normaliser {
 public:
  explicit Normaliser(const Form& form);  // images only
  void apply(std::span<const std::uint8_t> pixels, std::span<float> input) const;

 private:
  std::vector<float> table_;  // channels x 256
  std::size_t plane_;         // H * W
};

// The training and the test half; both have the same form. The test half may be empty where it is cut off the user's own files
// (images:DIR, text:...) and there are too few.
struct DatasetPair {
  std::string name;  // as asked for, e.g. "mnist-5k"
  std::shared_ptr<const Dataset> train{};
  std::shared_ptr<const Dataset> test{};
  std::vector<std::string> class_names{};  // images, where the files say them: by label
  std::string preparation{};               // for people: how a picture becomes pixels, where that is more than to read it
  // For people, where there is something to say: what was left out, what a record file was made from.
  std::string note{};
};

// How a trained model wants its input, for a file that holds the model alone. Images: "input", what it is; "mean" and "deviation",
// blanks between channels; "preparation", where there is one; "classes", their number, and "class_names", where they are known, a
// line each by label. Text: "input" alone.
std::vector<std::pair<std::string, std::string>> described(const DatasetPair& pair);

}  // namespace paceline::trainer::data
