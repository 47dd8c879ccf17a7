// What a process does beside training. Rows of the table of options (job/option_rows.h).
#include <fmt/ranges.h>

#include "job/option_rows.h"

namespace paceline::job {

using enum Section;
using enum Agree;

std::vector<Option> saving_options() {
  return {
      text({.name = "checkpoint",
            .takes = "DIR",
            .section = kFiles,
            .sentence = "Directory for checkpoints; bsp only",
            .legal = {.words = "a directory"},
            .absent = ""},
           [](auto& job) -> auto& { return job.saving.directory; }),
      number({.name = "checkpoint-every",
              .section = kFiles,
              .sentence = "Iterations between two checkpoints; 0: only at the end",
              .legal = {.from = 0, .to = 1e15, .words = "0 (only at the end) and more"}},
             [](auto& job) -> auto& { return job.saving.every; }),
      text({.name = "checkpoint-key",
            .advanced = true,
            .takes = "FILE",
            .section = kFiles,
            .sentence =
                "Key that seals checkpoints ('paceline key new FILE' makes one, the same path for all processes): --resume then "
                "refuses what is not sealed with it, was changed or mixed",
            .legal = {.words = "a file"},
            .absent = ""},
           [](auto& job) -> auto& { return job.saving.key_file; }),
      flag({.name = "resume",
            .section = kFiles,
            .sentence = "Go on from the newest checkpoint of which every byte is good, with its job's options where none is given; "
                        "servers, schedule and length may be others"},
           [](auto& job) -> auto& { return job.saving.resume; }),
      text({.name = "resume-from",
            .sentence = "The checkpoint that the coordinator found",
            .legal = {.words = "a directory"},
            .absent = ""},
           [](auto& job) -> auto& { return job.saving.from; }),
      number({.name = "resume-iteration", .sentence = "Its iteration", .legal = {.from = 0, .to = 1e15}},
             [](auto& job) -> auto& { return job.saving.iteration; }),
      text({.name = "resume-manifest", .sentence = "Its manifest's checksum", .legal = {.words = "a checksum"}, .absent = ""},
           [](auto& job) -> auto& { return job.saving.manifest; }),
      text({.name = "export",
            .takes = "FILE",
            .section = kFiles,
            .sentence = "The final model to this file, in the safetensors format",
            .legal = {.words = "a file"},
            .absent = ""},
           [](auto& job) -> auto& { return job.saving.export_file; }),
  };
}

std::vector<Option> limits_options() {
  return {
      number({.name = "deadline",
              .type = OptionType::kTime,
              .section = kLimits,
              .sentence = "Silence after which a process counts as lost; one that has ended is noticed at once",
              .legal = {.from = 0.2, .to = 86'400, .words = "200ms to 86400s, a day"}},
             [](auto& job) -> auto& { return job.limits.deadline; }),
      number({.name = "stall-deadline",
              .advanced = true,
              .type = OptionType::kTime,
              .section = kLimits,
              .sentence = "Longest wait without progress while everybody is alive",
              .legal = {.from = 1, .to = 1e9, .words = "1s and more"}},
             [](auto& job) -> auto& { return job.limits.stall_deadline; }),
      flag({.name = "metrics", .sentence = "Workers tell the coordinator about every iteration"},
           [](auto& job) -> auto& { return job.watching.metrics; }),
      flag({.name = "pace", .sentence = "The pacing server tells the coordinator of every iteration and superstep"},
           [](auto& job) -> auto& { return job.watching.pace; }),
      flag({.name = "trace", .sentence = "Every process records a timeline"},
           [](auto& job) -> auto& { return job.watching.trace; }),
      number({.name = "scale",
              .advanced = true,
              .section = kWhat,
              .sentence =
                  "replay: divides the parameters, and the sizes in schedules, so that a link stands for a faster one: at 10, 100 "
                  "Mb/s stand for 1 Gb/s",
              .legal = {.from = 1, .to = 1e9}},
             [](auto& job) -> auto& { return job.task.scale; }),
      number({.name = "message-start-up",
              .advanced = true,
              .type = OptionType::kTime,
              .section = kWhat,
              .sentence =
                  "replay with servers, not with tuned: what each message of values takes before it leaves its server. The next "
                  "one to the same worker begins when the last one has arrived, as in iBatch's model. Shows what batches of pulls "
                  "are worth where messages are dear; 0: nothing",
              .legal = {.from = 0, .to = 10, .words = "0s to 10s"}},
             [](auto& job) -> auto& { return job.task.message_start_up; }),
      value(
          {.name = "speed",
           .advanced = true,
           .takes = "SHARES",
           .section = kWhat,
           .sentence = "Made-up speed of each worker, share of the machine's: 1,1,0.5,0.25 (default: 1 each)",
           .legal = {.words = "0.001 to 1, one number for each worker, separated by commas"},
           .absent = ""},
          [](auto& job) -> auto& { return job.speed; },
          [](const std::vector<double>& speeds) { return fmt::format("{}", fmt::join(speeds, ",")); },
          [](std::string_view speeds) { return parse_speeds(std::string(speeds)); }, Refusals::kNameIt),
      number({.name = "jitter",
              .advanced = true,
              .section = kWhat,
              .sentence = "How much the time of an iteration's computing varies: its standard deviation, as a share of it",
              .legal = {.from = 0, .to = 1}},
             [](auto& job) -> auto& { return job.jitter; }),
  };
}

}  // namespace paceline::job
