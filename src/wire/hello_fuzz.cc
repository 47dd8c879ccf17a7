// Any bytes as a hello and as its answer: refused, of other versions, or read such that writing gives the same bytes again.
#include <algorithm>
#include <cstdlib>

#include "wire/hello.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::wire;
  const auto body = std::as_bytes(std::span(data, size));
  const auto ours = [](const auto& said) { return said.lowest <= kHighestSession && said.highest >= kLowestSession; };
  if (const auto hello = decode_hello(body); hello.ok() && ours(*hello)) {
    const auto bytes = encode(*hello);
    if (!std::equal(bytes.begin(), bytes.end(), body.begin())) std::abort();
  }
  if (const auto reply = decode_hello_reply(body); reply.ok() && ours(*reply)) {
    const auto bytes = encode(*reply);
    if (!std::equal(bytes.begin(), bytes.end(), body.begin())) std::abort();
  }
  if (printable_reason(body).size() > kMaxReason) std::abort();
  return 0;
}
