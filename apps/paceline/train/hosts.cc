#include "paceline/train/hosts.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "paceline/environment.h"
#include "paceline/help_text.h"
#include "paceline/machine.h"
#include "paceline/option_files.h"
#include "paceline/ssh.h"
#include "paceline/train/trainer_program.h"
#include "transport/security.h"

namespace paceline::cli {
namespace {

using report::Json;

// All of it, unless ssh has ended: then its exit code says why.
Status write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EPIPE) return {};
    if (count < 0) return error(ErrorKind::kIo, "cannot tell ssh what to start: {}", std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::vector<std::string>> passed(const std::vector<std::string>& names) {
  std::vector<std::string> variables;
  for (const std::string& name : names) {
    if (name.ends_with('*')) {
      PACELINE_ASSIGN_OR_RETURN(const auto all, passed(variables_of_others(name.substr(0, name.size() - 1))));
      variables.insert(variables.end(), all.begin(), all.end());
      continue;
    }
    const auto value = variable_of_others(name);
    if (!value) return error(ErrorKind::kBadRequest, "--pass {}: this process has no variable of that name", name);
    variables.push_back(name + "=" + *value);
  }
  return variables;
}

}  // namespace

void add_host_options(CLI::App& command, HostOptions& options) {
  add_named_hosts(
      command, options,
      "Machines by the names that ssh knows, this one too if it is to compute: workers and servers start there in turn, "
      "a name that stands twice has two. They find the program, this folder and the data where this machine has them");
  command
      .add_option(
          "--pass", options.pass,
          "Variables of this process that those on machines of --hosts get too, such as PYTHONPATH; HF_* means all that begin "
          "so, and * all but those that say who has logged in where")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("NAME,...")
      ->group(kForExperts);
}

Result<std::string> meeting_address(const HostOptions& options) {
  std::string address = "127.0.0.1";
  for (const std::string& host : options.names) {
    const auto toward = address_toward(network_name(options.ssh, host));
    if (!toward.ok())
      return error(ErrorKind::kBadRequest,
                   "--hosts {}: {}; give a name, without a port. Where only ssh knows it, --bind says how it reaches this machine",
                   host, toward.status().message())
          .because(cause_of(toward.status()));
    if (transport::is_loopback(address)) address = *toward;
  }
  return address;
}

const std::string& host_of(const HostOptions& options, std::size_t number) { return options.names[number % options.names.size()]; }

Result<std::unique_ptr<Child>> start_on_host(const HostOptions& options, std::size_t number, JobProcess process,
                                             const std::optional<JobKey>& key) {
  const std::string& host = host_of(options, number);
  process.label += " on " + host;
  PACELINE_ASSIGN_OR_RETURN(process.environment, passed(options.pass));
  const auto command = ssh_command(options.ssh, host, {options.remote.empty() ? own_path() : options.remote, "hosted"});
  PACELINE_ASSIGN_OR_RETURN(auto child, Child::start(process.label, command, {}, {}, Child::Input::kPipe));
  const auto secret = key ? key->source() : std::span<const std::byte>();
  const Json told{{"process", to_json(process)},
                  {"folder", std::filesystem::current_path().string()},
                  {"key_bytes", secret.size()},
                  {"clear_data", key && key->leaves_data_clear()}};
  // The key itself goes from where it is kept into the pipe, and nowhere else.
  PACELINE_RETURN_IF_ERROR(write_all(child->input(), told.dump() + "\n"));
  PACELINE_RETURN_IF_ERROR(write_all(child->input(), {reinterpret_cast<const char*>(secret.data()), secret.size()}));
  return child;
}

}  // namespace paceline::cli
