#include "job/going_on.h"

#include <algorithm>
#include <vector>

#include "job/option.h"

namespace paceline::job {
namespace {

// Words that need quotes in a shell are no names, numbers or lists.
std::string typed_word(const std::string& text) {
  const bool plain = text.find_first_of(" ;*?[]|&'\"$<>()#!~\\\n\t") == std::string::npos;
  return plain ? text : fmt::format("\"{}\"", text);
}

bool comes_along(const Option& option) {
  constexpr std::string_view kOfOneRun[] = {"checkpoint", "checkpoint-key", "resume", "export"};
  // The coordinator and the files tell what no person gives; only the convolutions decide bits.
  const bool a_persons = option.section != Section::kNone || option.agree == Agree::kResume;
  return a_persons && std::ranges::find(kOfOneRun, option.name) == std::end(kOfOneRun);
}

// What is said otherwise than it was, and what had only been said beside that.
struct Refined {
  const char* said;
  std::vector<std::string_view> by;
};

const std::vector<Refined>& refined() {
  static const std::vector<Refined> kAll = {
      {"iterations", {"epochs"}},
      {"epochs", {"iterations"}},
      {"evaluate-every", {"evaluate-late"}},
      {"schedule", {"slice", "merge", "batching", "push", "return", "ordered-places", "message-start-up"}},
      {"return", {"batching", "push"}},
      {"algorithm", {"merge", "block"}},
      {"collective",
       {"schedule", "slice", "merge", "batching", "push", "return", "algorithm", "block", "broadcast-every", "message-start-up"}}};
  return kAll;
}

// Whoever wants servers, or how they exchange something, does not want the collective operations of before.
bool wants_servers(const JobSpec& wanted, const Said& said) {
  constexpr std::string_view kOfServers[] = {"schedule", "slice", "batching", "push", "return"};
  if (said("servers")) return true;
  return std::ranges::any_of(kOfServers, [&](std::string_view name) {
    const Option& option = *find_option(name);
    return said(name) && !is_usual(wanted, option);
  });
}

std::vector<std::string_view> left_behind(const JobSpec& wanted, const JobSpec& saved, const Said& said) {
  std::vector<std::string_view> names;
  const auto leave = [&](const std::vector<std::string_view>& more) { names.insert(names.end(), more.begin(), more.end()); };
  for (const Refined& one : refined()) {
    const Option& option = *find_option(one.said);
    if (said(one.said) && option.text(wanted) != option.text(saved)) leave(one.by);
  }
  if (!saved.has_servers() && wants_servers(wanted, said)) leave({"collective", "algorithm", "block", "broadcast-every", "merge"});
  return names;
}

}  // namespace

JobSpec with_saved(JobSpec wanted, const JobSpec& saved, const Said& said) {
  const auto left = left_behind(wanted, saved, said);
  for (const Option& option : options()) {
    if (!comes_along(option) || said(option.name) || std::ranges::find(left, option.name) != left.end()) continue;
    const std::string text = option.text(saved);
    if (option.text(wanted) != text) (void)option.set(wanted, text);  // the text of a value that was legal
  }
  return wanted;
}

std::string taken_text(const JobSpec& job, const JobSpec& saved, const Said& said) {
  std::string text;
  for (const Option& option : options()) {
    if (!comes_along(option) || said(option.name) || option.text(job) != option.text(saved) || is_usual(job, option)) continue;
    text += " --" + option.name;
    if (option.type != OptionType::kFlag) text += " " + typed_word(typed_text(job, option));
  }
  return text;
}

}  // namespace paceline::job
