// cudnn_convolutions: how long each convolution of a network takes on a GPU with each of cuDNN's algorithms, and what workspace
// that needs, as a question for `paceline plan mini-batch` (docs/gpu.md). Exit code 0: done; 1: it failed while measuring; 2: the
// request was wrong; 3: there is no GPU.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "base/clock.h"
#include "gpu_convolutions/request.h"
#include "gpu_convolutions/survey.h"
#include "paceline/command.h"
#include "paceline/progress.h"
#include "planner/cuda/cudnn_timer.h"

namespace paceline::gpu_convolutions {
namespace {

constexpr int kNoGpu = 3;

void tell(const std::string& what) { fmt::print(stderr, "cudnn_convolutions: {}\n", what); }

int report(const Status& status) {
  tell("error: " + status.message());
  return cli::exit_code(status);
}

Result<Survey> measure(const Options& options, const Work& work) {
  PACELINE_ASSIGN_OR_RETURN(const auto timer, planner::CudnnTimer::make(options.rounds));
  const SystemClock clock;
  const auto layers = static_cast<std::int64_t>(work.convolutions.size() * work.mini_batches.size());
  cli::ProgressBar bar(work.model.name, layers, cli::ShowProgress::kOnTerminal, clock);
  bar.update(0);
  Survey result{
      .model = work.model.name, .fingerprint = timer->fingerprint(), .rounds = options.rounds, .samples = options.samples};
  PACELINE_ASSIGN_OR_RETURN(
      result.mini_batches,
      survey(
          work, [&](const auto& layer, const auto& passes, std::int64_t size) { return timer->measure(layer, passes, size); },
          [&](std::int64_t done) { bar.update(done); }));
  return result;
}

int run(const Options& options) {
  const auto work = work_for(options);
  if (!work.ok()) return report(work.status());
  for (const std::string& notice : work->notices) tell(notice);
  if (const std::string why = planner::no_gpu_reason(); !why.empty()) {
    tell(fmt::format("there is no GPU here ({}); nothing was measured", why));
    return kNoGpu;
  }
  const auto measured = measure(options, *work);
  if (!measured.ok()) return report(measured.status());
  if (options.as_case)
    fmt::print("{}\n", case_of(*measured).dump());
  else if (options.json)
    fmt::print("{}\n", to_json(*measured).dump(1));
  else
    fmt::print("{}", to_text(*measured));
  if (std::fflush(stdout) != 0) return report(error(ErrorKind::kIo, "cannot write to standard output"));
  return cli::kDone;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Measures every convolution of a network on a GPU with each of cuDNN's algorithms.", "cudnn_convolutions");
  Options options;
  add_options(app, options);
  cli::set_examples(app,
                    "  cudnn_convolutions --model alexnet --mini-batch 64\n"
                    "  cudnn_convolutions --model vgg-19 --mini-batch 16,32,64 --samples 1281167 --memory 12GB --case | paceline "
                    "plan mini-batch --input -");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& problem) {
    return report(error(ErrorKind::kBadRequest, "{}; see 'cudnn_convolutions --help'", problem.what()));
  }
  return run(options);
}

}  // namespace
}  // namespace paceline::gpu_convolutions

int main(int argc, char** argv) {
  try {
    return paceline::gpu_convolutions::parse_and_run(argc, argv);
  } catch (const std::exception& unexpected) {
    std::fprintf(stderr, "cudnn_convolutions: error: %s\n", unexpected.what());
    return paceline::cli::kFailed;
  }
}
