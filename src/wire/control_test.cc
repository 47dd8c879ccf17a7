#include "wire/control.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

TensorTable small_table() {
  TensorTable table;
  table.tensors.push_back({.name = "w", .dtype = "float32", .shape = {2, 3}, .layer = {0}, .group = 1});
  table.layers = {"fc"};
  return table;
}

// The table above, as release 0.1 writes it.
constexpr const char* kSmallTable =
    "01000000"  // tensors
    "01000000"
    "77"  // "w"
    "07000000"
    "666c6f61743332"  // "float32"
    "02000000"        // dimensions
    "0200000000000000"
    "0300000000000000"
    "00000000"  // layer
    "01000000"  // group
    "01000000"
    "02000000"
    "6663";  // layers: "fc"

TEST(Control, MessagesHaveTheBytesOfRelease0_1) {
  const Join join{.wanted_rank = -1,
                  .world_workers = 4,
                  .address = "h:1",
                  .release = "0.1.0",
                  .table = small_table(),
                  .settings = {{"seed", "7"}},
                  .seconds = {.forward = {1.5}, .backward = {0}}};
  EXPECT_EQ(hex(encode(join)), std::string("ffffffff"
                                           "04000000"
                                           "03000000"
                                           "683a31"
                                           "05000000"
                                           "302e312e30") +
                                   kSmallTable +
                                   "01000000"
                                   "04000000"
                                   "73656564"
                                   "01000000"
                                   "37"
                                   "01000000"
                                   "000000000000f83f"
                                   "01000000"
                                   "0000000000000000");
  Welcome welcome{.rank = 2,
                  .workers = 3,
                  .job = 0x1122334455667788,
                  .epoch = 9,
                  .servers = {"a", "bc"},
                  .peers = {"d"},
                  .table = small_table(),
                  .settings = {}};
  welcome.secret.fill(std::byte{0x55});
  welcome.worker_incarnations = {7};
  EXPECT_EQ(hex(encode(welcome)), std::string("02000000"
                                              "03000000"
                                              "8877665544332211"
                                              "09000000"
                                              "02000000"
                                              "01000000"
                                              "61"
                                              "02000000"
                                              "6263"
                                              "01000000"
                                              "01000000"
                                              "64") +
                                      kSmallTable + "00000000" + std::string(64, '5') + "01000000" + "07000000" + "00000000");
  EXPECT_EQ(hex(encode(Stop{.kind = StopKind::kFailed, .error = ErrorKind::kDeadline, .reason = "no", .code = "slow"})),
            "02"
            "02"
            "02000000"
            "6e6f"
            "04000000"
            "736c6f77");
}

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}

  std::string text() {
    std::string made(random_() % 12, ' ');
    for (char& c : made) c = static_cast<char>(random_());
    return made;
  }
  Settings settings() {
    Settings made(random_() % 5);
    for (auto& [name, value] : made) name = text(), value = text();
    return made;
  }
  TensorTable table() {
    TensorTable made;
    made.tensors.resize(random_() % 4);
    for (TensorInfo& tensor : made.tensors) {
      tensor = {.name = text(),
                .dtype = text(),
                .shape = std::vector<std::int64_t>(random_() % 4),
                .layer = {small()},
                .group = small() & 0x7fff'ffff,
                .frozen = random_() % 2 == 0};
      for (auto& dimension : tensor.shape) dimension = static_cast<std::int64_t>(random_());
    }
    made.layers.resize(random_() % 4);
    for (auto& name : made.layers) name = text();
    return made;
  }
  Join join() {
    Join made{.wanted_rank = small(),
              .world_workers = small(),
              .address = text(),
              .release = text(),
              .table = table(),
              .settings = settings(),
              .seconds = {}};
    if (random_() % 2 == 0) return made;
    for (auto* pass : {&made.seconds.forward, &made.seconds.backward}) {
      pass->resize(made.table.layers.size());
      for (double& value : *pass) value = static_cast<double>(random_() % 1000) / 100;
    }
    return made;
  }
  Welcome welcome() {
    Welcome made{.rank = 0,
                 .workers = static_cast<std::int32_t>(1 + random_() % 4),
                 .job = random_(),
                 .epoch = static_cast<std::uint32_t>(random_()),
                 .servers = {},
                 .table = table(),
                 .settings = settings()};
    const auto workers = static_cast<std::size_t>(made.workers), servers = static_cast<std::size_t>(random_() % 4);
    made.servers.resize(servers);
    if (servers == 0) made.peers.resize(workers);
    for (auto* addresses : {&made.servers, &made.peers}) {
      for (auto& address : *addresses) address = text();
    }
    made.rank = static_cast<std::int32_t>(random_() % std::max(workers, servers));
    if (random_() % 2 == 0) {
      made.worker_incarnations.resize(workers, 7);
      made.server_incarnations.resize(servers, 8);
    }
    return made;
  }
  Stop stop() {
    return {.kind = static_cast<StopKind>(random_() % 3),
            .error = static_cast<ErrorKind>(random_() % 7),
            .reason = text(),
            .code = text()};
  }

 private:
  std::int32_t small() { return static_cast<std::int32_t>(random_()); }
  std::mt19937_64 random_;
};

// What is written is read again; every shorter message is refused, and one with a byte too many.
template <typename Message, typename Decode>
void expect_exact(const Message& message, Decode decode) {
  auto bytes = encode(message);
  const auto again = decode(bytes);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, message);
  EXPECT_EQ(encode(*again), bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto shorter = decode(std::span<const std::byte>(bytes).first(length));
    ASSERT_FALSE(shorter.ok()) << length << " of " << bytes.size() << " bytes";
    ASSERT_EQ(shorter.status().kind(), ErrorKind::kCorrupt);
  }
  bytes.push_back({});
  EXPECT_FALSE(decode(bytes).ok());
}

TEST(Control, WhatIsWrittenIsReadAgainAndNoPartOfIt) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Maker make(seed);
    expect_exact(make.join(), decode_join);
    expect_exact(make.welcome(), decode_welcome);
    expect_exact(make.stop(), decode_stop);
    expect_exact(make.welcome().settings, decode_settings);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Control, ValuesOutOfRangeAreRefused) {
  auto bytes = encode(Stop{});
  bytes[0] = std::byte{3};
  EXPECT_FALSE(decode_stop(bytes).ok()) << "there are three kinds of end";
  bytes = encode(Stop{});
  bytes[1] = std::byte{7};
  EXPECT_FALSE(decode_stop(bytes).ok()) << "there are seven kinds of error";
}

TEST(Control, AWelcomeWithoutAPlaceForItsRankIsRefused) {
  const Welcome good{
      .rank = 2, .workers = 3, .servers = {"a", "b"}, .worker_incarnations = {1, 2, 3}, .server_incarnations = {4, 5}};
  ASSERT_TRUE(decode_welcome(encode(good)).ok());
  const auto refused = [&](auto&& change) {
    Welcome wrong = good;
    change(wrong);
    return decode_welcome(encode(wrong)).status().kind() == ErrorKind::kCorrupt;
  };
  EXPECT_TRUE(refused([](Welcome& welcome) { welcome.rank = 3; }));
  EXPECT_TRUE(refused([](Welcome& welcome) { welcome.rank = -1; }));
  EXPECT_TRUE(refused([](Welcome& welcome) { welcome.workers = -1; }));
  EXPECT_TRUE(refused([](Welcome& welcome) { welcome.workers = 4; })) << "worker 3 would have no incarnation";
  EXPECT_TRUE(refused([](Welcome& welcome) { welcome.server_incarnations = {4}; }));
  EXPECT_TRUE(refused([](Welcome& welcome) { welcome.peers = {"c"}; }));
}

TEST(Control, AStopTellsEveryoneTheSameStatus) {
  EXPECT_TRUE(stop_for({}).status().ok());
  EXPECT_EQ(stop_for({}).kind, StopKind::kDone);
  for (const ErrorKind kind : {ErrorKind::kBadRequest, ErrorKind::kPeerLost, ErrorKind::kDeadline, ErrorKind::kCancelled,
                               ErrorKind::kOverloaded, ErrorKind::kCorrupt, ErrorKind::kIo}) {
    const Stop stop = stop_for(Status(kind, "why"));
    EXPECT_EQ(stop.kind, kind == ErrorKind::kCancelled ? StopKind::kInterrupted : StopKind::kFailed);
    const Status again = decode_stop(encode(stop))->status();
    EXPECT_EQ(again.kind(), kind);
    EXPECT_EQ(again.message(), "why");
    EXPECT_EQ(again.code(), code_of(kind));
  }
  const Status finer = decode_stop(encode(stop_for(Status(ErrorKind::kBadRequest, "why", {"release", ""}))))->status();
  EXPECT_EQ(finer.code(), "release");
}

TEST(Settings, TheirFirstDifferenceIsNamed) {
  const Settings a = {{"optimizer", "sgd"}, {"seed", "1"}};
  EXPECT_EQ(first_difference(a, a), std::nullopt);
  EXPECT_EQ(first_difference(a, {{"optimizer", "adam"}, {"seed", "2"}}), "--optimizer: sgd against adam");
  EXPECT_EQ(first_difference(a, {{"optimizer", "sgd"}, {"speed", "1"}}), "the settings they know: --seed against --speed");
  EXPECT_EQ(first_difference(a, {{"optimizer", "sgd"}}), "the number of settings: 2 against 1");
}

}  // namespace
}  // namespace paceline::wire
