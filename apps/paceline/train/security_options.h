// --job-key-file and --security, and what follows from them for this process and those that it starts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/command.h"
#include "transport/security.h"

namespace paceline::cli {

struct SecurityOptions {
  std::string key_file;  // "": PACELINE_JOB_KEY_FILE, if that is set
  std::string security = "auto";
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
  ~HandedKey();
  HandedKey(HandedKey&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  HandedKey& operator=(HandedKey&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  std::string source() const;                // "fd:N"; "": in the clear
  std::vector<std::string> options() const;  // of a command of this program: --job-key-file fd:N, or --security none
  std::vector<int> kept() const;             // descriptors that the child has to inherit
  void inherit_on_exec() const;              // by what this process becomes

 private:
  int descriptor_ = -1;
};

}  // namespace paceline::cli
