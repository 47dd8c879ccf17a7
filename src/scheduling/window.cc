#include "scheduling/window.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/text.h"

namespace paceline::scheduling {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr Duration kShortest = std::chrono::microseconds(10), kLongest = std::chrono::seconds(1);

// With the largest unit that leaves no rest.
std::string size_text(Bytes size) {
  constexpr std::pair<std::int64_t, const char*> kUnits[] = {{1'000'000, "MB"}, {1 << 20, "MiB"}, {1000, "KB"}, {1 << 10, "KiB"}};
  for (const auto& [bytes, name] : kUnits) {
    if (size.count % bytes == 0) return fmt::format("{}{}", size.count / bytes, name);
  }
  return std::to_string(size.count);
}

}  // namespace

Result<WindowRule> parse_window(std::string_view text) {
  constexpr Bytes kLeast = kLargestChunk * 2;
  const auto refused = [&] {
    return error(ErrorKind::kBadRequest,
                 "--window {} is illegal; legal: auto, auto:TIME with 10us to 1s of the link, or a size of {} bytes and more", text,
                 kLeast.count);
  };
  if (text == kAuto) return WindowRule{};
  if (text.starts_with("auto:")) {
    const auto time = parse_duration(text.substr(kAuto.size() + 1));
    if (!time.ok() || *time < kShortest || *time > kLongest) return refused();
    return WindowRule{.link_time = *time};
  }
  const auto size = parse_bytes(text);
  if (!size.ok() || *size > kUnbounded) return refused();
  if (*size < kLeast) {
    return error(ErrorKind::kBadRequest, "--window {} is smaller than two chunks of {} bytes; give at least {}KiB, or auto", text,
                 kLargestChunk.count, kLeast.count / 1024);
  }
  return fixed_window(*size);
}

std::string to_text(const WindowRule& rule) {
  if (rule.kind == WindowRule::Kind::kFixed) return size_text(rule.size);
  if (rule.link_time == WindowRule{}.link_time) return std::string(kAuto);
  return fmt::format("{}:{}us", kAuto, std::chrono::duration_cast<std::chrono::microseconds>(rule.link_time).count());
}

Bytes window_for(const WindowRule& rule, BytesPerSecond rate, Duration round_trip) {
  if (rule.kind == WindowRule::Kind::kFixed) return rule.size;
  const double bytes = rate.value * seconds(rule.link_time + round_trip);
  return Bytes{
      std::llround(std::clamp(bytes, static_cast<double>(kSmallestFollowing.count), static_cast<double>(kLargestFollowing.count)))};
}

Bytes wide_for(const WindowRule& rule, BytesPerSecond rate) {
  if (rule.kind == WindowRule::Kind::kFixed) return {};
  const double room = std::max(rate.value * seconds(kSpreadTime), static_cast<double>(kSmallestSpread.count));
  return Bytes{std::llround(std::min(static_cast<double>(rule.spread.count), room))};
}

Bytes chunk_for(Bytes window) { return std::clamp(Bytes{window.count / 4}, kSmallestChunk, kLargestChunk); }

}  // namespace paceline::scheduling
