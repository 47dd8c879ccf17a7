#include "wire/messages.h"

#include <array>
#include <type_traits>

namespace paceline::wire {
namespace {

template <typename Is, typename Field, typename Raw>
void put(const Is& is, Field field, Raw& to) {
  if constexpr (!std::is_null_pointer_v<Field>) to = is.*field;
}

// False: the head has something where the message has no field.
template <typename Is, typename Field, typename Raw>
bool take(Is& is, Field field, Raw from) {
  if constexpr (std::is_null_pointer_v<Field>) {
    return from == 0;
  } else {
    is.*field = from;
    return true;
  }
}

constexpr bool belongs(Payload payload, std::uint64_t bytes) {
  return payload == Payload::kMay || (payload == Payload::kMust) == (bytes > 0);
}

template <typename Is>
std::optional<Message> read(const MessageHead& head) {
  Is is;
  bool legal = belongs(Is::kPayload, head.payload_bytes);
  legal = take(is, std::get<0>(Is::kFields), head.unit) && legal;
  legal = take(is, std::get<1>(Is::kFields), head.detail) && legal;
  legal = take(is, std::get<2>(Is::kFields), head.iteration) && legal;
  if constexpr (requires { is.valid(); }) legal = legal && is.valid();
  return legal ? std::optional<Message>(is) : std::nullopt;
}

using Read = std::optional<Message> (*)(const MessageHead&);

// By the byte of the kind.
template <typename... Is>
constexpr std::array<Read, 256> readers_of(std::type_identity<std::variant<Is...>>) {
  std::array<Read, 256> readers{};
  ((readers[static_cast<std::size_t>(Is::kKind)] = read<Is>), ...);
  return readers;
}
constexpr std::array<Read, 256> kReaders = readers_of(std::type_identity<Message>());

}  // namespace

MessageHead head_of(const Message& message, Layer layer, std::uint64_t payload_bytes) {
  return std::visit(
      [&](const auto& is) {
        MessageHead head{.kind = is.kKind, .layer = layer, .payload_bytes = payload_bytes};
        put(is, std::get<0>(is.kFields), head.unit);
        put(is, std::get<1>(is.kFields), head.detail);
        put(is, std::get<2>(is.kFields), head.iteration);
        return head;
      },
      message);
}

std::optional<Message> message_of(const MessageHead& head) {
  const Read read = kReaders[static_cast<std::size_t>(head.kind)];
  return read == nullptr || head.flags != 0 ? std::nullopt : read(head);
}

Status not_taken(const MessageHead& head, Rank from, const Seat& to) {
  const ChannelEnds ends = ends_of(channel_of(head.kind));
  const Seat sender{ends.to == to.role ? ends.from : ends.to, from};
  return error(ErrorKind::kBadRequest, "{} sent {} a message it does not take: kind {}, flags {}, {} bytes", sender.text(),
               to.text(), static_cast<int>(head.kind), static_cast<int>(head.flags), head.payload_bytes);
}

}  // namespace paceline::wire
