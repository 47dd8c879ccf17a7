#include "transport/stream.h"

#include <cstring>

#include "base/text.h"
#include "base/wrong.h"

namespace paceline::transport {
namespace {

constexpr std::size_t kMostPieces = 64;
constexpr std::size_t kWriteBytes = 512U << 10;  // to one write
constexpr std::size_t kTurnBytes = 1U << 20;     // to read or write before others get their turn

}  // namespace

Stream::Stream(LoopCore& loop, Ends ends) : loop_(&loop), ends_(std::move(ends)), reader_(open_) { loop.add_member(*this); }

Stream::~Stream() {
  if (loop_ != nullptr) loop_->remove_member(*this);
}

void Stream::become_stranger(std::shared_ptr<StrangerCount> count, Duration deadline) {
  strangers_ = std::move(count);
  ++strangers_->now;
  reader_.set_limits(kStrangerBuffer, wire::kMaxStrangerPayload);
  probation_ = loop_->run_after(deadline, [weak = weak_from_this(), deadline] {
    if (const auto self = weak.lock()) {
      self->finish(
          error(ErrorKind::kDeadline, "{} connected and did not identify itself within {}", self->ends_.peer, to_text(deadline)));
    }
  });
}

void Stream::become_admitted() { reader_.set_limits(kPeerBuffer, wire::kMaxPayload); }

void Stream::start(ConnectionHandler& handler) {
  PACELINE_CHECK(handler_ == nullptr && !reported_, "start() of a connection that was started before");
  if (loop_ == nullptr) return;
  handler_ = &handler;
  if (open_) {
    want_read(reader_.wanted());
    // Frames may have been written before there was anybody to tell.
    if (!std::exchange(flush_planned_, true)) loop_->at_turn_end(shared_from_this());
  } else {
    loop_->post([self = shared_from_this()] { self->deliver_closed(); });
  }
}

void Stream::send(const wire::SealedHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  if (!open_) return;
  queue_.push(head, payload, ticket);
  if (flush_planned_ || write_blocked_ || write_failed_) return;
  flush_planned_ = true;
  loop_->at_turn_end(shared_from_this());
}

void Stream::admit() {
  if (!open_) return;
  end_probation();
  become_admitted();
}

void Stream::end_probation() {
  if (strangers_ == nullptr) return;
  --strangers_->now;
  strangers_.reset();
  if (loop_ != nullptr) loop_->cancel(probation_);
}

void Stream::close() {
  if (!open_) return;
  // A frame that was handed over before, such as a refusal or a goodbye, leaves if the stream takes it at once.
  if (!queue_.empty() && !write_blocked_ && !write_failed_) {
    std::array<iovec, kMostPieces> pieces;
    const std::size_t count = queue_.gather(pieces, kWriteBytes);
    write_some(std::span(pieces).first(count));
  }
  finish(error(ErrorKind::kCancelled, "the connection with {} was closed by this side", ends_.peer));
}

void Stream::abandon() {
  handler_ = nullptr;
  reported_ = true;
  close();
}

void Stream::on_loop_gone() {
  const auto self = shared_from_this();
  handler_ = nullptr;
  reported_ = true;
  if (std::exchange(open_, false)) {
    close_stream();
    end_probation();
  }
  loop_ = nullptr;
}

void Stream::finish(Status reason) {
  if (!std::exchange(open_, false)) return;
  close_stream();
  end_probation();
  reason_ = std::move(reason);
  if (handler_ != nullptr) loop_->post([self = shared_from_this()] { self->deliver_closed(); });
}

void Stream::deliver_closed() {
  if (handler_ == nullptr || std::exchange(reported_, true)) return;
  std::exchange(handler_, nullptr)->on_closed(reason_);
}

void Stream::on_turn_end() {
  flush_planned_ = false;
  flush();
}

void Stream::on_writable() {
  write_blocked_ = false;
  flush();
}

void Stream::flush() {
  const auto self = shared_from_this();
  report_written();
  std::size_t total = 0;
  while (open_ && !write_failed_ && !write_blocked_ && !queue_.empty() && total < kTurnBytes) {
    std::array<iovec, kMostPieces> pieces;
    const std::size_t count = queue_.gather(pieces, kWriteBytes);
    Moved moved = write_some(std::span(pieces).first(count));
    if (moved.outcome == Moved::Outcome::kEnd) {
      // What the peer said before it went (a goodbye, a refusal) is still to be read; the reading side then reports the end.
      write_failed_ = true;
      write_error_ = std::move(moved.reason);
    } else if (moved.outcome == Moved::Outcome::kLater) {
      write_blocked_ = true;
      want_write();
    } else {
      total += moved.bytes;
      queue_.consumed(moved.bytes);
    }
    report_written();
  }
  if (open_ && !write_failed_ && !write_blocked_ && !queue_.empty() && !std::exchange(flush_planned_, true)) {
    loop_->at_turn_end(self);
  }
}

void Stream::report_written() {
  // Without a handler there is nobody to tell; it is told what was written before once it starts.
  while (open_ && handler_ != nullptr) {
    const auto ticket = queue_.take_written();
    if (!ticket) return;
    handler_->on_sent(*ticket);
  }
}

void Stream::on_readable() {
  const auto self = shared_from_this();
  std::size_t total = 0;
  while (open_) {
    if (total >= kTurnBytes) {
      want_read(reader_.wanted());
      return;
    }
    const auto spaces = reader_.spaces();
    std::size_t room = 0;
    for (const iovec& space : spaces) room += space.iov_len;
    Moved moved = read_some(spaces);
    if (moved.outcome == Moved::Outcome::kLater) {
      want_read(reader_.wanted());
      return;
    }
    if (moved.outcome == Moved::Outcome::kEnd) {
      const std::string how = !moved.reason.ok() ? moved.reason.message()
                              : write_failed_    ? write_error_.message()
                                                 : "it closed the connection";
      // A peer that refuses this process for good: whoever connects need not try for ever.
      const bool refused = !moved.reason.ok() && moved.reason.kind() == ErrorKind::kBadRequest;
      finish(error(refused ? ErrorKind::kBadRequest : ErrorKind::kPeerLost, "lost {}{}: {}", ends_.peer,
                   reader_.inside_frame() ? " in the middle of a frame" : "", how)
                 .because({refused ? moved.reason.code() : "", ""}));
      return;
    }
    total += moved.bytes;
    if (Status status = reader_.consume(moved.bytes, *handler_); !status.ok()) {
      answer_if_owed(status);
      finish(at(ends_.peer, status));
      return;
    }
    if (moved.bytes < room && open_) {  // nothing more was there
      want_read(reader_.wanted());
      return;
    }
  }
}

// A peer of another release should be able to print both versions too, and one that speaks TLS that nobody does here: any frame of
// ours tells it. A heartbeat, because the bytes may only have been damaged on the way, and then the peer must not take the frame
// for a decision about its session.
void Stream::answer_if_owed(const Status& reason) {
  if (reason.kind() != ErrorKind::kBadRequest || !reader_.owes_answer() || !open_) return;
  send(wire::seal({.kind = wire::FrameKind::kHeartbeat}, {}, {}), {}, 0);
  std::array<iovec, kMostPieces> pieces;
  if (!write_blocked_ && !write_failed_) write_some(std::span(pieces).first(queue_.gather(pieces, kWriteBytes)));
}

}  // namespace paceline::transport
