#include "transport/security.h"

#include <algorithm>
#include <array>

#include <arpa/inet.h>

#include "base/job_key_file.h"
#include "base/text.h"

namespace paceline::transport {
namespace {

constexpr std::array<const char*, 4> kNames = {"auto", "psk", "tls", "none"};
constexpr const char* kMend =
    "make a key with 'paceline key new FILE', copy the file to every machine of the job and give --job-key-file FILE everywhere "
    "(in a program: job_key_file)";

}  // namespace

const char* to_string(Security security) { return kNames[static_cast<std::size_t>(security)]; }

Result<Security> parse_security(std::string_view text) {
  const auto found = std::ranges::find(kNames, text);
  if (found != kNames.end()) return static_cast<Security>(found - kNames.begin());
  const std::vector<std::string> names(kNames.begin(), kNames.end());
  return error(ErrorKind::kBadRequest, "--security knows no '{}'{}; legal: auto, psk, tls, none", text,
               suggestion(std::string(text), names))
      .because({"unknown", ""});
}

Security security_of(const std::optional<JobKey>& key) {
  if (!key) return Security::kNone;
  return key->certificate() != nullptr ? Security::kTls : Security::kPsk;
}

std::string security_text(const std::optional<JobKey>& key) {
  return fmt::format("{}{}", to_string(security_of(key)), key && key->leaves_data_clear() ? ", data in the clear" : "");
}

bool is_loopback(std::string_view host) {
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr four{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, text.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool stays_on_machine(const Address& place) { return place.is_file() || is_loopback(place.host); }

Result<std::optional<JobKey>> choose_security(Security wanted, const std::optional<JobKey>& key, std::span<const Address> places) {
  if (wanted == Security::kNone) {
    if (!key) return std::optional<JobKey>();
    return error(ErrorKind::kBadRequest, "--security none contradicts --job-key-file; leave one of them out")
        .because({"contradiction", ""});
  }
  if (key && wanted == Security::kPsk && key->certificate() != nullptr) {
    return error(ErrorKind::kBadRequest,
                 "--security psk wants a key that all share, and --job-key-file gives the certificate of {}; say --security tls",
                 key->certificate()->name())
        .because({"contradiction", ""});
  }
  if (key) return key;
  if (wanted == Security::kPsk || wanted == Security::kTls)
    return error(ErrorKind::kBadRequest, "--security {} needs the job's key; {}", to_string(wanted), kMend).because({"no-key", ""});
  const auto open = std::ranges::find_if(places, [](const Address& place) { return !stays_on_machine(place); });
  if (open == places.end()) return std::optional<JobKey>();
  return error(ErrorKind::kBadRequest,
               "{} is not on the loopback, and without a key everybody who reaches it could join and read; {}, or, in a closed "
               "network, give --security none everywhere",
               open->host, kMend)
      .because({"no-key", ""});
}

Result<std::optional<JobKey>> choose_security(std::string_view wanted, const std::string& key_source,
                                              std::span<const Address> places, const std::string& usual_source) {
  const bool clear_data = wanted.ends_with(kClearData);
  if (clear_data) wanted.remove_suffix(kClearData.size());
  PACELINE_ASSIGN_OR_RETURN(const Security security, parse_security(wanted));
  const bool usual = key_source.empty() && security != Security::kNone;
  const std::string& source = usual ? usual_source : key_source;
  std::optional<JobKey> key;
  if (!source.empty()) {
    PACELINE_ASSIGN_OR_RETURN(key, read_job_key(source));
  }
  PACELINE_ASSIGN_OR_RETURN(auto chosen, choose_security(security, key, places));
  return clear_data ? leave_data_clear(chosen) : std::move(chosen);
}

Result<std::optional<JobKey>> leave_data_clear(const std::optional<JobKey>& key) {
  if (key) return std::optional(key->leaving_data_clear());
  return error(ErrorKind::kBadRequest,
               "--allow-clear-data is for jobs with a key; without one everything is in the clear. Leave it out, or {}", kMend)
      .because({"no-key", ""});
}

}  // namespace paceline::transport
