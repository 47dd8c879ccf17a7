// A peer whose frames the test writes itself, and the first words that it says.
#pragma once

#include "session_setting.h"
#include "wire/hello.h"

namespace paceline::session::testing {

using transport::testing::End;

// A peer whose frames the test writes itself.
class RawPeer {
 public:
  explicit RawPeer(const Backend& backend) : rank_(backend) {}
  ~RawPeer() {
    rank_.stop();
    ends_.clear();
    listener_.reset();
  }
  End& connect(const transport::Address& to) {
    std::promise<void> connected;
    End& end = *ends_.emplace_back(std::make_unique<End>(rank_));
    rank_.on_loop([&] {
      rank_.transport().connect(to, 60s, [&](Result<std::unique_ptr<transport::Connection>> result) {
        PACELINE_CHECK(result.ok(), "{}", result.status().message());
        end.adopt(std::move(result).value());
        connected.set_value();
      });
    });
    if (connected.get_future().wait_for(kPatience) != std::future_status::ready) give_up("a raw connection");
    end.start();
    return end;
  }
  // A port that takes connections and drops them; `on_connection` is told of each by the loop.
  std::uint16_t open_door(const std::string& host, std::function<void()> on_connection) {
    std::uint16_t port = 0;
    rank_.on_loop([&] {
      auto door = rank_.transport().listen({host, 0}, {},
                                           [on_connection](const std::unique_ptr<transport::Connection>&) { on_connection(); });
      port = door.value()->address().port;
      listener_ = std::move(door).value();
    });
    return port;
  }
  // Answers every hello with `reply`, whose session it fills in.
  transport::Address listen(const std::string& host, wire::HelloReply reply, const std::string& reason,
                            wire::FrameHeader header = {.kind = wire::FrameKind::kHelloReply}) {
    transport::Address where;
    rank_.on_loop([&] {
      auto listener =
          rank_.transport().listen({host, 0}, {}, [this, reply, reason, header](std::unique_ptr<transport::Connection> connection) {
            End& end = *ends_.emplace_back(std::make_unique<End>(rank_));
            connection->admit();
            end.adopt(std::move(connection));
            end.frame_hook = [&end, reply, reason, header](const transport::Frame& frame) {
              if (frame.header.kind != wire::FrameKind::kHello) return;
              auto answer = reply;
              answer.session = wire::decode_hello(frame.body).value().session;
              const auto body = wire::encode(answer);
              const auto text = std::as_bytes(std::span(reason));
              end.send_here(header, {body.begin(), body.end()}, {text.begin(), text.end()}, 0);
            };
            end.connection->start(end);
          });
      where = listener.value()->address();
      listener_ = std::move(listener).value();
    });
    return where;
  }

 private:
  Rank rank_;
  std::vector<std::unique_ptr<End>> ends_;
  std::unique_ptr<transport::Listener> listener_;
};

inline void say_hello(End& end, const wire::Hello& hello) {
  const auto body = wire::encode(hello);
  end.send({.kind = wire::FrameKind::kHello, .acknowledged = hello.received}, {body.begin(), body.end()}, {}, 0);
}

// The `place`-th answer on this connection, from 0.
inline wire::HelloReply wait_reply(End& end, std::string* reason = nullptr, std::size_t place = 0) {
  wire::HelloReply reply;
  end.wait_until("the answer to a hello", [&](const End& e) {
    if (e.received.size() <= place) return false;
    reply = wire::decode_hello_reply(e.received[place].body).value();
    if (reason != nullptr) *reason = wire::printable_reason(e.received[place].payload);
    return true;
  });
  return reply;
}

inline const Secret kOfTheSession = draw_secret();

// Says hello, is asked for a proof, and gives it. Returns the last answer.
inline wire::HelloReply greet(End& end, wire::Hello hello, const Secret& secret = kOfTheSession, std::string* reason = nullptr) {
  say_hello(end, hello);
  const auto question = wait_reply(end);
  EXPECT_EQ(question.verdict, wire::Verdict::kProve);
  hello.key = secret;
  hello.proof = proof_for(hello, secret, question.nonce);
  say_hello(end, hello);
  return wait_reply(end, reason, 1);
}

inline wire::Hello hello_of(const wire::PeerName& name, std::uint64_t session, std::uint32_t attempt = 1) {
  return {.session = session,
          .job = 7,
          .epoch = 2,
          .attempt = attempt,
          .from = {name.roles, name.rank},
          .to = {wire::Role::kServer, {0}}};
}

}  // namespace paceline::session::testing
