// Bytes in little-endian order, and back. A Reader never reads past its end and never trusts a length: it checks a count
// against the bytes that are left before anything is allocated; after the first failure every read gives zero and `ok()` is false.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace paceline::wire {

static_assert(std::endian::native == std::endian::little, "the codec copies bytes as they are");

template <typename T>
concept Scalar = std::integral<T> || std::floating_point<T> || std::is_enum_v<T>;

class Writer {
 public:
  template <Scalar T>
  void put(T value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof value);
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), first, first + text.size());
  }
  template <typename Range, typename PutOne>
  void put_list(const Range& range, PutOne put_one) {
    put(static_cast<std::uint32_t>(range.size()));
    for (const auto& item : range) put_one(*this, item);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <Scalar T>
  T get() {
    T value{};
    if (const auto bytes = take(sizeof value); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  // An enumerator from 0 to `last`; anything else fails.
  template <typename Enum>
  Enum get_enum(Enum last) {
    const auto value = get<std::underlying_type_t<Enum>>();
    if (value > static_cast<std::underlying_type_t<Enum>>(last)) {
      failed_ = true;
      return Enum{};
    }
    return static_cast<Enum>(value);
  }
  std::string get_text() {
    const auto length = get<std::uint32_t>();
    const auto bytes = take(length);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // `smallest`: bytes that one item takes at least, so that a false count is refused before memory is asked for.
  template <typename T, typename GetOne>
  std::vector<T> get_list(std::size_t smallest, GetOne get_one) {
    const auto count = get<std::uint32_t>();
    if (count > rest_.size() / smallest) {
      failed_ = true;
      return {};
    }
    std::vector<T> items;
    items.reserve(count);
    for (std::uint32_t i = 0; i < count && !failed_; ++i) items.push_back(get_one(*this));
    return items;
  }

  bool ok() const { return !failed_; }
  bool finished() const { return !failed_ && rest_.empty(); }  // everything was read, nothing is left over
  void fail() { failed_ = true; }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (failed_ || count > rest_.size()) {
      failed_ = true;
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

}  // namespace paceline::wire
