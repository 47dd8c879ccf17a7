#include "benchmarks/figures.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "benchmarks/files.h"
#include "paceline/beside.h"
#include "paceline/picture.h"

namespace paceline::cli {
namespace {

struct Options {
  std::string paper, only, output = "runs/figures";
  bool quick = false, finished = false, list = false, json = false;
};

std::vector<std::string> words_of(const Options& options) {
  std::vector<std::string> words = {python(),    bench_files("figures") + "/figures.py",
                                    "--program", program_beside("paceline").string(),
                                    "--output",  options.output};
  if (!options.paper.empty()) words.insert(words.end(), {"--paper", options.paper});
  if (!options.only.empty()) words.insert(words.end(), {"--only", options.only});
  if (options.quick) words.emplace_back("--quick");
  if (options.finished) words.emplace_back("--finished");
  if (options.list) words.emplace_back("--list");
  if (options.json) words.emplace_back("--json");
  return words;
}

int run(const Options& options) {
  const std::vector<std::string> words = words_of(options);
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));  // execvp changes nothing
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  return report_error(error(ErrorKind::kIo, "{} cannot be started: {}; set PACELINE_PYTHON to a Python with matplotlib", words[0],
                            std::strerror(errno)));
}

}  // namespace

void add_bench_figures(CLI::App& bench, Chosen& chosen) {
  CLI::App* command = bench.add_subcommand(
      "figures",
      "The figures and tables of the five papers from runs of this machine, each beside the paper's number and with a verdict: a\n"
      "page, index.html. Hours without --quick; interrupt it, start it again: finished cells are not run again");
  const auto options = std::make_shared<Options>();
  command->add_option("--paper", options->paper, "Of one paper: iBatch, P3, HTC guidelines, Linear Pipeline, ElasticBSP")
      ->option_text("NAME");
  command->add_option("--only", options->only, "These figures, with commas between; --list names them")->option_text("ID");
  command->add_option("--output", options->output, "Folder of finished cells, pictures, index.html and figures.json")
      ->capture_default_str();
  command->add_flag("--quick", options->quick, "Small runs, some minutes: for a look at the page, not at the numbers");
  command->add_flag("--finished", options->finished, "Run nothing: draw what the finished cells have");
  command->add_flag("--list", options->list, "Only say which figures there are, how they come about, and how long they take");
  command->add_flag("--json", options->json, "Print what figures.json has");
  set_examples(*command,
               "  paceline bench figures --list\n"
               "  paceline bench figures --paper P3 --output runs/figures\n"
               "  paceline bench figures --only ibatch-fig4,htc-table2");
  command->callback([options, &chosen] { chosen.run = [options] { return run(*options); }; });
}

}  // namespace paceline::cli
