// `paceline timeline`: a picture of what --trace wrote.
#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/core.h>

#include "base/new_file.h"
#include "paceline/command.h"
#include "paceline/option_files.h"
#include "paceline/timeline/lanes.h"
#include "paceline/within.h"

namespace paceline::cli {
namespace {

constexpr Bytes kLargestTrace{std::int64_t{4} << 30};
constexpr std::int64_t kMostIterations = 1'000'000'000;

struct Request {
  std::vector<std::string> traces;
  std::string picture;
  std::int32_t worker = 0;
  std::optional<std::int64_t> first;
  std::int64_t iterations = 3;
};

struct Window {
  double from = 0, length = 0;  // microseconds
};

// From the beginning of the first iteration to the end of the last one. Without a wish: near the end, where a job has its pace.
Result<Window> window_of(const Lanes& lanes, const std::string& source, const Request& request) {
  const std::int64_t lowest = lanes.begun.begin()->first, highest = lanes.begun.rbegin()->first;
  const std::int64_t first = request.first.value_or(std::max(lowest, highest - request.iterations));
  const auto begin = lanes.begun.find(first);
  if (begin == lanes.begun.end())
    return error(ErrorKind::kBadRequest, "--iteration {}: {} holds iterations {} to {}", first, source, lowest, highest)
        .because({"illegal", "--iteration"});
  double end = begin->second;
  for (const std::vector<Span>* lane : {&lanes.forward, &lanes.backward, &lanes.on_its_way})
    if (!lane->empty()) end = std::max(end, lane->back().end);
  if (const auto next = lanes.begun.find(first + request.iterations); next != lanes.begun.end()) end = next->second;
  return Window{begin->second, end - begin->second};
}

Status draw_timeline(const Request& request) {
  PACELINE_RETURN_IF_ERROR(check_output("--picture", request.picture));
  if (std::filesystem::path(request.picture).extension() != ".svg")
    return error(ErrorKind::kBadRequest, "--picture {}: the picture is an SVG; give a name that ends in .svg", request.picture)
        .because({"illegal", "--picture"});
  for (const std::string& trace : request.traces)
    PACELINE_RETURN_IF_ERROR(check_output_names({{"--picture", request.picture}}, {{"TRACE", trace}}));
  std::vector<Part> parts;
  double length = 0;
  for (const std::string& trace : request.traces) {
    PACELINE_ASSIGN_OR_RETURN(const std::string text, read_option("TRACE", trace, kLargestTrace));
    PACELINE_ASSIGN_OR_RETURN(Lanes lanes, read_lanes(text, trace, request.worker));
    PACELINE_ASSIGN_OR_RETURN(const Window window, window_of(lanes, trace, request));
    length = std::max(length, window.length);
    parts.push_back({std::filesystem::path(trace).stem().string(), std::move(lanes), window.from});
  }
  return write_file(system_files(), request.picture, drawn(parts, length));
}

}  // namespace

void add_timeline(CLI::App& app, Chosen& chosen) {
  auto request = std::make_shared<Request>();
  CLI::App* command =
      app.add_subcommand("timeline", "Draw what a worker computed and what was on its way, from what --trace wrote");
  command
      ->add_option("traces", request->traces,
                   "Files that --trace wrote; several are drawn one below the other, on one scale, each under its file's name")
      ->required()
      ->check(not_empty)
      ->option_text("TRACE...");
  command->add_option("--picture", request->picture, "The SVG to write")->required()->check(not_empty)->type_name("FILE");
  within(command->add_option("--worker", request->worker, "Whose computing and whose messages"), 0, 99'999)->capture_default_str();
  within(
      command->add_option("--iteration", request->first, "The first one that is shown; otherwise one near the end of each trace"),
      1, kMostIterations);
  within(command->add_option("--iterations", request->iterations, "How many are shown"), 1, kMostIterations)->capture_default_str();
  set_examples(*command,
               "  paceline timeline runs/p3.json --picture runs/p3.svg\n"
               "  paceline timeline runs/default.json runs/p3.json --picture runs/both.svg --iteration 4");
  command->callback([request, &chosen] {
    chosen.run = [request]() -> int {
      const Status status = draw_timeline(*request);
      return status.ok() ? kDone : report_error(status);
    };
  });
}

}  // namespace paceline::cli
