#include "bench/transport/iperf3.h"

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace paceline::bench {
namespace {

constexpr const char* kProgram = "/usr/bin/iperf3";

using Pipe = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

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

// What the program prints, up to `until` or its end.
std::string output(std::FILE* from, const std::string& until) {
  std::string text;
  std::array<char, 4096> line;
  while (std::fgets(line.data(), static_cast<int>(line.size()), from) != nullptr) {
    text += line.data();
    if (!until.empty() && text.find(until) != std::string::npos) break;
  }
  return text;
}

}  // namespace

bool iperf3_installed() { return ::access(kProgram, X_OK) == 0; }

Result<double> stream_iperf3(int seconds) {
  PACELINE_ASSIGN_OR_RETURN(const int port, free_port());
  const std::string server_command =
      fmt::format("timeout {} {} -s -1 --forceflush -B 127.0.0.1 -p {} 2>&1", seconds + 20, kProgram, port);
  const Pipe server(::popen(server_command.c_str(), "re"), &::pclose);
  if (!server) return error(ErrorKind::kIo, "iperf3 cannot be started");
  output(server.get(), "listening");
  const std::string client_command =
      fmt::format("timeout {} {} -c 127.0.0.1 -p {} -t {} -J 2>&1", seconds + 10, kProgram, port, seconds);
  const Pipe client(::popen(client_command.c_str(), "re"), &::pclose);
  if (!client) return error(ErrorKind::kIo, "iperf3 cannot be started");
  const std::string said = output(client.get(), "");
  const auto report = nlohmann::json::parse(said, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer rate("/end/sum_received/bits_per_second");
  if (!report.is_object() || !report.contains(rate) || !report[rate].is_number())
    return error(ErrorKind::kIo, "iperf3 did not measure: {}", said.substr(0, 300));
  output(server.get(), "");  // it ends after one client
  return report[rate].get<double>() / 8;
}

}  // namespace paceline::bench
