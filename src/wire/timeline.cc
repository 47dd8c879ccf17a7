#include "wire/timeline.h"

#include "wire/codec.h"

namespace paceline::wire {
namespace {

constexpr std::size_t kEventBytes = 38;

void put_event(Writer& to, const Event& event) {
  to.put(event.what);
  to.put(event.message);
  to.put(event.peer);
  to.put(event.unit);
  to.put(event.detail);
  to.put(event.iteration);
  to.put(event.begin);
  to.put(event.end);
}

Event get_event(Reader& from) {
  Event event;
  event.what = from.get_enum(kLastRecorded);
  const auto kind = message_kind(from.get<std::uint8_t>());
  if (!kind) from.fail();
  event.message = kind.value_or(MessageKind{});
  event.peer = from.get<std::int32_t>();
  event.unit = from.get<std::uint32_t>();
  event.detail = from.get<std::uint32_t>();
  event.iteration = from.get<std::int64_t>();
  event.begin = from.get<std::int64_t>();
  event.end = from.get<std::int64_t>();
  if (event.end < event.begin) from.fail();
  return event;
}

}  // namespace

std::vector<std::byte> encode(const TimelinePart& part) {
  Writer writer;
  writer.put(part.thread);
  writer.put(part.dropped);
  writer.put_list(part.events, put_event);
  return writer.take();
}

Result<TimelinePart> decode_timeline_part(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  TimelinePart part;
  part.thread = reader.get_enum(TimelineThread::kLoop);
  part.dropped = reader.get<std::uint64_t>();
  part.events = reader.get_list<Event>(kEventBytes, get_event);
  if (!reader.finished()) return error(ErrorKind::kCorrupt, "a timeline message is malformed");
  return part;
}

std::vector<std::byte> encode(const ClockReading& reading) {
  Writer writer;
  writer.put(reading.nanoseconds);
  return writer.take();
}

Result<ClockReading> decode_clock_reading(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const ClockReading reading{reader.get<std::int64_t>()};
  if (!reader.finished()) return error(ErrorKind::kCorrupt, "a clock message is malformed");
  return reading;
}

}  // namespace paceline::wire
