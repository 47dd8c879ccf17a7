// What is trained and how it is updated. Rows of the table of options (job/option_rows.h).
#include "job/option_rows.h"

namespace paceline::job {

using enum Section;
using enum Agree;

std::vector<Option> task_options() {
  return {
      text({.name = "model",
            .takes = "NAME",
            .section = kWhat,
            .agree = kResume,
            .sentence = "Network; 'paceline models' lists them. replay:FILE replays a table of layers, yours or one that comes "
                        "along (replay:vgg19): sleeps instead of computing, real bytes",
            .legal = {.words = "a network's name or replay:FILE"}},
           [](auto& job) -> auto& { return job.task.model; }),
      text({.name = "dataset",
            .takes = "NAME",
            .section = kWhat,
            .agree = kResume,
            .sentence = "Data set; 'paceline datasets' lists them",
            .legal = {.words = "a data set's name"}},
           [](auto& job) -> auto& { return job.task.dataset; }),
      number({.name = "mini-batch",
              .section = kWhat,
              .agree = kResume,
              .sentence = "Samples per worker and iteration",
              .legal = {.from = 1, .to = 1e9}},
             [](auto& job) -> auto& { return job.task.mini_batch; }),
      number({.name = "iterations",
              .section = kWhat,
              .sentence = "Iterations; or give --epochs",
              .legal = {.from = 1, .to = 1e15},
              .absent = "0"},
             [](auto& job) -> auto& { return job.task.iterations; }),
      number({.name = "epochs",
              .section = kWhat,
              .sentence = "Passes over the data (default 1)",
              .legal = {.from = 1, .to = 1e9},
              .absent = "0"},
             [](auto& job) -> auto& { return job.task.epochs; }),
      number({.name = "evaluate-every",
              .advanced = true,
              .section = kWhat,
              .sentence = "Iterations of rank 0 between two evaluations on the test set; 0: only at the end",
              .legal = {.from = 0, .to = 1e15, .words = "0 (only at the end) and more"}},
             [](auto& job) -> auto& { return job.task.evaluate_every; }),
      flag({.name = "evaluate-late",
            .advanced = true,
            .section = kWhat,
            .sentence = "Keep copies of the parameters and evaluate them when the training is over, so that evaluating disturbs "
                        "nobody's pace"},
           [](auto& job) -> auto& { return job.task.evaluate_late; }),
      number({.name = "seed",
              .section = kWhat,
              .agree = kResume,
              .sentence = "Of initial values, order of the data, dropout",
              .legal = {.from = 0, .to = 9e15, .words = "0 to 9000000000000000"}},
             [](auto& job) -> auto& { return job.task.seed; }),
  };
}

namespace {

// Its text is the rate that counts, also where nobody gave one.
Option learning_rate_option() {
  Option row{.name = "learning-rate",
             .takes = "RATE",
             .section = kWhat,
             .agree = kResume,
             .sentence =
                 "A number, or a schedule: step:0.1,every=100,factor=0.5 | cosine:0.1,total=1000 | "
                 "polynomial:0.1,total=1000,power=2; each with ,warmup=50. With adam and adamw 0.001, if nobody gives it",
             .legal = {.words = "a number or a schedule of step, cosine, polynomial"}};
  row.text = [](const JobSpec& job) { return to_text(learning_rate_of(job)); };
  row.set = [](JobSpec& job, std::string_view text) -> Status {
    const auto rate = tensor::parse_schedule(text);
    if (!rate.ok()) return illegal("learning-rate", fmt::format("--learning-rate: {}", rate.status().message()));
    job.learning_rate = *rate;
    return {};
  };
  return row;
}

}  // namespace

std::vector<Option> update_options() {
  return {
      value(
          {.name = "optimizer",
           .section = kWhat,
           .agree = kResume,
           .sentence = "How a step is made of a gradient. mean: not at all; workers get the mean gradient back and have optimizers "
                       "of their own (programs only, and replays)",
           .choices = tensor::optimizer_names()},
          [](auto& job) -> auto& { return job.update.optimizer.kind; }, [](auto kind) { return tensor::name_of(kind); },
          tensor::parse_optimizer),
      learning_rate_option(),
      number({.name = "momentum",
              .section = kWhat,
              .agree = kResume,
              .sentence = "For momentum and nesterov",
              .legal = {.from = 0, .below = 1}},
             [](auto& job) -> auto& { return job.update.optimizer.momentum; }),
      number({.name = "weight-decay",
              .section = kWhat,
              .agree = kResume,
              .sentence = "Share of a parameter added to its gradient (adamw: taken off the parameter)",
              .legal = {.from = 0, .to = 1e15}},
             [](auto& job) -> auto& { return job.update.optimizer.weight_decay; }),
      number({.name = "adam-beta1",
              .advanced = true,
              .section = kWhat,
              .agree = kResume,
              .sentence = "For adam and adamw: how much of the mean gradient so far stays",
              .legal = {.from = 0, .below = 1}},
             [](auto& job) -> auto& { return job.update.optimizer.beta1; }),
      number({.name = "adam-beta2",
              .advanced = true,
              .section = kWhat,
              .agree = kResume,
              .sentence = "For adam and adamw: how much of the mean squared gradient so far stays",
              .legal = {.from = 0, .below = 1}},
             [](auto& job) -> auto& { return job.update.optimizer.beta2; }),
      number({.name = "adam-epsilon",
              .advanced = true,
              .section = kWhat,
              .agree = kResume,
              .sentence = "For adam, adamw and adagrad: added to the root of the squared gradients before dividing by it",
              .legal = {.from = 1e-38, .to = 1e38, .words = "1e-38 to 1e38"}},
             [](auto& job) -> auto& { return job.update.optimizer.epsilon; }),
      value(
          {.name = "parameter-groups",
           .advanced = true,
           .takes = "RULES",
           .section = kWhat,
           .agree = kResume,
           .sentence = "Parameters that are updated otherwise, by patterns of their names, the first that fits: "
                       "\"*.bias:decay=0;fc*:rate=0.1\" (decay: weight decay, rate: times the learning rate)",
           .legal = {.words = "PATTERN:rate=FACTOR,decay=DECAY, several with ; between"},
           .absent = ""},
          [](auto& job) -> auto& { return job.groups; }, kText, parse_groups, Refusals::kNameIt),
      number({.name = "clip-norm",
              .section = kWhat,
              .agree = kResume,
              .sentence =
                  "Largest norm of the mean gradient; 0: no clipping. Holds an iteration's updates until all its gradients are "
                  "there, so it is for bsp only",
              .legal = {.from = 0, .to = 1e15, .words = "0 (no clipping) and more"}},
             [](auto& job) -> auto& { return job.update.clip_norm; }),
      value(
          {.name = "non-finite",
           .advanced = true,
           .section = kHow,
           .sentence =
               "What happens to a gradient with an infinity or NaN. stop: it ends the job and is named. skip: all leave the "
               "iteration out, which holds updates and costs overlap, so it is for bsp only. apply: nothing",
           .choices = {"stop", "skip", "apply"}},
          [](auto& job) -> auto& { return job.update.non_finite; }, kName, parse_non_finite_policy),
  };
}

std::vector<Option> program_options() {
  return {
      flag({.name = "verdict",
            .advanced = true,
            .section = kHow,
            .sentence =
                "With --optimizer mean: after every iteration workers hear the sum of the squares of its mean gradient, whose "
                "gradient is not finite, and which tensors nobody used. Costs each server and worker a message of about 100 bytes "
                "an iteration, and the server 1 ns an element"},
           [](auto& job) -> auto& { return job.update.verdict; }),
      flag({.name = "verdict-first",
            .advanced = true,
            .section = kHow,
            .sentence =
                "With --verdict, for workers that use no mean before the verdict of its iteration, as with attach(clip_norm=...): "
                "where a link carries both, all gradients of an iteration leave before its means"},
           [](auto& job) -> auto& { return job.update.verdict_first; }),
      flag({.name = "told-rates",
            .advanced = true,
            .section = kHow,
            .agree = kResume,
            .sentence =
                "For programs (paceline/paceline.h, attach(update=\"server\")): with every iteration workers say the learning "
                "rate and weight decay of each group of parameters, in place of --learning-rate, --weight-decay and "
                "--parameter-groups. Costs 16 bytes a group for each worker and server"},
           [](auto& job) -> auto& { return job.update.told_rates; }),
  };
}

}  // namespace paceline::job
