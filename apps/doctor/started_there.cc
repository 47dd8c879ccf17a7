#include "doctor/started_there.h"

#include "doctor/echo.h"
#include "paceline/machine.h"

namespace paceline::cli {
namespace {

constexpr Duration kStarting = std::chrono::seconds(30);

}  // namespace

Result<StartedThere> start_there(const std::string& host, const std::string& ssh, const std::string& remote) {
  const std::size_t at = host.find('@');  // doctor_address knows no users
  PACELINE_ASSIGN_OR_RETURN(auto address, doctor_address(at == std::string::npos ? host : host.substr(at + 1), "doctor"));
  const std::string name = host.substr(0, at == std::string::npos ? 0 : at + 1) + address.host;
  if (name.starts_with('-')) return error(ErrorKind::kBadRequest, "doctor: '{}' is no host", host);
  // By number: a name may mean another address there than here, its own loopback for instance.
  PACELINE_ASSIGN_OR_RETURN(address.host, numeric_address(network_name(ssh, name)));
  StartedThere there{.address = address, .ssh = nullptr, .ready = {}};
  const auto command = ssh_command(
      ssh, name, {remote, "doctor", "--serve", std::to_string(address.port), "--bind", address.host, "--json", "--attended"});
  auto child = Child::start("the doctor on " + host, command, {}, {}, Child::Input::kPipe);
  there.ready = child.ok() ? (*child)->wait_for_line("listening", kStarting) : child.status();
  if (child.ok()) there.ssh = std::move(*child);
  return there;
}

}  // namespace paceline::cli
