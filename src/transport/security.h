// Whether a process encrypts. There is one answer for all its connections and no negotiation: two sides that differ refuse each
// other and say so. What leaves the machine is encrypted unless somebody says that the network is closed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/job_key.h"
#include "transport/transport.h"

namespace paceline::transport {

enum class Security {
  kAuto,  // with a key: TLS; without: in the clear, on the loopback only
  kPsk,   // TLS with the job's key
  kTls,   // TLS with the job's key or with certificates
  kNone,  // in the clear, wherever
};
const char* to_string(Security security);  // "auto", "psk", "tls", "none"
// What a process with this key does: kPsk, kTls with a certificate, kNone without either.
Security security_of(const std::optional<JobKey>& key);
Result<Security> parse_security(std::string_view text);
// Behind one of these names: leave_data_clear.
inline constexpr std::string_view kClearData = ",clear-data";
// "psk", "tls, data in the clear": for the report.
std::string security_text(const std::optional<JobKey>& key);

// Known to be without a look-up: "localhost", 127.0.0.0/8, ::1. The wildcards are not.
bool is_loopback(std::string_view host);
// Nobody on another machine can listen in: the loopback, or a file, which is its user's alone. It needs no key; one that is given
// encrypts there too, for a process encrypts everything or nothing.
bool stays_on_machine(const Address& place);

// The key to encrypt with, or nothing: in the clear. `places`: where the process listens and connects. Errors: kBadRequest that
// names the place and the commands that mend it.
Result<std::optional<JobKey>> choose_security(Security wanted, const std::optional<JobKey>& key, std::span<const Address> places);
// The same from what people write: a name, perhaps with kClearData. `key_source`: see base/job_key_file.h; "": none is given, and
// then `usual_source` counts unless kNone is wanted. Also refuses what read_job_key refuses.
Result<std::optional<JobKey>> choose_security(std::string_view wanted, const std::string& key_source,
                                              std::span<const Address> places, const std::string& usual_source = "");
// Connections of data begin as the others do, and go on in the clear. kBadRequest without a key.
Result<std::optional<JobKey>> leave_data_clear(const std::optional<JobKey>& key);

}  // namespace paceline::transport
