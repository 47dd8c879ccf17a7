// The questions of `paceline plan`: named keys with types, answered for one case without running anything. A question only says
// what its keys are and how a case is answered; checking names and types is done once for all of them (cases.h). Pure; any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/questions/json.h"

namespace paceline::planner {

// What a key holds. All numbers are finite and not negative; a rate is above zero; bytes and counts are whole and at most 2^53.
// An amount may be a text with its unit, too: "10gbit", "8GB", "100us".
// kJson is any JSON value (an array of rows, of objects): the answer checks its form, its numbers have been checked.
enum class KeyType { kBytes, kRate, kSeconds, kNumber, kCount, kText, kNumbers, kRates, kCounts, kJson };
const char* to_string(KeyType type);  // "bytes"

// Whether a key's option may stand beside --input; it holds for all cases there, whatever they say.
enum class Beside { kNothing, kInput };

struct Key {
  std::string name;  // parameter_bytes
  KeyType type;
  std::string help;
  bool required = true;
  Beside beside = Beside::kNothing;
  double bare_from = 0;  // of kBytes, as text: a smaller number has to say its unit, since one was more likely forgotten
};

// No model and no device has fewer bytes.
inline constexpr double kBareFrom = 1024;

struct Choice {  // what holds for all cases: algorithm, objective, side
  std::string name;
  std::vector<std::string> values;  // legal ones; the first is the default
  std::string help;
};

struct Question {
  std::string name;
  std::string purpose;
  std::vector<Key> keys;
  std::vector<Choice> choices;
  // One case, whose keys have been checked for presence and type, and the value of each choice by name. Bytes and counts arrive as
  // integers, all other numbers (but those inside a kJson value) as doubles. A case without an answer is an answer with
  // "feasible": false; an error is a wrong request: its message names the key, whoever asked puts the case's index in front of it.
  std::function<Result<Json>(const Json& input, const Json& choices)> answer;
  // Keys of other tables that a case may carry along and that mean nothing here (a replay table's "model").
  std::vector<std::string> ignored = {};
  // Keys of the answer whose numbers have a unit that the key does not name: kSeconds, kBytes or kRate; for people.
  std::map<std::string, KeyType> units = {};
};

// All questions, in the order in which they are listed.
const std::vector<Question>& questions();
// Null: there is none of that name.
const Question* find_question(std::string_view name);

// question.answer(), whose numbers JSON can write: kBadRequest naming the one that is not finite.
Result<Json> answer_to(const Question& question, const Json& input, const Json& choices);

// The answer to a case that is well-formed but has none: {"feasible": false, each of `keys`: null, "reason": reason}.
Json infeasible(const std::vector<std::string>& keys, const std::string& reason);

// Those of `names` that the case has, in that order.
std::vector<std::string> keys_given(const Json& input, const std::vector<std::string>& names);

// Each of `names` that the case has is a number above 0; kBadRequest names the first that is not.
Status require_positive(const Json& input, const std::vector<std::string>& names);
// The count, which the case has, is 1 or more.
Status require_one(const Json& input, const char* key);

// Each file of this folder offers its questions.
std::vector<Question> communication_questions();  // batches, iteration, speedup, slice, collective
Question collective_question();
Question speedup_question();
std::vector<Question> cluster_questions();  // barrier, gpus, servers
std::vector<Question> device_questions();   // memory, algorithms, mini-batch, fft-ratio
Question job_question();                    // job

}  // namespace paceline::planner
