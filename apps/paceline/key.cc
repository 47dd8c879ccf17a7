// `paceline key new`: makes the key of a job.
#include "base/job_key_file.h"
#include "paceline/command.h"
#include "paceline/option_files.h"

namespace paceline::cli {
namespace {

int make_key(const std::string& file) {
  const JobKey key = JobKey::draw();
  if (const Status status = write_job_key(file, key); !status.ok()) return report_error(status);
  fmt::print("{}: a new job key, named {}; give it to every process of one job with --job-key-file, and to nobody else\n", file,
             key.name());
  return kDone;
}

}  // namespace

void add_key(CLI::App& app, Chosen& chosen) {
  CLI::App* key = app.add_subcommand("key", "The key of a job: whoever holds it is a member of it");
  key->require_subcommand(1);
  const auto file = std::make_shared<std::string>();
  CLI::App* make = key->add_subcommand("new", "Make a key: a new file of 32 random bytes that only you may read");
  make->add_option("file", *file, "The file, which must not be there yet")->required()->check(not_empty)->option_text("FILE");
  set_examples(*make,
               "  paceline key new job.key\n"
               "  paceline coordinator --bind 10.0.0.1 --port 4100 --job-key-file job.key");
  set_examples(*key, "  paceline key new job.key");
  make->callback([file, &chosen] { chosen.run = [file] { return make_key(*file); }; });
}

}  // namespace paceline::cli
