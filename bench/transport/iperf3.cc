#include "bench/transport/iperf3.h"

#include <string>

#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "process/child.h"

namespace paceline::bench {
namespace {

constexpr const char* kProgram = "/usr/bin/iperf3";

constexpr Duration kPatience = std::chrono::seconds(10);  // besides what was asked for

// A port that was free a moment ago; iperf3 cannot ask the kernel for one.
Result<int> free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  const bool found = descriptor >= 0 && ::bind(descriptor, general, size) == 0 && ::getsockname(descriptor, general, &size) == 0;
  if (descriptor >= 0) ::close(descriptor);
  if (!found) return error(ErrorKind::kIo, "iperf3: no free port");
  return static_cast<int>(ntohs(address.sin_port));
}

}  // namespace

bool iperf3_installed() { return ::access(kProgram, X_OK) == 0; }

Result<double> stream_iperf3(int seconds) {
  PACELINE_ASSIGN_OR_RETURN(const int port, free_port());
  const std::string at = std::to_string(port);
  PACELINE_ASSIGN_OR_RETURN(const auto server,
                            Child::start("iperf3 -s", {kProgram, "-s", "-1", "--forceflush", "-B", "127.0.0.1", "-p", at}));
  PACELINE_RETURN_IF_ERROR(server->wait_for_line("listening", kPatience));
  PACELINE_ASSIGN_OR_RETURN(
      const auto client, Child::start("iperf3 -c", {kProgram, "-c", "127.0.0.1", "-p", at, "-t", std::to_string(seconds), "-J"}));
  PACELINE_ASSIGN_OR_RETURN(const std::string said, client->finish(std::chrono::seconds(seconds) + kPatience));
  const auto report = nlohmann::json::parse(said, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer rate("/end/sum_received/bits_per_second");
  if (!report.is_object() || !report.contains(rate) || !report[rate].is_number())
    return error(ErrorKind::kIo, "iperf3 did not measure: {}", said.substr(0, 300));
  return report[rate].get<double>() / 8;
}

}  // namespace paceline::bench
