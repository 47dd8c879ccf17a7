// The reader and the send queue against a stream that is cut into pieces anywhere: down to single bytes.
#include <algorithm>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "transport/frame_reader.h"
#include "transport/send_queue.h"

namespace paceline::transport {
namespace {

struct Sent {
  wire::SealedHead head;
  std::vector<std::byte> payload;
};

std::vector<Sent> random_frames(std::mt19937_64& random) {
  std::vector<Sent> frames(1 + random() % 12);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::size_t sizes[] = {0, random() % 100, random() % 5000, random() % 40000};
    frames[i].payload.resize(sizes[random() % 4]);
    for (std::byte& byte : frames[i].payload) byte = static_cast<std::byte>(random());
    std::vector<std::byte> body(random() % 3 == 0 ? 0 : random() % (wire::kMaxBody + 1));
    for (std::byte& byte : body) byte = static_cast<std::byte>(random());
    frames[i].head = wire::seal({.sequence = i + 1}, body, frames[i].payload);
  }
  return frames;
}

std::vector<std::byte> stream_of(const std::vector<Sent>& frames) {
  std::vector<std::byte> stream;
  for (const Sent& frame : frames) {
    stream.insert(stream.end(), frame.head.view().begin(), frame.head.view().end());
    stream.insert(stream.end(), frame.payload.begin(), frame.payload.end());
  }
  return stream;
}

std::size_t random_piece(std::mt19937_64& random) {
  const std::size_t pieces[] = {1, 1 + random() % 60, 1 + random() % 5000, 100000};
  return pieces[random() % 4];
}

class Collector final : public ConnectionHandler {
 public:
  std::vector<Sent> frames;

 private:
  std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte>) override {
    place_ = std::vector<std::byte>(header.payload_bytes);
    return place_;
  }
  void on_frame(const Frame& frame) override {
    EXPECT_TRUE(frame.payload.empty() || frame.payload.data() == place_.data());
    frames.push_back({wire::seal(frame.header, frame.body, frame.payload), {frame.payload.begin(), frame.payload.end()}});
  }
  void on_sent(std::uint64_t) override {}
  void on_closed(const Status&) override {}

  std::vector<std::byte> place_;
};

TEST(FrameReader, FindsTheSameFramesHoweverTheStreamIsCut) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto frames = random_frames(random);
    const auto stream = stream_of(frames);
    const bool open = true;
    FrameReader reader(open);
    reader.set_limits(random() % 2 == 0 ? 256 : kPeerBuffer, wire::kMaxPayload);
    Collector collector;
    for (std::size_t done = 0; done < stream.size();) {
      if (random() % 20 == 0) reader.set_limits(kPeerBuffer, wire::kMaxPayload);  // admitted in the middle
      std::size_t left = std::min(random_piece(random), stream.size() - done);
      std::size_t put = 0;
      for (const iovec& space : reader.spaces()) {
        const std::size_t count = std::min(left, space.iov_len);
        std::memcpy(space.iov_base, stream.data() + done + put, count);
        put += count;
        left -= count;
      }
      ASSERT_GT(put, 0U) << "no space was offered";
      const Status status = reader.consume(put, collector);
      ASSERT_TRUE(status.ok()) << status.message();
      done += put;
    }
    EXPECT_FALSE(reader.inside_frame());
    ASSERT_EQ(collector.frames.size(), frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(collector.frames[i].head.view(), frames[i].head.view()));
      EXPECT_TRUE(collector.frames[i].payload == frames[i].payload);
    }
  }
}

TEST(SendQueue, WritesTheSameStreamHoweverLittleTheSocketTakesAndReportsEachFrameOnceInOrder) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto frames = random_frames(random);
    SendQueue queue;
    std::vector<std::byte> stream;
    std::vector<std::uint64_t> reported;
    std::size_t pushed = 0;
    while (pushed < frames.size() || !queue.empty()) {
      if (pushed < frames.size() && random() % 2 == 0) {
        queue.push(frames[pushed].head, frames[pushed].payload, 3 * pushed);
        ++pushed;
      }
      std::array<iovec, 8> pieces;
      const std::size_t count = queue.gather(std::span(pieces).first(2 + random() % 7), random_piece(random));
      ASSERT_EQ(count == 0, queue.empty());
      std::size_t taken = 0;
      std::size_t room = random_piece(random);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t some = std::min(room, pieces[i].iov_len);
        const auto* const bytes = static_cast<const std::byte*>(pieces[i].iov_base);
        stream.insert(stream.end(), bytes, bytes + some);
        taken += some;
        room -= some;
      }
      queue.consumed(taken);
      if (random() % 3 != 0) continue;
      while (const auto ticket = queue.take_written()) reported.push_back(*ticket);
    }
    while (const auto ticket = queue.take_written()) reported.push_back(*ticket);
    EXPECT_TRUE(stream == stream_of(frames));
    ASSERT_EQ(reported.size(), frames.size());
    for (std::size_t i = 0; i < reported.size(); ++i) EXPECT_EQ(reported[i], 3 * i);
  }
}

}  // namespace
}  // namespace paceline::transport
