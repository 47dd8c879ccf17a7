#include "wire/control.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/wrong.h"

namespace paceline::wire {
namespace {

void put_settings(Writer& to, const Settings& settings) {
  to.put_list(settings, [](Writer& writer, const auto& setting) {
    writer.put_text(setting.first);
    writer.put_text(setting.second);
  });
}

Settings get_settings(Reader& from) {
  return from.get_list<std::pair<std::string, std::string>>(8, [](Reader& reader) {
    std::string name = reader.get_text();
    std::string value = reader.get_text();
    return std::pair(std::move(name), std::move(value));
  });
}

void put_seconds(Writer& to, const LayerSeconds& seconds) {
  for (const auto* pass : {&seconds.forward, &seconds.backward})
    to.put_list(*pass, [](Writer& writer, double value) { writer.put(value); });
}

// Of `layers` layers, or of none.
LayerSeconds get_seconds(Reader& from, std::size_t layers) {
  LayerSeconds seconds;
  for (auto* pass : {&seconds.forward, &seconds.backward}) {
    *pass = from.get_list<double>(sizeof(double), [](Reader& reader) {
      const auto value = reader.get<double>();
      if (!std::isfinite(value) || value < 0) reader.fail();
      return value;
    });
  }
  const bool fits = seconds.empty() || seconds.forward.size() == layers;
  if (!fits || seconds.forward.size() != seconds.backward.size()) from.fail();
  return seconds;
}

template <typename T>
Result<T> finished(const Reader& reader, T value, const char* what) {
  if (!reader.finished()) return error(ErrorKind::kCorrupt, "a {} message is malformed", what);
  return value;
}

// Lists by rank have an entry for each rank, or none at all.
bool consistent(const Welcome& welcome) {
  if (welcome.rank < 0 || welcome.workers < 0) return false;
  const auto rank = static_cast<std::size_t>(welcome.rank), workers = static_cast<std::size_t>(welcome.workers);
  const std::size_t servers = welcome.servers.size();
  const auto fits = [](std::size_t size, std::size_t ranks) { return size == 0 || size == ranks; };
  return rank < std::max(workers, servers) && fits(welcome.peers.size(), workers) &&
         fits(welcome.worker_incarnations.size(), workers) && fits(welcome.server_incarnations.size(), servers);
}

}  // namespace

std::optional<std::string> first_difference(const Settings& a, const Settings& b) {
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (a[i].first != b[i].first) return fmt::format("the settings they know: --{} against --{}", a[i].first, b[i].first);
    if (a[i].second != b[i].second) return fmt::format("--{}: {} against {}", a[i].first, a[i].second, b[i].second);
  }
  if (a.size() != b.size()) return fmt::format("the number of settings: {} against {}", a.size(), b.size());
  return std::nullopt;
}

double LayerSeconds::total() const {
  return std::accumulate(backward.begin(), backward.end(), std::accumulate(forward.begin(), forward.end(), 0.0));
}

std::vector<Seat> Welcome::seats() const {
  std::vector<Seat> seats;
  const auto add = [&](Role role, std::size_t count, const std::vector<std::uint32_t>& incarnations) {
    for (std::size_t i = 0; i < count; ++i)
      seats.push_back({role, {static_cast<std::int32_t>(i)}, i < incarnations.size() ? incarnations[i] : 0});
  };
  add(Role::kWorker, static_cast<std::size_t>(workers), worker_incarnations);
  add(Role::kServer, servers.size(), server_incarnations);
  return seats;
}

Status Stop::status() const {
  switch (kind) {
    case StopKind::kDone:
      return {};
    case StopKind::kInterrupted:
      return Status(ErrorKind::kCancelled, reason);
    case StopKind::kFailed:
      return Status(error, reason, {code, ""});
  }
  return {};
}

Stop stop_for(const Status& status) {
  if (status.ok()) return {};
  const StopKind kind = status.kind() == ErrorKind::kCancelled ? StopKind::kInterrupted : StopKind::kFailed;
  return {kind, status.kind(), status.message(), cause_of(status).code};
}

std::vector<std::byte> encode(const Settings& settings) {
  Writer writer;
  put_settings(writer, settings);
  return writer.take();
}

Result<Settings> decode_settings(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Settings settings = get_settings(reader);
  return finished(reader, std::move(settings), "settings");
}

std::vector<std::byte> encode(const Join& join) {
  Writer writer;
  writer.put(join.wanted_rank);
  writer.put(join.world_workers);
  writer.put_text(join.address);
  writer.put_text(join.release);
  encode(join.table, writer);
  put_settings(writer, join.settings);
  put_seconds(writer, join.seconds);
  return writer.take();
}

Result<Join> decode_join(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Join join;
  join.wanted_rank = reader.get<std::int32_t>();
  join.world_workers = reader.get<std::int32_t>();
  join.address = reader.get_text();
  join.release = reader.get_text();
  join.table = decode_tensor_table(reader);
  join.settings = get_settings(reader);
  join.seconds = get_seconds(reader, join.table.layers.size());
  return finished(reader, std::move(join), "join");
}

std::vector<std::byte> encode(const Welcome& welcome) {
  Writer writer;
  writer.put(welcome.rank);
  writer.put(welcome.workers);
  writer.put(welcome.job);
  writer.put(welcome.epoch);
  for (const auto* addresses : {&welcome.servers, &welcome.peers})
    writer.put_list(*addresses, [](Writer& w, const std::string& address) { w.put_text(address); });
  encode(welcome.table, writer);
  put_settings(writer, welcome.settings);
  for (const std::byte byte : welcome.secret) writer.put(byte);
  for (const auto* incarnations : {&welcome.worker_incarnations, &welcome.server_incarnations})
    writer.put_list(*incarnations, [](Writer& w, std::uint32_t incarnation) { w.put(incarnation); });
  return writer.take();
}

Result<Welcome> decode_welcome(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Welcome welcome;
  welcome.rank = reader.get<std::int32_t>();
  welcome.workers = reader.get<std::int32_t>();
  welcome.job = reader.get<std::uint64_t>();
  welcome.epoch = reader.get<std::uint32_t>();
  for (auto* addresses : {&welcome.servers, &welcome.peers})
    *addresses = reader.get_list<std::string>(4, [](Reader& r) { return r.get_text(); });
  welcome.table = decode_tensor_table(reader);
  welcome.settings = get_settings(reader);
  for (std::byte& byte : welcome.secret) byte = reader.get<std::byte>();
  for (auto* incarnations : {&welcome.worker_incarnations, &welcome.server_incarnations})
    *incarnations = reader.get_list<std::uint32_t>(4, [](Reader& r) { return r.get<std::uint32_t>(); });
  if (!consistent(welcome)) reader.fail();
  return finished(reader, std::move(welcome), "welcome");
}

std::vector<std::byte> encode(const Stop& stop) {
  Writer writer;
  writer.put(stop.kind);
  writer.put(static_cast<std::uint8_t>(stop.error));
  writer.put_text(stop.reason);
  writer.put_text(stop.code);
  return writer.take();
}

Result<Stop> decode_stop(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Stop stop;
  stop.kind = reader.get_enum(StopKind::kFailed);
  const auto kind = reader.get<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(ErrorKind::kIo)) reader.fail();
  stop.error = static_cast<ErrorKind>(kind);
  stop.reason = reader.get_text();
  stop.code = reader.get_text();
  return finished(reader, std::move(stop), "stop");
}

}  // namespace paceline::wire
