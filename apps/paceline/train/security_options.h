// --job-key-file and --security, and what follows from them for this process and those that it starts.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/command.h"
#include "process/handed_text.h"
#include "transport/security.h"

namespace paceline::cli {

struct SecurityOptions {
  std::string key_file;  // "": PACELINE_JOB_KEY_FILE, if that is set
  std::string security = "auto";
  bool allow_clear_data = false;
};

void add_security_options(CLI::App& command, SecurityOptions& options);

// kOwn: all processes of the job are started by this one, so that a key is made where one is needed and none is given.
enum class MissingKey { kRefuse, kMakeOwn };

// The key to encrypt with, or nothing. Reads the key's file. Errors: kBadRequest, kIo.
Result<std::optional<JobKey>> choose_key(const SecurityOptions& options, std::span<const transport::Address> places,
                                         MissingKey missing = MissingKey::kRefuse);

// How a process that is started by this one gets the key: as a descriptor that it inherits. Its command line and environment only
// hold the number of that.
class HandedKey {
 public:
  HandedKey() = default;
  static Result<HandedKey> make(const std::optional<JobKey>& key);

  std::string source() const;                // "fd:N"; "": in the clear
  std::vector<std::string> options() const;  // of a command of this program: --job-key-file fd:N, or --security none
  std::vector<int> kept() const;             // descriptors that the child has to inherit
  void keep_on_exec() const;                 // the program that this process becomes inherits it too

 private:
  std::shared_ptr<const HandedText> text_;  // null: in the clear
  bool clear_data_ = false;
};

}  // namespace paceline::cli
