// What transport/unix promises beyond the conformance suite: which files it makes, replaces and leaves alone.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"

namespace paceline::transport::testing {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Unix : public LeakCheck {
 protected:
  static std::string path_of(const Address& address) { return address.host.substr(5); }

  Address at(const std::string& name) const { return {(fs::path(backend_.host).parent_path() / name).string(), Address::kTheFile}; }

  Result<Address> listen(const Address& address) {
    Result<Address> where = address;
    rank_.on_loop([&] {
      auto listener = rank_.transport().listen(address, {}, [](std::unique_ptr<Connection>) {});
      where = listener.ok() ? Result<Address>(listener.value()->address()) : listener.status();
      if (listener.ok()) listeners_.push_back(std::move(listener).value());
    });
    return where;
  }
  void listen_no_more() {
    rank_.on_loop([&] { listeners_.clear(); });
  }
  void TearDown() override {
    rank_.stop();
    listeners_.clear();
  }

  void expect_refused(const Address& address, ErrorKind kind, const std::string& why) {
    const auto where = listen(address);
    ASSERT_FALSE(where.ok()) << address.text();
    EXPECT_EQ(where.status().kind(), kind) << where.status().message();
    EXPECT_THAT(where.status().message(), HasSubstr(address.text()));
    EXPECT_THAT(where.status().message(), HasSubstr(why));
  }

  // A socket of another program, which does not listen.
  int bound(const Address& address, int type) const {
    const int socket = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path_of(address).copy(name.sun_path, sizeof name.sun_path - 1);
    EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    return socket;
  }

  Backend backend_ = unix_backend();
  Rank rank_{backend_};
  std::vector<std::unique_ptr<Listener>> listeners_;
};

TEST_F(Unix, TheFileIsForItsUserAloneAndGoesWithItsListener) {
  const Address address = at("job");
  const auto where = listen(address);
  ASSERT_TRUE(where.ok()) << where.status().message();
  EXPECT_EQ(*where, address);
  EXPECT_TRUE(fs::is_socket(path_of(address)));
  EXPECT_EQ(fs::status(path_of(address)).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  listen_no_more();
  EXPECT_FALSE(fs::exists(path_of(address)));
}

TEST_F(Unix, TheFileGoesWithTheTransportToo) {
  ASSERT_TRUE(listen(at("job")).ok());
  rank_.stop();
  rank_.destroy_transport();
  EXPECT_FALSE(fs::exists(path_of(at("job"))));
}

TEST_F(Unix, WhoListensHearsNothingOfThoseWhoWantItsPlace) {
  World world(backend_, 2);
  const Address address = world.listen(0);
  expect_refused(address, ErrorKind::kIo, "another process");
  world.connect(1, address);
  world.wait_accepted(0).start();
  std::size_t accepted = 1;
  world.rank(0).on_loop([&] { accepted = world.accepted(); });
  EXPECT_EQ(accepted, 1U);
}

// A killed process leaves its file, and its socket is closed.
TEST_F(Unix, WhatAKilledProcessLeftIsReplaced) {
  ::close(bound(at("job"), SOCK_STREAM));
  const auto where = listen(at("job"));
  EXPECT_TRUE(where.ok()) << where.status().message();
}

TEST_F(Unix, AFileThatIsNoSocketStays) {
  const std::string path = path_of(at("job"));
  std::ofstream(path) << "precious";
  expect_refused(at("job"), ErrorKind::kBadRequest, "no socket");
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "precious");
  fs::remove(path);
  fs::create_symlink("nowhere", path);
  expect_refused(at("job"), ErrorKind::kBadRequest, "no socket");
  fs::remove(path);
}

TEST_F(Unix, ASocketOfAnotherTypeThatIsInUseStays) {
  const int datagrams = bound(at("job"), SOCK_DGRAM);
  expect_refused(at("job"), ErrorKind::kIo, "another process");
  EXPECT_TRUE(fs::is_socket(path_of(at("job"))));
  ::close(datagrams);
  fs::remove(path_of(at("job")));
}

TEST_F(Unix, AFileThatSomebodyPutInItsPlaceStays) {
  const std::string path = path_of(at("job"));
  ASSERT_TRUE(listen(at("job")).ok());
  fs::remove(path);
  std::ofstream(path) << "precious";
  listen_no_more();
  EXPECT_TRUE(fs::is_regular_file(path));
  fs::remove(path);
}

TEST_F(Unix, WhereNoFileCanBeIsRefusedInOneSentence) {
  expect_refused(at("missing/job"), ErrorKind::kBadRequest, "No such file or directory");
  expect_refused(at(std::string(200, 'x')), ErrorKind::kBadRequest, "bytes");
}

TEST_F(Unix, OthersListenBesideAndSkipWhatIsThere) {
  std::ofstream(path_of(at("job.1"))) << "precious";
  for (const char* const name : {"job.2", "job.3"}) {
    const auto where = listen({at("job").host, 0});
    ASSERT_TRUE(where.ok()) << where.status().message();
    EXPECT_EQ(*where, at(name));
  }
  fs::remove(path_of(at("job.1")));
}

TEST_F(Unix, AddressesOfAnotherFormAreRefusedBothWays) {
  expect_refused({"127.0.0.1", 0}, ErrorKind::kBadRequest, "unix:/PATH");
  World world(tcp_backend(), 1);
  const auto connection = world.try_connect(0, at("job"));
  ASSERT_FALSE(connection.ok());
  EXPECT_EQ(connection.status().kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(connection.status().message(), HasSubstr("HOST:PORT"));
}

}  // namespace
}  // namespace paceline::transport::testing
