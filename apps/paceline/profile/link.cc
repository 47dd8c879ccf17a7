#include "paceline/profile/link.h"

#include <functional>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/text.h"
#include "doctor/echo.h"
#include "paceline/progress.h"

namespace paceline::cli {
namespace {

constexpr std::size_t kRounds = 9;  // and one before them that warms up
constexpr Duration kDeadline = std::chrono::minutes(1);

// As `paceline train` counts a link that it could not measure.
constexpr cost::LinkFit kAssumed{.start_up = 200e-6, .bandwidth = {125e6}, .residual = 0};

using Ask = std::function<Result<EchoAnswer>(const EchoOptions&)>;

bool is_given(const ProfileOptions& options) { return !options.bandwidth.empty() || !options.start_up.empty(); }

Status wrong_option(const char* option, const std::string& text, const Status& reason) {
  return error(ErrorKind::kBadRequest, "--{} {}: {}", option, text, reason.message());
}

Result<MeasuredLink> given_link(const ProfileOptions& options) {
  MeasuredLink link{.server = "given", .fit = {}, .transfers = {}, .warning = {}};
  const auto rate = parse_rate(options.bandwidth);
  if (!rate.ok()) return wrong_option("bandwidth", options.bandwidth, rate.status());
  if (!(rate->value > 0)) return error(ErrorKind::kBadRequest, "--bandwidth {} is not above zero", options.bandwidth);
  const auto start_up = parse_duration(options.start_up);
  if (!start_up.ok()) return wrong_option("start-up", options.start_up, start_up.status());
  link.fit = {.start_up = seconds(*start_up), .bandwidth = *rate, .residual = 0};
  return link;
}

std::vector<Bytes> all_pulls(const std::vector<Bytes>& sizes) {
  std::vector<Bytes> pulls;
  for (std::size_t round = 0; round <= kRounds; ++round) pulls.insert(pulls.end(), sizes.begin(), sizes.end());
  return pulls;
}

}  // namespace

Result<MeasuredLink> measure_link(const ProfileOptions& options) {
  std::string server = "loopback";
  Ask ask_server = ask_loopback;
  if (!options.server.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const transport::Address address, doctor_address(options.server, "--server"));
    server = address.text();
    ask_server = [address](const EchoOptions& echo) { return ask(address, echo); };
  }
  PACELINE_ASSIGN_OR_RETURN(const EchoAnswer rough, ask_server({.exchanges = 20, .streaming = std::chrono::milliseconds(200)}));
  const std::vector<Bytes> sizes = pull_sizes({rough.bytes_per_second}, kLargestPull);
  const std::vector<Bytes> pulls = all_pulls(sizes);
  const SystemClock clock;
  ProgressBar bar(fmt::format("link to {}", server), static_cast<std::int64_t>(pulls.size()),
                  options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock);
  PACELINE_ASSIGN_OR_RETURN(const EchoAnswer answer,
                            ask_server({.exchanges = 20,
                                        .streaming = std::chrono::milliseconds(50),
                                        .pulls = pulls,
                                        .deadline = kDeadline,
                                        .on_pull = [&](std::size_t done) { bar.update(static_cast<std::int64_t>(done)); }}));
  return fit_pulls(server, answer.pulls, sizes.size());
}

Result<MeasuredLink> link_of(const ProfileOptions& options) {
  if (is_given(options)) return given_link(options);
  auto measured = measure_link(options);
  if (measured.ok() || measured.status().kind() != ErrorKind::kIo) return measured;
  return MeasuredLink{.server = options.server.empty() ? "loopback" : options.server,
                      .fit = kAssumed,
                      .transfers = {},
                      .warning = fmt::format("{}; taken for one of {} with a start-up of {}", measured.status().message(),
                                             to_text(kAssumed.bandwidth), to_text(from_seconds(kAssumed.start_up)))};
}

Status check_link_options(const ProfileOptions& options) {
  if (!options.server.empty()) PACELINE_RETURN_IF_ERROR(doctor_address(options.server, "--server").status());
  if (!is_given(options)) return {};
  if (options.bandwidth.empty() || options.start_up.empty())
    return error(ErrorKind::kBadRequest, "--{} is missing; --bandwidth and --start-up together give a link that is not measured",
                 options.bandwidth.empty() ? "bandwidth" : "start-up")
        .because({"missing", ""});
  if (!options.server.empty())
    return error(ErrorKind::kBadRequest, "--server {} contradicts --bandwidth, which gives the link; give one of them",
                 options.server);
  return given_link(options).status();
}

}  // namespace paceline::cli
