#include "report/json_text.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::report {
namespace {

constexpr std::size_t kDeepest = 64;

// Builds the value event by event and always knows where in the document it stands.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& text, const std::string& source, CaseIndex cases) : text_(text), source_(source), cases_(cases) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // never met in a text
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.key.clear();
    if (level.value->contains(name)) return refuse(fmt::format("key '{}' stands there twice{}", name, place()));
    level.key = name;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& problem) override {
    const std::string_view rest = std::string_view(text_).substr(std::min(position > 0 ? position - 1 : 0, text_.size()));
    std::string what = problem.what();
    if (const auto bracket = what.find("] "); bracket != std::string::npos) what.erase(0, bracket + 2);
    if (const auto colon = what.find(": "); what.rfind("parse error", 0) == 0 && colon != std::string::npos)
      what.erase(0, colon + 2);
    if (rest.rfind("NaN", 0) == 0 || rest.rfind("Inf", 0) == 0) {
      what = "a number that is not finite";
    } else if (problem.id == 406) {
      what += ": not a finite number";
    } else {
      what = "malformed JSON: " + what;
    }
    const auto [line, column] = line_and_column(position);
    return refuse(fmt::format("line {}, column {}: {}{}", line, column, what, place()));
  }

  Result<Json> take(bool complete) {
    if (!problem_.ok()) return problem_;
    PACELINE_CHECK(complete, "the reader stopped without a reason");
    return std::move(root_);
  }

 private:
  struct Level {
    Json* value;
    std::string key;
  };

  Json* insert(Json value) {
    if (levels_.empty()) return &(root_ = std::move(value));
    Json& parent = *levels_.back().value;
    if (parent.is_object()) return &(parent[levels_.back().key] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool put(Json value) {
    insert(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (levels_.size() == kDeepest) return refuse(fmt::format("nested deeper than {} levels{}", kDeepest, place()));
    levels_.push_back({insert(std::move(container)), ""});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  bool refuse(const std::string& what) {
    problem_ = error(ErrorKind::kBadRequest, "{}: {}", source_, what).because({"format", ""});
    return false;
  }

  // ", in case 2, key 'forward'": the document's first level is an array of cases or the only case.
  std::string place() const {
    if (cases_ == CaseIndex::kNone) return path();
    if (levels_.empty()) return "";
    const bool array = levels_.front().value->is_array();
    const std::size_t index = array ? levels_.front().value->size() - (levels_.size() > 1 ? 1 : 0) : 0;
    std::string text = fmt::format(", in case {}", index);
    const std::size_t object = array ? 1 : 0;
    if (levels_.size() > object && !levels_[object].key.empty()) text += fmt::format(", key '{}'", levels_[object].key);
    return text;
  }

  std::string path() const {
    std::string text;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      const Level& level = levels_[i];
      const bool innermost = i + 1 == levels_.size();
      text += text.empty() ? ", in " : ", ";
      if (level.value->is_array())
        text += fmt::format("entry {}", level.value->size() + (innermost ? 1 : 0));
      else
        text += level.key.empty() ? "an object" : fmt::format("{}'{}'", innermost ? "key " : "", level.key);
    }
    return text;
  }

  std::pair<std::size_t, std::size_t> line_and_column(std::size_t position) const {
    const std::string_view read = std::string_view(text_).substr(0, std::min(position, text_.size()));
    const auto lines = static_cast<std::size_t>(std::count(read.begin(), read.end(), '\n'));
    const auto start = read.rfind('\n');
    return {lines + 1, std::max<std::size_t>(1, read.size() - (start == std::string_view::npos ? 0 : start + 1))};
  }

  const std::string& text_;
  const std::string& source_;
  const CaseIndex cases_;
  Json root_;
  std::vector<Level> levels_;
  Status problem_;
};

}  // namespace

Result<Json> parse_json(const std::string& text, const std::string& source, CaseIndex cases) {
  Builder builder(text, source, cases);
  const bool complete = Json::sax_parse(text, &builder);
  return builder.take(complete);
}

Result<Json> parse_foreign(const std::string& text, const std::string& source) {
  auto parsed = parse_json(text, source + " is malformed", CaseIndex::kNone);
  if (!parsed.ok()) return Status(ErrorKind::kCorrupt, parsed.status().message());
  return parsed;
}

std::string brief(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 40) {
    std::size_t end = 37;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a UTF-8 character
    text = text.substr(0, end) + "...";
  }
  return text;
}

}  // namespace paceline::report
