#include "paceline/train/security_options.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/job_key_file.h"
#include "paceline/environment.h"
#include "paceline/option_files.h"

namespace paceline::cli {

void add_security_options(CLI::App& command, SecurityOptions& options) {
  command
      .add_option(
          "--job-key-file", options.key_file,
          "The job's key, the same file for all its processes ('paceline key new FILE' makes one): whoever holds it is a member, "
          "and everything is encrypted with TLS 1.3. Default: PACELINE_JOB_KEY_FILE")
      ->check(not_empty)
      ->option_text("FILE");
  command
      .add_option(
          "--security", options.security,
          "auto: encrypted with a key, and without one in the clear, on the loopback only; psk: encrypted, a key is needed (a job "
          "whose processes are all started here makes its own); none: in the clear, for closed networks")
      ->capture_default_str();
}

Result<std::optional<JobKey>> choose_key(const SecurityOptions& options, std::span<const transport::Address> places,
                                         MissingKey missing) {
  PACELINE_ASSIGN_OR_RETURN(const transport::Security wanted, transport::parse_security(options.security));
  std::string source = options.key_file;
  if (source.empty() && wanted != transport::Security::kNone) source = environment("PACELINE_JOB_KEY_FILE").value_or("");
  auto chosen = transport::choose_security(options.security, source, places);
  if (!chosen.ok() && source.empty() && missing == MissingKey::kMakeOwn) return std::optional(JobKey::draw());
  return chosen;
}

Result<HandedKey> HandedKey::make(const std::optional<JobKey>& key) {
  HandedKey handed;
  if (key) {
    PACELINE_ASSIGN_OR_RETURN(handed.descriptor_, open_for_children(*key));
  }
  return handed;
}

HandedKey::~HandedKey() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string HandedKey::source() const { return descriptor_ < 0 ? "" : fmt::format("fd:{}", descriptor_); }

std::vector<std::string> HandedKey::options() const {
  if (descriptor_ < 0) return {"--security", "none"};
  return {"--security", "psk", "--job-key-file", source()};
}

std::vector<int> HandedKey::kept() const { return descriptor_ < 0 ? std::vector<int>() : std::vector{descriptor_}; }

void HandedKey::inherit_on_exec() const {
  if (descriptor_ >= 0) ::fcntl(descriptor_, F_SETFD, 0);
}

}  // namespace paceline::cli
