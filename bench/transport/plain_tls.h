// The yardstick of encryption: OpenSSL over blocking sockets, one thread an end, nothing else.
#pragma once

#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "bench/transport/loops.h"

namespace paceline::bench {

// TLS 1.3's, as OpenSSL calls them: "TLS_AES_128_GCM_SHA256".
std::vector<std::string> tls_ciphers();

// Sends `chunks` in turn until `count` have been sent, over the loopback, and returns the time until the receiver has answered.
// kCorrupt when the last chunk is not what was sent.
Result<Duration> stream_plain_tls(const Chunks& chunks, std::size_t count, const std::string& cipher);

}  // namespace paceline::bench
