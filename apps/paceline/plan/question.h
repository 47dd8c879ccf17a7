// `paceline plan X`: a question with named keys, answered for one case or an array of cases without running anything.
// A question only says what its keys are and how one case is answered; reading options, files and arrays, checking names and
// types, and printing is done here once for all of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paceline/command.h"

namespace paceline::cli {

using Json = nlohmann::ordered_json;

// What a key holds. All numbers are finite and not negative; a rate is above zero; bytes and counts are whole and at most 2^53.
// kJson is any JSON value (an array of rows, of objects): the answer checks its form, its numbers have been checked.
enum class KeyType { kBytes, kRate, kSeconds, kNumber, kCount, kText, kNumbers, kRates, kCounts, kJson };

// Whether a key's option may stand beside --input; it holds for all cases there, whatever they say.
enum class Beside { kNothing, kInput };

struct Key {
  std::string name;  // as in JSON: parameter_bytes; the option is --parameter-bytes
  KeyType type;
  std::string help;
  bool required = true;
  Beside beside = Beside::kNothing;
};

struct Choice {  // an option that holds for all cases: --algorithm, --objective, --side
  std::string name;
  std::vector<std::string> values;  // legal ones; the first is the default
  std::string help;
};

struct Question {
  std::string name;
  std::string purpose;
  std::string examples;
  std::vector<Key> keys;
  std::vector<Choice> choices;
  // One case, whose keys have been checked for presence and type, and the value of each choice by name. Bytes and counts arrive as
  // integers, all other numbers (but those inside a kJson value) as doubles. A case without an answer is an answer with
  // "feasible": false; an error is a wrong request: its message names the key, the case's index is put in front of it here.
  std::function<Result<Json>(const Json& input, const Json& choices)> answer;
  // Keys of other tables that a case may carry along and that mean nothing here (a replay table's "model").
  std::vector<std::string> ignored = {};
};

// Adds `paceline plan <question.name>`: --input FILE (- = standard input), an option for each key and choice, --json.
void add_question(CLI::App& plan, Chosen& chosen, Question question);

// The answer to a case that is well-formed but has none: {"feasible": false, each of `keys`: null, "reason": reason}.
Json infeasible(const std::vector<std::string>& keys, const std::string& reason);

// Those of `names` that the case has, in that order.
std::vector<std::string> keys_given(const Json& input, const std::vector<std::string>& names);

// Each of `names` that the case has is a number above 0; kBadRequest names the first that is not.
Status require_positive(const Json& input, const std::vector<std::string>& names);

// Each file of this folder offers its questions.
void add_communication_questions(CLI::App& plan, Chosen& chosen);  // batches, iteration, slice, collective
void add_cluster_questions(CLI::App& plan, Chosen& chosen);        // barrier, gpus, servers
void add_device_questions(CLI::App& plan, Chosen& chosen);         // memory, algorithms, mini-batch, fft-ratio

// `plan mini-batch` by itself, for programs that make its cases.
Question mini_batch_question();

// `paceline plan job`, which reads what was measured instead of cases.
void add_job_question(CLI::App& plan, Chosen& chosen);

}  // namespace paceline::cli
