// A connection over any reliable stream of bytes: everything that tcp/ and inproc/ have in common. A backend gives the four
// operations on its stream; framing, checks, batching of writes, limits for strangers and the order of callbacks are here.
//
// Owned by one loop. Shared between the Connection that its user holds and the backend's waiting operations; after the user has
// let go, or on_closed, no handler and no borrowed buffer is touched any more.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "transport/frame_reader.h"
#include "transport/loop_core.h"
#include "transport/send_queue.h"

namespace paceline::transport {

// The accepted connections of one listener that have not been admitted. Loop thread.
struct StrangerCount {
  int now = 0;
};

class Stream : public LoopMember, public std::enable_shared_from_this<Stream> {
 public:
  struct Moved {
    enum class Outcome { kSome, kLater, kEnd };
    Outcome outcome;
    std::size_t bytes = 0;  // kSome
    Status reason;          // kEnd: an error, or success for an orderly end by the peer
  };

  Stream(LoopCore& loop, Ends ends);
  ~Stream() override;

  // Makes it an accepted connection, a stranger until admit() or `deadline`.
  void become_stranger(std::shared_ptr<StrangerCount> count, Duration deadline);
  // Makes it a connection of this side: full limits at once.
  void become_admitted();

  // What Connection says.
  void start(ConnectionHandler& handler);
  void send(const wire::SealedHead& head, std::span<const std::byte> payload, std::uint64_t ticket);
  void admit();
  void close();
  void abandon();  // the Connection is destroyed: close without a callback
  const std::string& peer() const { return ends_.peer; }
  const Ends& ends() const { return ends_; }

  void on_loop_gone() final;
  void on_turn_end() final;

 protected:
  // Never block. kLater: nothing could be moved now.
  virtual Moved read_some(std::span<const iovec> spaces) = 0;
  virtual Moved write_some(std::span<const iovec> pieces) = 0;
  // Calls on_readable() (on_writable()) from the loop once the stream can be read (written) or has ended. Asked again each time.
  // `least`: fewer bytes than that are not worth a call of on_readable(), if the stream can tell; at least 1.
  virtual void want_read(std::size_t least) = 0;
  virtual void want_write() = 0;
  // Closes the stream; nothing wanted is called back any more. Called once, at the latest from on_loop_gone() or abandon().
  virtual void close_stream() = 0;

  void on_readable();
  void on_writable();
  void finish(Status reason);  // ends the connection now and reports it from the loop
  bool open() const { return open_; }
  LoopCore* loop() const { return loop_; }

 private:
  void flush();
  void report_written();
  void answer_if_owed(const Status& reason);
  void deliver_closed();
  void end_probation();

  LoopCore* loop_;  // null once the loop is gone
  Ends ends_;
  ConnectionHandler* handler_ = nullptr;
  bool open_ = true;
  bool reported_ = false;
  bool flush_planned_ = false;  // on_turn_end() will come
  bool write_blocked_ = false;  // on_writable() will come
  bool write_failed_ = false;   // nothing more can be sent; what the peer sent before may still be read
  Status write_error_;
  Status reason_;  // why it is not open any more
  FrameReader reader_;
  SendQueue queue_;

  std::shared_ptr<StrangerCount> strangers_;  // null once admitted
  Loop::TimerId probation_ = 0;
};

// What the user holds.
class StreamConnection final : public Connection {
 public:
  explicit StreamConnection(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~StreamConnection() override { stream_->abandon(); }
  StreamConnection(const StreamConnection&) = delete;
  StreamConnection& operator=(const StreamConnection&) = delete;

  void start(ConnectionHandler& handler) override { stream_->start(handler); }
  void send(const wire::SealedHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override {
    stream_->send(head, payload, ticket);
  }
  void admit() override { stream_->admit(); }
  void close() override { stream_->close(); }
  const Ends& ends() const override { return stream_->ends(); }

 private:
  std::shared_ptr<Stream> stream_;
};

}  // namespace paceline::transport
