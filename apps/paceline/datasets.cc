// `paceline datasets`: which data sets there are; `show` what is in one; `pack` it into a record file.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "paceline/command.h"
#include "paceline/data_files.h"
#include "paceline/data_root.h"
#include "paceline/option_files.h"
#include "paceline/progress.h"
#include "runtime/signals.h"
#include "trainer/data/open.h"
#include "trainer/data/records.h"

namespace paceline::cli {
namespace {

namespace data = trainer::data;

struct Options {
  std::string spec;
  std::string file;
  bool json = false;
  bool verify = false;
  bool progress = false;
};

ShowProgress show_progress(const Options& options) { return options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal; }

// What stands on the command line to get it, e.g. "mnist:DIR".
std::string usage(const data::Kind& kind) { return kind.argument.empty() ? kind.name : kind.name + ":" + kind.argument; }

int list(const Options& options) {
  const std::filesystem::path root = data_root();
  std::error_code ignored;
  std::size_t width = 0;
  for (const data::Kind& kind : data::kinds()) width = std::max(width, usage(kind).size());
  auto json = nlohmann::ordered_json::array();
  for (const data::Kind& kind : data::kinds()) {
    const bool shipped = kind.argument.empty();
    const bool available = shipped && std::filesystem::is_directory(root / kind.name, ignored);
    json.push_back({{"name", kind.name}, {"usage", usage(kind)}, {"about", kind.about}});
    json.back()["available"] =
        shipped ? nlohmann::ordered_json(available) : nlohmann::ordered_json(nullptr);  // the others are the user's
    if (!options.json)
      fmt::print("{:<{}}  {}{}\n", usage(kind), width, kind.about, shipped && !available ? " (not there yet)" : "");
  }
  if (options.json) fmt::print("{}\n", json.dump());
  return kDone;
}

// Reads, and where it takes that decodes, every sample.
Status read_all(const data::DatasetPair& pair, const Options& options) {
  const SystemClock clock;
  ProgressBar bar("reading", pair.train->size() + pair.test->size(), show_progress(options), clock);
  data::Sample sample;
  std::int64_t done = 0;
  for (const auto& half : {pair.train, pair.test}) {
    for (std::int64_t i = 0; i < half->size(); ++i) {
      PACELINE_RETURN_IF_ERROR(half->load(i, sample));
      PACELINE_RETURN_IF_ERROR(half->decode(i, sample));
      bar.update(++done);
    }
  }
  return {};
}

nlohmann::ordered_json to_json(const data::DatasetPair& pair) {
  const data::Form& form = pair.train->form();
  nlohmann::ordered_json json = {
      {"name", pair.name}, {"content", to_string(form.content)}, {"train", pair.train->size()}, {"test", pair.test->size()}};
  if (form.content == data::Content::kImages) {
    json["shape"] = form.shape;
    json["classes"] = form.classes;
    json["mean"] = form.normalisation.mean;
    json["deviation"] = form.normalisation.deviation;
    json["preparation"] = pair.preparation;
    json["class_names"] = pair.class_names;
  } else {
    json["source_vocabulary"] = form.source_vocabulary;
    json["target_vocabulary"] = form.classes;
  }
  json["note"] = pair.note;
  return json;
}

void print_text(const data::DatasetPair& pair) {
  const data::Form& form = pair.train->form();
  fmt::print("{}\n", pair.name);
  fmt::print("  training samples   {}\n  test samples       {}\n", pair.train->size(), pair.test->size());
  if (form.content == data::Content::kImages) {
    fmt::print("  shape              {}x{}x{} (channels x height x width), float32\n  classes            {}\n", form.shape[0],
               form.shape[1], form.shape[2], form.classes);
    if (!pair.preparation.empty()) fmt::print("  preparation        {}\n", pair.preparation);
    fmt::print("  values             (byte / 255 - mean) / deviation; mean {}, deviation {}\n",
               fmt::join(form.normalisation.mean, " "), fmt::join(form.normalisation.deviation, " "));
    for (std::size_t label = 0; label < pair.class_names.size(); ++label)
      fmt::print("  class {:<12} {}\n", label, pair.class_names[label]);
  } else {
    fmt::print("  source vocabulary  {}\n  target vocabulary  {}\n", form.source_vocabulary, form.classes);
  }
  if (!pair.note.empty()) fmt::print("  note               {}\n", pair.note);
}

Status check(const data::DatasetPair& pair, const Options& options) {
  PACELINE_RETURN_IF_ERROR(pair.train->verify());
  PACELINE_RETURN_IF_ERROR(pair.test->verify());
  return options.verify ? read_all(pair, options) : Status();
}

int show(const Options& options) {
  const auto pair = data::open(options.spec, data_root());
  if (!pair.ok()) return report_error(pair.status());
  if (const Status status = check(*pair, options); !status.ok()) return report_error(status);
  if (options.json) {
    fmt::print("{}\n", to_json(*pair).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_text(*pair);
  }
  return kDone;
}

Status pack_with_bar(const data::DatasetPair& pair, const Options& options) {
  const SystemClock clock;
  ProgressBar bar("packing", pair.train->size() + pair.test->size(), show_progress(options), clock);
  // What is not finished is removed.
  std::atomic<bool> interrupted = false;
  const runtime::Signals signals({SIGINT, SIGTERM, SIGHUP}, [&](int) { interrupted = true; });
  return data::pack(pair, options.file, [&](std::int64_t done) {
    bar.update(done);
    return interrupted ? error(ErrorKind::kCancelled, "interrupted by the user; {} was not written", options.file) : Status();
  });
}

int pack(const Options& options) {
  if (const Status status = check_output("file", options.file); !status.ok()) return report_error(status);
  if (const Status status = check_no_data(options.spec, {{"file", options.file}}); !status.ok()) return report_error(status);
  const auto pair = data::open(options.spec, data_root());
  if (!pair.ok()) return report_error(pair.status());
  if (const Status status = pack_with_bar(*pair, options); !status.ok()) return report_error(status);
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(options.file));
  if (options.json) {
    nlohmann::ordered_json json = to_json(*pair);
    json["file"] = options.file;
    json["bytes"] = bytes;
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}: {} training and {} test samples, {}; use it as records:{}\n", options.file, pair->train->size(),
               pair->test->size(), to_text(Bytes{bytes}), options.file);
  }
  return kDone;
}

constexpr const char* kSpecHelp = "the data set, as listed by 'paceline datasets'; required";
constexpr const char* kJsonHelp = "one JSON document; default: text";
constexpr const char* kProgressHelp = "show a progress bar also where standard error is no terminal; default: only on a terminal";

}  // namespace

void add_datasets(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* datasets = app.add_subcommand("datasets", "List the data sets, look into one, or pack one into a record file");
  datasets->add_flag("--json", options->json, kJsonHelp);
  set_examples(*datasets,
               "  paceline datasets\n"
               "  paceline datasets show mnist-5k --json");
  datasets->callback([options, datasets, &chosen] {
    if (datasets->get_subcommands().empty()) chosen.run = [options] { return list(*options); };
  });

  CLI::App* show_command = datasets->add_subcommand("show", "Open a data set and say what is in it");
  show_command->add_option("spec", options->spec, kSpecHelp)->required();
  show_command->add_flag("--json", options->json, kJsonHelp);
  show_command->add_flag("--verify", options->verify, "read and decode every sample; default: only checks that take no decoding");
  show_command->add_flag("--progress", options->progress, kProgressHelp);
  set_examples(*show_command,
               "  paceline datasets show mnist-5k\n"
               "  paceline datasets show synthetic:3x32x32,classes=100,samples=5000 --json");
  show_command->callback([options, &chosen] { chosen.run = [options] { return show(*options); }; });

  CLI::App* pack_command = datasets->add_subcommand("pack", "Write a data set into one record file, to be used as records:FILE");
  pack_command->add_option("spec", options->spec, kSpecHelp)->required();
  pack_command->add_option("file", options->file, "the record file to write; replaced when it is there; required")->required();
  pack_command->add_flag("--json", options->json, kJsonHelp);
  pack_command->add_flag("--progress", options->progress, kProgressHelp);
  set_examples(*pack_command,
               "  paceline datasets pack mnist-5k mnist-5k.records\n"
               "  paceline datasets pack synthetic:3x32x32 synthetic.records --progress");
  pack_command->callback([options, &chosen] { chosen.run = [options] { return pack(*options); }; });
}

}  // namespace paceline::cli
