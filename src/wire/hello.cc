#include "wire/hello.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "wire/codec.h"

namespace paceline::wire {
namespace {

template <std::size_t kSize>
class ArrayWriter {
 public:
  template <Scalar T>
  ArrayWriter& put(T value) {
    PACELINE_CHECK(at_ + sizeof value <= kSize, "{} bytes are too few", kSize);
    std::memcpy(bytes_.data() + at_, &value, sizeof value);
    at_ += sizeof value;
    return *this;
  }
  template <std::size_t kBytes>
  ArrayWriter& put(const std::array<std::byte, kBytes>& bytes) {
    for (const std::byte byte : bytes) put(std::to_integer<std::uint8_t>(byte));
    return *this;
  }
  std::array<std::byte, kSize> take() const {
    PACELINE_CHECK(at_ == kSize, "wrote {} of {} bytes", at_, kSize);
    return bytes_;
  }

 private:
  std::array<std::byte, kSize> bytes_{};
  std::size_t at_ = 0;
};

template <std::size_t kBytes>
void get(Reader& from, std::array<std::byte, kBytes>& bytes) {
  for (std::byte& byte : bytes) byte = std::byte{from.get<std::uint8_t>()};
}

bool speaks_ours(std::uint16_t lowest, std::uint16_t highest) { return lowest <= kHighestSession && highest >= kLowestSession; }

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace

std::array<std::byte, kHelloBytes> encode(const Hello& hello) {
  ArrayWriter<kHelloBytes> to;
  to.put(hello.session).put(hello.job).put(hello.received).put(hello.epoch).put(hello.attempt).put(hello.lowest).put(hello.highest);
  to.put(hello.from.roles.byte())
      .put(hello.to.roles.byte())
      .put(hello.resume)
      .put(std::uint8_t{0})
      .put(hello.from.rank.value)
      .put(hello.to.rank.value);
  to.put(hello.from.incarnation).put(hello.to.incarnation).put(hello.nonce).put(hello.key).put(hello.proof);
  to.put(hello.door);
  return to.take();
}

std::array<std::byte, kHelloReplyBytes> encode(const HelloReply& reply) {
  ArrayWriter<kHelloReplyBytes> to;
  to.put(reply.session).put(reply.job).put(reply.received).put(reply.epoch).put(reply.lowest).put(reply.highest);
  to.put(reply.verdict).put(reply.from.roles.byte()).put(std::uint16_t{0}).put(reply.from.rank.value);
  to.put(reply.from.incarnation).put(std::uint32_t{0}).put(reply.nonce).put(reply.proof);
  return to.take();
}

Result<Hello> decode_hello(std::span<const std::byte> body) {
  Reader reader(body);
  Hello hello;
  hello.session = reader.get<std::uint64_t>();
  hello.job = reader.get<std::uint64_t>();
  hello.received = reader.get<std::uint64_t>();
  hello.epoch = reader.get<std::uint32_t>();
  hello.attempt = reader.get<std::uint32_t>();
  hello.lowest = reader.get<std::uint16_t>();
  hello.highest = reader.get<std::uint16_t>();
  hello.from.roles = Roles(reader.get<std::uint8_t>());
  hello.to.roles = Roles(reader.get<std::uint8_t>());
  hello.resume = reader.get_enum(Hello::Resume::kYes);
  const auto zero = reader.get<std::uint8_t>();
  hello.from.rank = {reader.get<std::int32_t>()};
  hello.to.rank = {reader.get<std::int32_t>()};
  if (speaks_ours(hello.lowest, hello.highest)) {
    hello.from.incarnation = reader.get<std::uint32_t>();
    hello.to.incarnation = reader.get<std::uint32_t>();
    get(reader, hello.nonce);
    get(reader, hello.key);
    get(reader, hello.proof);
    hello.door = reader.get<std::uint16_t>();
    if (reader.ok() && (!hello.from.roles.legal() || !hello.to.roles.legal())) {
      return error(ErrorKind::kCorrupt, "unknown role in a hello ({} and {})", hello.from.roles.byte(), hello.to.roles.byte());
    }
  }
  if (!reader.ok())
    return error(ErrorKind::kCorrupt, "a hello of {} bytes cannot be read; {} are expected", body.size(), kHelloBytes);
  if (zero != 0 || hello.session == 0 || hello.attempt == 0 || hello.lowest > hello.highest || hello.from.rank.value < -1 ||
      hello.to.rank.value < -1) {
    return error(ErrorKind::kCorrupt, "a hello with impossible values (session {}, attempt {}, versions {} to {}, ranks {} and {})",
                 hello.session, hello.attempt, hello.lowest, hello.highest, hello.from.rank.value, hello.to.rank.value);
  }
  return hello;
}

Result<HelloReply> decode_hello_reply(std::span<const std::byte> body) {
  Reader reader(body);
  HelloReply reply;
  reply.session = reader.get<std::uint64_t>();
  reply.job = reader.get<std::uint64_t>();
  reply.received = reader.get<std::uint64_t>();
  reply.epoch = reader.get<std::uint32_t>();
  reply.lowest = reader.get<std::uint16_t>();
  reply.highest = reader.get<std::uint16_t>();
  reply.verdict = reader.get_enum(Verdict::kProve);
  reply.from.roles = Roles(reader.get<std::uint8_t>());
  const auto zero = reader.get<std::uint16_t>();
  reply.from.rank = {reader.get<std::int32_t>()};
  std::uint32_t zeros = 0;
  if (speaks_ours(reply.lowest, reply.highest)) {
    reply.from.incarnation = reader.get<std::uint32_t>();
    zeros = reader.get<std::uint32_t>();
    get(reader, reply.nonce);
    get(reader, reply.proof);
    if (reader.ok() && !reply.from.roles.legal())
      return error(ErrorKind::kCorrupt, "unknown role {} in the answer to a hello", reply.from.roles.byte());
  }
  if (!reader.ok())
    return error(ErrorKind::kCorrupt, "the answer to a hello, of {} bytes, cannot be read; {} are expected", body.size(),
                 kHelloReplyBytes);
  if (zero != 0 || zeros != 0 || reply.lowest > reply.highest || reply.from.rank.value < -1) {
    return error(ErrorKind::kCorrupt, "the answer to a hello has impossible values (versions {} to {}, rank {})", reply.lowest,
                 reply.highest, reply.from.rank.value);
  }
  return reply;
}

Proof proof_for(const Hello& hello, const Secret& secret, const Nonce& challenge) {
  Hello bare = hello;
  bare.proof = {};
  return prove(secret, {bytes_of("paceline hello 2"), challenge, encode(bare)});
}

Proof proof_for(const HelloReply& reply, const Secret& secret, const Hello& hello, const Nonce& challenge) {
  HelloReply bare = reply;
  bare.proof = {};
  return prove(secret, {bytes_of("paceline reply 2"), challenge, hello.nonce, encode(bare)});
}

std::string printable_reason(std::span<const std::byte> text) {
  std::string reason(reinterpret_cast<const char*>(text.data()), std::min(text.size(), kMaxReason));
  for (char& letter : reason) {
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = '?';
  }
  return reason;
}

}  // namespace paceline::wire
