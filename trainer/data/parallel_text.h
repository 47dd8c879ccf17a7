// Sentence pairs: two text files whose lines belong together, words between white space.
#pragma once

#include <filesystem>
#include <span>

#include "trainer/data/dataset.h"

namespace paceline::trainer::data {

constexpr std::int64_t kSourceVocabulary =
    17191;  // at most, with the four special ids; what the seq2seq network has embeddings for
constexpr std::int64_t kTargetVocabulary = 7709;
constexpr std::int64_t kLongestSentence = 100;  // words; a pair with a longer side is left out

// Pairs of token sequences, all in memory, one behind the other. Filled by one thread, then only read.
class Corpus {
 public:
  void add(std::span<const std::int32_t> source, std::span<const std::int32_t> target);
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size() / 2); }
  std::span<const std::int32_t> source(std::int64_t index) const { return sequence(static_cast<std::size_t>(index) * 2); }
  std::span<const std::int32_t> target(std::int64_t index) const { return sequence(static_cast<std::size_t>(index) * 2 + 1); }

 private:
  std::span<const std::int32_t> sequence(std::size_t number) const;
  std::vector<std::int32_t> tokens_;
  std::vector<std::size_t> ends_;  // of source, target, source, ...
};

// `count` pairs of `corpus` from `first` on, whose sequences hold the special ids already (Sample says which).
std::shared_ptr<const Dataset> make_text_dataset(std::shared_ptr<const Corpus> corpus, std::int64_t first, std::int64_t count,
                                                 Form form);

// The last tenth of the pairs (rounded down, so perhaps none) tests. Vocabularies hold the words of the training pairs, the most
// frequent first, equally frequent ones in the order of their bytes; other words are kUnknown. kBadRequest: a file is missing, the
// numbers of lines differ, no pair is left.
Result<DatasetPair> open_parallel_text(const std::filesystem::path& source, const std::filesystem::path& target,
                                       const std::string& name);

}  // namespace paceline::trainer::data
