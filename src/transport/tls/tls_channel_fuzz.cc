// Bytes of any kind below a channel: before the handshake, in its middle, and behind it. None of them may come out as if the peer
// had sent it. The first byte chooses; the rest comes in pieces as long as its own bytes say.
#include <cstdint>
#include <cstdlib>

#include "transport/tls/tls_channel_testing.h"

namespace {

using namespace paceline;
using namespace paceline::transport;
using transport::testing::Pair;

void feed(TlsChannel& channel, transport::testing::Way& in, std::span<const std::uint8_t> input, bool established) {
  transport::testing::Bytes got;
  for (std::size_t at = 0; at < input.size();) {
    const std::size_t length = std::min<std::size_t>(input.size() - at, 1 + input[at] % 64);
    for (const std::uint8_t byte : input.subspan(at, length)) in.bytes.push_back(static_cast<std::byte>(byte));
    at += length;
    if (at == input.size()) in.ended = true;
    if (!established) {
      const auto next = channel.shake_hands();
      if (next == TlsChannel::Next::kDone) std::abort();
      if (next == TlsChannel::Next::kFailed) return;
    } else if (transport::testing::read_into(channel, got, 256).outcome == Stream::Moved::Outcome::kEnd) {
      break;
    }
  }
  if (!got.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const JobKey key = JobKey::from(std::vector<std::byte>(JobKey::kBytes, std::byte{7})).value();
  Pair pair(key, TlsOptions{});
  const bool connects = (data[0] & 1) != 0;
  const int rounds = data[0] >> 1 & 3;  // of the honest handshake before
  for (int round = 0; round < rounds; ++round) {
    pair.connected = Pair::over(pair.connected) ? pair.connected : pair.connecting.shake_hands();
    pair.accepted = Pair::over(pair.accepted) ? pair.accepted : pair.accepting.shake_hands();
  }
  TlsChannel& channel = connects ? pair.connecting : pair.accepting;
  const auto stage = connects ? pair.connected : pair.accepted;
  if (stage == TlsChannel::Next::kFailed) std::abort();
  (connects ? pair.back : pair.there).bytes.clear();
  feed(channel, connects ? pair.back : pair.there, std::span(data + 1, size - 1), stage == TlsChannel::Next::kDone);
  return 0;
}
