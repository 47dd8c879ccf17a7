#include "paceline/train/security_options.h"

#include "paceline/environment.h"
#include "paceline/help_text.h"
#include "paceline/option_files.h"

namespace paceline::cli {

void add_security_options(CLI::App& command, SecurityOptions& options) {
  command
      .add_option(
          "--job-key-file", options.key_file,
          "The job's key, the same file for all its processes ('paceline key new FILE' makes one): whoever holds it is a member, "
          "and everything is encrypted with TLS 1.3. Or a certificate of the process's own with its key and authority (PEM). fd:N: "
          "a descriptor that the process inherited. Default: PACELINE_JOB_KEY_FILE")
      ->check(not_empty)
      ->option_text("FILE");
  command
      .add_option(
          "--security", options.security,
          "auto: encrypted with a key; without one in the clear, on the loopback only. psk: encrypted with a key. tls: the same, "
          "or with certificates. none: in the clear, for closed networks; not with --job-key-file. Where a key is needed and all "
          "processes of the job are started here, one is made")
      ->capture_default_str()
      ->type_name("WORD");
  command
      .add_flag(
          "--allow-clear-data", options.allow_clear_data,
          "Of a job with a key: gradients and parameters travel in the clear, which saves processor time; who may connect is still "
          "proved, and control stays encrypted. For links that nobody else can read or write. Every process of the job must say so")
      ->group(kForExperts);
}

Result<std::optional<JobKey>> choose_key(const SecurityOptions& options, std::span<const transport::Address> places,
                                         MissingKey missing) {
  PACELINE_RETURN_IF_ERROR(transport::parse_security(options.security).status());
  const std::string usual = environment("PACELINE_JOB_KEY_FILE").value_or("");
  auto chosen = transport::choose_security(options.security, options.key_file, places, usual);
  const bool given = !options.key_file.empty() || !usual.empty();
  if (!chosen.ok() && !given && missing == MissingKey::kMakeOwn) chosen = std::optional(JobKey::draw());
  return chosen.ok() && options.allow_clear_data ? transport::leave_data_clear(*chosen) : chosen;
}

Result<HandedKey> HandedKey::make(const std::optional<JobKey>& key) {
  HandedKey handed;
  if (!key) return handed;
  std::string bytes(reinterpret_cast<const char*>(key->source().data()), key->source().size());
  auto text = HandedText::make(bytes);
  wipe(std::as_writable_bytes(std::span(bytes)));
  PACELINE_RETURN_IF_ERROR(text.status());
  handed.text_ = std::make_shared<const HandedText>(std::move(*text));
  handed.clear_data_ = key->leaves_data_clear();
  return handed;
}

std::string HandedKey::source() const {
  return text_ == nullptr ? "" : fmt::format("fd:{}{}", text_->descriptor(), clear_data_ ? transport::kClearData : "");
}

std::vector<std::string> HandedKey::options() const {
  if (text_ == nullptr) return {"--security", "none"};
  return {"--security", "tls", "--job-key-file", source()};
}

std::vector<int> HandedKey::kept() const { return text_ == nullptr ? std::vector<int>() : std::vector{text_->descriptor()}; }

void HandedKey::keep_on_exec() const {
  if (text_ != nullptr) text_->keep_on_exec();
}

}  // namespace paceline::cli
