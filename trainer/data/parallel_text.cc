#include "trainer/data/parallel_text.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "trainer/data/file.h"

namespace paceline::trainer::data {
namespace {

constexpr Bytes kLargestText{std::int64_t{8} << 30};

class TextDataset final : public Dataset {
 public:
  TextDataset(std::shared_ptr<const Corpus> corpus, std::int64_t first, std::int64_t count, Form form)
      : corpus_(std::move(corpus)), first_(first), count_(count), form_(std::move(form)) {}

  std::int64_t size() const override { return count_; }
  const Form& form() const override { return form_; }
  std::int64_t length(std::int64_t index) const override { return static_cast<std::int64_t>(corpus_->source(at(index)).size()); }

  Status load(std::int64_t index, Sample& sample) const override {
    const auto source = corpus_->source(at(index)), target = corpus_->target(at(index));
    sample.tokens.assign(source.begin(), source.end());
    sample.target.assign(target.begin(), target.end());
    return {};
  }

 private:
  std::int64_t at(std::int64_t index) const {
    PACELINE_CHECK(index >= 0 && index < count_, "sample {} of {}", index, count_);
    return first_ + index;
  }

  std::shared_ptr<const Corpus> corpus_;
  std::int64_t first_, count_;
  Form form_;
};

std::string_view as_text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// What stands between line ends; behind the last one nothing is left when the file ends as it should.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r\v\f";
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kSpace); at != std::string_view::npos; at = line.find_first_not_of(kSpace, at)) {
    const std::size_t end = std::min(line.find_first_of(kSpace, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

using Vocabulary = std::unordered_map<std::string_view, std::int32_t>;

Vocabulary vocabulary_of(std::span<const std::string_view> lines, std::int64_t largest) {
  std::unordered_map<std::string_view, std::int64_t> counts;
  for (const std::string_view line : lines) {
    for (const std::string_view word : words_of(line)) ++counts[word];
  }
  std::vector<std::pair<std::string_view, std::int64_t>> words(counts.begin(), counts.end());
  std::sort(words.begin(), words.end(),
            [](const auto& a, const auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  words.resize(std::min(words.size(), static_cast<std::size_t>(largest - kFirstWord)));
  Vocabulary vocabulary;
  for (const auto& [word, count] : words)
    vocabulary.emplace(word, static_cast<std::int32_t>(kFirstWord + static_cast<std::int64_t>(vocabulary.size())));
  return vocabulary;
}

void append_ids(std::string_view line, const Vocabulary& vocabulary, std::vector<std::int32_t>& ids) {
  for (const std::string_view word : words_of(line)) {
    const auto known = vocabulary.find(word);
    ids.push_back(known == vocabulary.end() ? static_cast<std::int32_t>(kUnknown) : known->second);
  }
  ids.push_back(kEnd);
}

}  // namespace

void Corpus::add(std::span<const std::int32_t> source, std::span<const std::int32_t> target) {
  for (const auto& sequence : {source, target}) {
    tokens_.insert(tokens_.end(), sequence.begin(), sequence.end());
    ends_.push_back(tokens_.size());
  }
}

std::span<const std::int32_t> Corpus::sequence(std::size_t number) const {
  const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::span(tokens_).subspan(begin, ends_[number] - begin);
}

std::shared_ptr<const Dataset> make_text_dataset(std::shared_ptr<const Corpus> corpus, std::int64_t first, std::int64_t count,
                                                 Form form) {
  PACELINE_CHECK(first >= 0 && count >= 0 && first + count <= corpus->size(), "pairs {} to {} of {}", first, first + count,
                 corpus->size());
  return std::make_shared<TextDataset>(std::move(corpus), first, count, std::move(form));
}

Result<DatasetPair> open_parallel_text(const std::filesystem::path& source, const std::filesystem::path& target,
                                       const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const auto source_bytes, read_file(source, kLargestText));
  PACELINE_ASSIGN_OR_RETURN(const auto target_bytes, read_file(target, kLargestText));
  std::vector<std::string_view> sources = lines_of(as_text(source_bytes)), targets = lines_of(as_text(target_bytes));
  if (sources.size() != targets.size()) {
    return error(ErrorKind::kBadRequest, "{}: {} lines, but {} lines in {}; line for line they must belong together",
                 source.string(), sources.size(), targets.size(), target.string());
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (std::max(words_of(sources[i]).size(), words_of(targets[i]).size()) > static_cast<std::size_t>(kLongestSentence)) continue;
    sources[kept] = sources[i];
    targets[kept++] = targets[i];
  }
  const std::size_t left_out = sources.size() - kept;
  sources.resize(kept);
  targets.resize(kept);
  if (kept == 0) {
    return error(ErrorKind::kBadRequest,
                 "{}: holds no samples, expected at least one line ({} pairs of more than {} words were left out)", source.string(),
                 left_out, kLongestSentence);
  }

  const std::size_t train_count = kept - kept / 10;
  const Vocabulary source_words = vocabulary_of(std::span(sources).first(train_count), kSourceVocabulary);
  const Vocabulary target_words = vocabulary_of(std::span(targets).first(train_count), kTargetVocabulary);
  auto corpus = std::make_shared<Corpus>();
  for (std::size_t i = 0; i < kept; ++i) {
    std::vector<std::int32_t> source_ids, target_ids = {kBegin};
    append_ids(sources[i], source_words, source_ids);
    append_ids(targets[i], target_words, target_ids);
    corpus->add(source_ids, target_ids);
  }
  const Form form{.content = Content::kText,
                  .classes = kFirstWord + static_cast<std::int64_t>(target_words.size()),
                  .source_vocabulary = kFirstWord + static_cast<std::int64_t>(source_words.size())};
  const auto trains = static_cast<std::int64_t>(train_count), tests = static_cast<std::int64_t>(kept - train_count);
  return DatasetPair{
      .name = name,
      .train = make_text_dataset(corpus, 0, trains, form),
      .test = make_text_dataset(corpus, trains, tests, form),
      .note =
          left_out == 0 ? "" : fmt::format("{} pairs with more than {} words on a side are left out", left_out, kLongestSentence)};
}

}  // namespace paceline::trainer::data
