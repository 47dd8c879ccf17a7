// What travels when, and as what. Rows of the table of options (job/option_rows.h).
#include "job/option_rows.h"

namespace paceline::job {

using enum Section;
using enum Agree;

namespace {

constexpr const char* kSlices = "1 and more parameters (50000), or bytes with a unit (200KB) that are whole parameters of 4";
constexpr const char* kMerges = "0 (nothing is merged) and more parameters, or bytes with a unit that are whole parameters of 4";

// One option for two members: the codec and its share.
Option schedule_row() {
  return value(
      {.name = "schedule",
       .section = kHow,
       .sentence = "Which parts of a model travel when",
       .choices = scheduling::schedule_names()},
      [](auto& job) -> auto& { return job.schedule.name; }, [](const std::string& name) { return name; },
      [](std::string_view name) -> Result<std::string> {
        PACELINE_RETURN_IF_ERROR(scheduling::parse_schedule_name(name).status());
        return std::string(name);
      });
}

Option wire_row(Option row) {
  row.text = [](const JobSpec& job) { return job.wire.text(); };
  row.set = [](JobSpec& job, std::string_view text) -> Status {
    const auto wire = parse_wire(text);
    if (!wire.ok()) return wire.status().because({"illegal", "--wire"});
    job.wire.kind = wire->kind;
    job.wire.share = wire->share;
    return {};
  };
  return row;
}

}  // namespace

std::vector<Option> schedule_options() {
  return {
      schedule_row(),
      value(
          {.name = "slice",
           .advanced = true,
           .takes = "SIZE",
           .section = kHow,
           .sentence = "Largest slice: parameters (50000), or bytes with a unit (200KB); for tuned, slicing and p3 (default: "
                       "chosen, 50000, 50000)",
           .legal = {.words = kSlices},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.slice; }, [](auto size) { return std::to_string(size); },
          [](std::string_view size) { return parse_parameters("--slice", size, 1, kSlices); }, Refusals::kNameIt),
      value(
          {.name = "merge",
           .advanced = true,
           .takes = "SIZE",
           .section = kHow,
           .sentence =
               "Small neighbours share one message: whole tensors join the one before them while all that joined it have at most "
               "this many parameters (or bytes, with a unit); 0: none does (default: tuned: chosen; others: 0)",
           .legal = {.words = kMerges},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.merge; }, [](auto size) { return std::to_string(size); },
          [](std::string_view size) { return parse_parameters("--merge", size, 0, kMerges); }, Refusals::kNameIt),
      value(
          {.name = "batching",
           .advanced = true,
           .section = kHow,
           .sentence =
               "With --return pull-in-batches (ibatch's own): how batches are planned from the layers' times and pulls seen so "
               "far. They are planned again when the times move by more than a fifth (default exact)",
           .choices = {"exact", "forward-greedy", "backward-greedy", "ibatch"},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.batching; }, kName, parse_batching, Refusals::kNameIt),
      value(
          {.name = "push",
           .advanced = true,
           .section = kHow,
           .sentence =
               "When gradients leave. at-end: after backward; layers and batches are then asked for when the servers have all "
               "gradients. as-ready: each by itself. in-batches, with --return pull-in-batches: in groups of layers, each group "
               "one message to each server. No bit changes (default: the schedule's own)",
           .choices = {"at-end", "as-ready", "in-batches"},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.push; }, kName, parse_push, Refusals::kNameIt),
      value(
          {.name = "return",
           .advanced = true,
           .section = kHow,
           .sentence =
               "How values come back, with any schedule. No bit changes (default: the schedule's own; tuned: as predicted to be "
               "fastest)",
           .choices = {"broadcast", "pull-at-once", "pull-by-layer", "pull-in-batches", "notify-and-pull"},
           .absent = ""},
          [](auto& job) -> auto& { return job.schedule.back; }, kName, parse_return, Refusals::kNameIt),
  };
}

std::vector<Option> wire_options() {
  return {
      value(
          {.name = "window",
           .advanced = true,
           .takes = "SIZE",
           .section = kHow,
           .sentence =
               "Most bytes of a process that are on their way unacknowledged. An urgent layer waits for them: a small window "
               "reacts fast, a large one fills the link. auto: 2ms of the link's measured rate, 256KiB at least; to several "
               "processes at once up to six slices or 10ms. auto:4ms: that much time of the link. Or a size of at least two chunks",
           .legal = {.words = "auto, auto:TIME, or a size of at least 128KiB"}},
          [](auto& job) -> auto& { return job.schedule.window; }, kText, scheduling::parse_window, Refusals::kNameIt),
      value(
          {.name = "ordered-places",
           .advanced = true,
           .takes = "PLACES",
           .section = kHow,
           .sentence =
               "Where urgency decides, to see what each place is worth: all, none, or some of worker-egress, server-ingress, "
               "server-egress, window with commas between. Schedules without order by layer have only the window",
           .legal = {.words = "all, none, or a list of worker-egress, server-ingress, server-egress, window"}},
          [](auto& job) -> auto& { return job.schedule.places; }, kText, scheduling::parse_places, Refusals::kNameIt),
      wire_row({.name = "wire",
                .takes = "TYPE",
                .section = kHow,
                .agree = kResume,
                .sentence = wire_sentence(),
                .legal = {.words = wire_words()}}),
      number({.name = "loss-scale",
              .advanced = true,
              .section = kHow,
              .agree = kResume,
              .sentence = "bfloat16, float16: what gradients are multiplied by before they are rounded, so that small ones are not "
                          "lost; their sum is divided by it. A power of two, 1 to 16777216",
              .legal = {.from = 1, .to = kLargestLossScale, .words = "a power of two from 1 to 16777216"}},
             [](auto& job) -> auto& { return job.wire.loss_scale; }),
      number({.name = "dgc-warm-up",
              .advanced = true,
              .section = kHow,
              .agree = kResume,
              .sentence = "dgc: iterations in which the share that is sent falls exponentially from a quarter to SHARE; 0: none",
              .legal = {.from = 0, .to = 1e15}},
             [](auto& job) -> auto& { return job.wire.warm_up; }),
  };
}

}  // namespace paceline::job
