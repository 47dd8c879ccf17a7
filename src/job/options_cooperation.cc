// Whom a worker waits for, and training without servers. Rows of the table of options (job/option_rows.h).
#include "job/option_rows.h"

namespace paceline::job {

using enum Section;
using enum Agree;

namespace {

Result<cost::LinkCost> parse_link_cost(std::string_view text) {
  cost::LinkCost link;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (double* value : {&link.alpha, &link.beta, &link.gamma}) {
    const auto [next, problem] = std::from_chars(at, end, *value);
    const bool last = value == &link.gamma;
    if (problem != std::errc() || !(*value >= 0) || *value > 1e300 || (last ? next != end : next == end || *next != ','))
      return error(ErrorKind::kBadRequest, "--link-cost '{}' is illegal; legal: three numbers, 0 and more, with commas", text);
    at = last ? next : next + 1;
  }
  return link;
}

std::string link_cost_text(const cost::LinkCost& link) { return fmt::format("{},{},{}", link.alpha, link.beta, link.gamma); }

// As the refusals of sync/sync_options.h say it.
std::string range(std::int64_t least, std::int64_t most) { return fmt::format("{}..{}", least, most); }

}  // namespace

std::vector<Option> sync_options() {
  return {
      value(
          {.name = "sync",
           .section = kHow,
           .agree = kResume,
           .sentence = "Whom a worker waits for",
           .choices = {"bsp", "asp", "ssp", "elastic-bsp"}},
          [](auto& job) -> auto& { return job.sync.kind; }, kText, sync::parse_sync_kind),
      number({.name = "staleness",
              .section = kHow,
              .agree = kResume,
              .sentence = "ssp: iterations that a worker may be ahead of the slowest",
              .legal = {.from = 0, .to = sync::kMaxStaleness, .words = range(0, sync::kMaxStaleness)}},
             [](auto& job) -> auto& { return job.sync.staleness; }),
      number({.name = "lookahead",
              .advanced = true,
              .section = kHow,
              .agree = kResume,
              .sentence = "elastic-bsp: iterations a barrier may lie ahead",
              .legal = {.from = 1, .to = sync::kMaxLookahead, .words = range(1, sync::kMaxLookahead)}},
             [](auto& job) -> auto& { return job.sync.lookahead; }),
      value(
          {.name = "objective",
           .advanced = true,
           .section = kHow,
           .sentence = "elastic-bsp: what a barrier's place minimises: waiting-share (of the workers' time until then) or span "
                       "(between the first and the last arrival)",
           .choices = {"waiting-share", "span"}},
          [](auto& job) -> auto& { return job.sync.objective; }, kText, sync::parse_objective),
      number(
          {.name = "history",
           .advanced = true,
           .section = kHow,
           .sentence =
               "elastic-bsp: a worker's next iterations are predicted from the median of its last so many; the first so many are "
               "bsp",
           .legal = {.from = 1, .to = sync::kMaxHistory, .words = range(1, sync::kMaxHistory)}},
          [](auto& job) -> auto& { return job.sync.history; }),
      value(
          {.name = "gradient-scale",
           .advanced = true,
           .section = kHow,
           .sentence =
               "mean: a gradient is divided by the number of workers. full: it is not, which is not for bsp. model: mean where "
               "gradients are summed over the workers, full where each is applied on its own",
           .choices = {"model", "mean", "full"}},
          [](auto& job) -> auto& { return job.sync.scale; }, kText, sync::parse_gradient_scale),
  };
}

std::vector<Option> loop_options() {
  return {
      value(
          {.name = "collective",
           .section = kHow,
           .sentence = "Train without servers: loop1 (the last rank updates; reduces under backward, broadcasts under forward), "
                       "loop2 (the same after backward), loop3 (allreduce, every rank updates) or loop3-overlap (under backward)",
           .choices = {"none", "loop1", "loop2", "loop3", "loop3-overlap"},
           .nothing = "none"},
          [](auto& job) -> auto& { return job.loop.loop; }, kName, parse_loop),
      value(
          {.name = "algorithm",
           .advanced = true,
           .section = kHow,
           .sentence = "Of the collective operations; with more than 2 workers ring, mst and be sum in another order than the "
                       "reference",
           .choices = {"best", "lp", "ring", "direct", "mst", "be"},
           .nothing = "best"},
          [](auto& job) -> auto& { return job.loop.algorithm; }, kName, parse_algorithm),
      value(
          {.name = "block",
           .advanced = true,
           .takes = "SIZE",
           .section = kHow,
           .sentence =
               "Into which --algorithm lp, and best where it takes lp, cuts a message; 64KB in the paper, and larger than a "
               "message: all of it. No bit changes (default: predicted fastest, for each message)",
           .legal = {.words = kLegalBlocks},
           .absent = ""},
          [](auto& job) -> auto& { return job.loop.block; }, block_text, parse_block, Refusals::kNameIt),
      number({.name = "broadcast-every",
              .advanced = true,
              .section = kHow,
              .sentence =
                  "loop3, loop3-overlap: iterations between two broadcasts of all weights; 0: never, for sums in a fixed order do "
                  "not drift",
              .legal = {.from = 0, .to = 1e15, .words = "0 (never) and more"}},
             [](auto& job) -> auto& { return job.loop.broadcast_every; }),
      value(
          {.name = "link-cost",
           .sentence = "Seconds of a message, of a byte and of adding a byte, for which operations are chosen",
           .legal = {.words = "ALPHA,BETA,GAMMA"},
           .absent = ""},
          [](auto& job) -> auto& { return job.loop.link; }, link_cost_text, parse_link_cost, Refusals::kNameIt),
      value(
          {.name = "convolutions",
           .agree = kResume,
           .sentence = "Algorithm of each convolution",
           .legal = {.words = "LAYER=ALGORITHM, several with commas between"}},
          [](auto& job) -> auto& { return job.task.convolutions; }, kText,
          [](std::string_view choice) { return model::parse_convolutions(std::string(choice)); }),
  };
}

}  // namespace paceline::job
