// The question `job`: one recommendation from what was measured.
#include <cmath>

#include "base/wrong.h"
#include "planner/questions/question.h"
#include "planner/questions/recommendation.h"

namespace paceline::planner {
namespace {

template <typename T>
std::optional<T> given(const Json& input, const char* key) {
  return input.contains(key) ? std::optional(input[key].get<T>()) : std::nullopt;
}

std::optional<BytesPerSecond> rate(const Json& input, const char* key) {
  const auto rate = given<double>(input, key);
  return rate ? std::optional(BytesPerSecond{*rate}) : std::nullopt;
}

Result<Json> answer_job(const Json& input, const Json& choices) {
  const JobQuestion question{
      .model = input["model"],
      .samples = input["dataset_size"],
      .memory = Bytes{input["memory"].get<std::int64_t>()},
      .dataset = given<std::string>(input, "dataset").value_or(""),
      .mini_batches = given<std::vector<std::int64_t>>(input, "mini_batches").value_or(std::vector<std::int64_t>()),
      .workers = given<std::int64_t>(input, "workers"),
      .speedup = given<double>(input, "speedup"),
      .efficiency = given<double>(input, "efficiency"),
      .overhead = given<double>(input, "overhead"),
      .bandwidth = rate(input, "bandwidth"),
      .worker_bandwidth = rate(input, "worker_bandwidth"),
      .duplex = choices["duplex"] == "full" ? Duplex::kFull : Duplex::kHalf};
  PACELINE_RETURN_IF_ERROR(validate(question, [](const std::string& key) { return fmt::format("key '{}'", key); }));
  PACELINE_ASSIGN_OR_RETURN(const Measurements measurements, read_measurements(input["measurements"], "key 'measurements'"));
  PACELINE_ASSIGN_OR_RETURN(const Recommendation recommendation, recommend(question, measurements));
  return to_json(recommendation);
}

}  // namespace

Status validate(const JobQuestion& question, const Called& called) {
  const auto refuse = [&](const char* key, const std::string& rest) { return wrong("{}{}", called(key), rest).because({"", key}); };
  if (question.samples < 1) return refuse("dataset_size", fmt::format(" is {}; legal: 1 and more", question.samples));
  if (question.memory.count < 1) return refuse("memory", fmt::format(" is {}; it must be above zero", question.memory.count));
  for (const std::int64_t mini_batch : question.mini_batches) {
    if (mini_batch < 1) return refuse("mini_batches", fmt::format(" has {}; legal: 1 and more", mini_batch));
  }
  if (question.workers && question.speedup)
    return refuse("workers", fmt::format(" and {} contradict each other; give one of them", called("speedup")));
  if (question.workers && (*question.workers < 1 || *question.workers > kMostProcesses))
    return refuse("workers", fmt::format(" is {}; legal: 1 to {}", *question.workers, kMostProcesses));
  if (question.speedup && !(std::isfinite(*question.speedup) && *question.speedup > 0))
    return refuse("speedup", fmt::format(" is {}; legal are finite numbers above 0", *question.speedup));
  if (question.efficiency && !(*question.efficiency > 0 && *question.efficiency <= 1))
    return refuse("efficiency", fmt::format(" is {}; legal are numbers above 0 and up to 1", *question.efficiency));
  if (question.overhead && !(std::isfinite(*question.overhead) && *question.overhead >= 0))
    return refuse("overhead", fmt::format(" is {}; legal are finite numbers from 0", *question.overhead));
  if (question.worker_bandwidth && !question.bandwidth)
    return refuse("worker_bandwidth", fmt::format(" needs {}, that of a server's link", called("bandwidth")));
  return model::describe(question.model).status();
}

Question job_question() {
  return {
      .name = "job",
      .purpose = "Mini-batch, convolution algorithms, workers and servers for a job, from measured times",
      .keys = {{"model", KeyType::kText, "a network that 'paceline models' lists"},
               {"dataset_size", KeyType::kCount, "samples of a data epoch, 1 or more"},
               {"memory", KeyType::kBytes, "of one worker", true, Beside::kNothing, kBareFrom},
               {"measurements", KeyType::kJson, "measured times, as 'paceline profile --convolutions --json' prints them"},
               {"mini_batches", KeyType::kCounts, "candidates; absent: all that were measured", false},
               {"workers", KeyType::kCount, "workers; or give speedup, or efficiency; absent: 1", false},
               {"speedup", KeyType::kNumber, "over one worker: the fewest workers that reach it", false},
               {"efficiency", KeyType::kNumber,
                "above 0 and up to 1: the most workers that reach it; beside workers or speedup a condition", false},
               {"overhead", KeyType::kNumber, "R_O; absent: as it was measured, with the nearest mini-batch", false},
               {"bandwidth", KeyType::kRate, "of a server's link, and of a worker's unless worker_bandwidth says otherwise", false},
               {"worker_bandwidth", KeyType::kRate, "of a worker's link", false},
               {"dataset", KeyType::kText, "whose measured overhead counts, and which 'train --plan' takes; absent: any", false}},
      .choices = {{"duplex", {"full", "half"}, "pushes and pulls at once, or one after the other"}},
      .answer = answer_job};
}

}  // namespace paceline::planner
