#include "paceline/ssh.h"

#include <sstream>

#include "paceline/help_text.h"
#include "paceline/option_files.h"
#include "process/child.h"

namespace paceline::cli {
namespace {

constexpr Duration kResolving = std::chrono::seconds(10);

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream stream(command);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// For the shell that ssh gives it to.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

}  // namespace

void add_named_hosts(CLI::App& command, NamedHosts& hosts, const std::string& purpose) {
  command.add_option("--hosts", hosts.names, purpose)->delimiter(',')->allow_extra_args(false)->option_text("NAME,...");
  command.add_option("--ssh", hosts.ssh, "How a machine of --hosts is reached")
      ->capture_default_str()
      ->check(not_empty)
      ->type_name("COMMAND")
      ->group(kForExperts);
  command.add_option("--remote", hosts.remote, "This program on machines of --hosts, if it lies elsewhere there")
      ->check(not_empty)
      ->option_text("FILE")
      ->group(kForExperts);
}

Status check_named_hosts(const NamedHosts& hosts) {
  if (hosts.names.empty()) {
    const char* without = hosts.ssh != kUsualSsh ? "--ssh" : !hosts.remote.empty() ? "--remote" : nullptr;
    return without == nullptr ? Status()
                              : error(ErrorKind::kBadRequest, "{} is for --hosts; give it, or leave {} out", without, without);
  }
  for (const std::string& host : hosts.names) {
    if (host.find_first_of(" \t;") != std::string::npos)
      return error(ErrorKind::kBadRequest, "--hosts: '{}' is no host's name; between names stand commas and no blanks: node1,node2",
                   host);
    if (host.empty() || host.starts_with('-')) return error(ErrorKind::kBadRequest, "--hosts: '{}' is no host's name", host);
  }
  return {};
}

std::vector<std::string> ssh_command(const std::string& ssh, const std::string& host, const std::vector<std::string>& words) {
  std::vector<std::string> command = words_of(ssh);
  std::string line = "exec";
  for (const std::string& word : words) line += " " + quoted(word);
  command.insert(command.end(), {host, line});
  return command;
}

std::string network_name(const std::string& ssh, const std::string& host) {
  std::vector<std::string> command = words_of(ssh);
  command.insert(command.end(), {"-G", host});
  std::string name = host.substr(host.rfind('@') + 1);
  if (const auto child = Child::start("ssh -G", command); child.ok()) {
    const auto printed = (*child)->finish(kResolving);
    std::istringstream lines(printed.ok() ? *printed : "");
    for (std::string key, value; lines >> key && std::getline(lines >> std::ws, value);) {
      if (key == "hostname") name = value;
    }
  }
  return name;
}

}  // namespace paceline::cli
