#include "lab/lab.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "lab/rights.h"

namespace paceline::lab {

Result<std::unique_ptr<Lab>> Lab::create(const LabOptions& options) {
  PACELINE_RETURN_IF_ERROR(check(options.shape));
  if (!options.cores.empty() && options.cores.size() != options.shape.rates.size())
    return error(ErrorKind::kBadRequest, "{} hosts, but processors for {}", options.shape.rates.size(), options.cores.size());
  for (const double cores : options.cores) {
    if (cores != 0 && !(cores >= 0.01 && cores <= 1024))
      return error(ErrorKind::kBadRequest, "a host with {} of a processor; legal: 0.01 to 1024, or 0 for no limit", cores);
  }
  PACELINE_RETURN_IF_ERROR(acquire_rights());
  std::unique_ptr<Lab> lab(new Lab(options));
  PACELINE_RETURN_IF_ERROR(lab->build());
  return lab;
}

Status Lab::build() {
  const Rights rights = look_up_rights();
  stale_limits_removed_ = remove_stale_limits();
  PACELINE_ASSIGN_OR_RETURN(switch_, make_network());
  std::vector<std::string> paths;
  for (std::size_t host = 0; host < options_.shape.rates.size(); ++host) {
    PACELINE_ASSIGN_OR_RETURN(Descriptor network, make_network());
    paths.push_back(path_of(network));
    networks_.push_back(std::move(network));
  }
  PACELINE_RETURN_IF_ERROR(run_within(switch_, {rights.ip, "-batch", "-"}, switch_links(paths)));
  PACELINE_RETURN_IF_ERROR(run_within(switch_, {rights.tc, "-batch", "-"}, switch_shaping(options_.shape)));
  for (int host = 0; host < hosts(); ++host) {
    const Descriptor& network = networks_[static_cast<std::size_t>(host)];
    PACELINE_RETURN_IF_ERROR(run_within(network, {rights.ip, "-batch", "-"}, host_links(options_.shape, host)));
    PACELINE_RETURN_IF_ERROR(run_within(network, {rights.tc, "-batch", "-"}, host_shaping(options_.shape, host)));
    auto& limit = limits_.emplace_back();
    const double cores = options_.cores.empty() ? 0 : options_.cores[static_cast<std::size_t>(host)];
    if (cores > 0) {
      PACELINE_ASSIGN_OR_RETURN(limit, ProcessorLimit::create(cores));
    }
  }
  return within(switch_, [this]() -> Status {
    counters_ = Descriptor(open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC));
    return counters_.get() < 0 ? system_error("cannot read the interfaces' counters") : Status();
  });
}

std::string Lab::address(int host) const { return lab::address(host); }

Result<std::unique_ptr<HostProcess>> Lab::start(HostCommand command) const {
  const auto host = static_cast<std::size_t>(command.host);
  PACELINE_CHECK(host < networks_.size(), "host {} of {}", command.host, networks_.size());
  return HostProcess::start(networks_[host], limits_[host].get(), std::move(command));
}

Status Lab::enter(int host) const { return enter_network(networks_[static_cast<std::size_t>(host)]); }

Status Lab::on(int host, const std::function<Status()>& action) const {
  return within(networks_[static_cast<std::size_t>(host)], action);
}

Result<std::string> Lab::read_counters() const {
  std::string text;
  // The kernel gives a page of whole lines at most, and goes on where the reader before has stopped: one reader at a time.
  const std::lock_guard lock(reading_);
  for (std::array<char, 16'384> piece;;) {
    const ssize_t count = pread(counters_.get(), piece.data(), piece.size(), static_cast<off_t>(text.size()));
    if (count < 0) return system_error("cannot read the interfaces' counters");
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

Result<std::vector<Traffic>> Lab::traffic() const {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_counters());
  std::vector<std::optional<Traffic>> found(networks_.size());
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    std::size_t host = 0;
    long long received = 0, sent = 0;
    // What the switch's port receives is what the host has sent.
    if (std::sscanf(text.c_str() + at, " port%zu: %lld %*d %*d %*d %*d %*d %*d %*d %lld", &host, &received, &sent) == 3 &&
        host < found.size()) {
      found[host] = {.sent = {received}, .received = {sent}};
    }
  }
  std::vector<Traffic> traffic;
  for (const auto& one : found) {
    if (!one)
      return error(ErrorKind::kIo, "host {}: its port at the lab's switch has no counters in /proc/net/dev; make the lab anew",
                   traffic.size());
    traffic.push_back(*one);
  }
  return traffic;
}

Result<std::unique_ptr<Stream>> Lab::stream(int from, int to, std::optional<BytesPerSecond> pace) const {
  return Stream::start(networks_[static_cast<std::size_t>(from)], networks_[static_cast<std::size_t>(to)], address(to), pace);
}

Result<BytesPerSecond> Lab::goodput(int from, int to, Duration period) const {
  PACELINE_ASSIGN_OR_RETURN(const auto plain, stream(from, to));
  // Until the buckets of both ends have been emptied thrice, and over at least as many blocks as make one of them small.
  const BytesPerSecond slower = std::min(rate(from), rate(to));
  const Duration bucket = from_seconds(static_cast<double>(burst_of(options_.shape, slower).count) / slower.value);
  return plain->measure(std::max<Duration>(std::chrono::milliseconds(200), 6 * bucket), std::max<Duration>(period, 10 * bucket));
}

}  // namespace paceline::lab
