#include "collectives/exec/runner.h"

#include <algorithm>
#include <cstring>

#include "collectives/exec/moved_types.h"

namespace paceline::collectives {
namespace {

// Whether `later` has to wait until `earlier` is done: one writes what the other uses.
bool conflict(const Action& later, const Action& earlier) {
  const auto writes = [](const Action& action) { return action.kind != ActionKind::kSend; };
  if (writes(later) && (overlap(later.to, earlier.to) || overlap(later.to, earlier.from))) return true;
  return writes(earlier) && overlap(earlier.to, later.from);
}

bool receives(const Action& action) { return action.kind == ActionKind::kReceive || action.kind == ActionKind::kReceiveAndReduce; }

}  // namespace

Runner::Runner(std::shared_ptr<const Program> program, std::byte* buffer, tensor::DType dtype, tensor::Reduction reduction,
               BlockPool& pool, const std::byte* input)
    : program_(std::move(program)),
      buffer_(buffer),
      input_(input),
      dtype_(dtype),
      reduction_(reduction),
      size_(static_cast<std::int64_t>(moved(dtype).size)),
      pool_(pool),
      scratch_(pool.take(static_cast<std::size_t>(program_->scratch * size_))),
      slots_(program_->actions.size()),
      peers_(static_cast<std::size_t>(program_->ranks)) {
  pending_.reserve(kLookAhead);
}

void Runner::advance(std::vector<Send>& sends) {
  bool refilled = true;
  while (refilled) {
    for (; pending_.size() < kLookAhead && next_ < program_->actions.size(); ++next_)
      pending_.push_back(static_cast<std::uint32_t>(next_));
    bool finished = false;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      Slot& slot = slots_[pending_[i]];
      if (slot.state == State::kSending || slot.state == State::kReceiving || slot.state == State::kLost) continue;
      // Most of what is pending waits for a message: that is seen sooner than what it would have to wait for besides.
      if (slot.state != State::kDone && is_due(pending_[i]) && is_free(i)) run(pending_[i], sends);
      finished = finished || slot.state == State::kDone;
    }
    if (finished) std::erase_if(pending_, [this](std::uint32_t action) { return slots_[action].state == State::kDone; });
    refilled = finished && next_ < program_->actions.size();
  }
}

bool Runner::is_due(std::uint32_t at) const {
  const Action& action = program_->actions[at];
  if (action.kind == ActionKind::kSend) return may_send(action);
  return !receives(action) || slots_[at].state == State::kArrived;
}

// Backwards: what a send waits for is mostly the receive before it.
bool Runner::is_free(std::size_t place) const {
  const Action& action = program_->actions[pending_[place]];
  for (std::size_t i = place; i-- > 0;) {
    if (slots_[pending_[i]].state != State::kDone && conflict(action, program_->actions[pending_[i]])) return false;
  }
  return true;
}

bool Runner::is_free_action(std::uint32_t action) const {
  const auto found = std::find(pending_.begin(), pending_.end(), action);
  return found != pending_.end() && is_free(static_cast<std::size_t>(found - pending_.begin()));
}

bool Runner::may_send(const Action& action) const {
  const Peer& peer = peers_[static_cast<std::size_t>(action.peer)];
  return peer.ready || action.elements == 0 || peer.sent + action.elements * size_ <= peer.eager;
}

void Runner::run(std::uint32_t at, std::vector<Send>& sends) {
  const Action& action = program_->actions[at];
  Slot& slot = slots_[at];
  switch (action.kind) {
    case ActionKind::kSend: {
      const auto bytes = static_cast<std::size_t>(action.elements * size_);
      std::span<const std::byte> payload;
      if (bytes > 0 && action.from.wrapped.count > 0) {
        slot.block = pool_.take(bytes);
        read(action.from, slot.block.bytes().data());
        payload = slot.block.bytes();
      } else if (bytes > 0) {
        payload = bytes_of(action.from.memory, action.from.range);
      }
      peers_[static_cast<std::size_t>(action.peer)].sent += action.elements * size_;
      slot.state = State::kSending;
      ++borrowed_;
      sends.push_back({at, action.peer, action.index, payload});
      return;
    }
    case ActionKind::kReceive:
      if (slot.block) write(action.to, slot.block.bytes().data());
      break;
    case ActionKind::kReceiveAndReduce:
      reduce(action.to, slot.block.bytes().data());
      break;
    case ActionKind::kReduce:
      reduce(action.to, bytes_of(action.from.memory, action.from.range).data());
      break;
    case ActionKind::kCopy:
      write(action.to, bytes_of(action.from.memory, action.from.range).data());
      break;
  }
  slot.block = {};
  slot.state = State::kDone;
}

void Runner::reduce(const Place& to, const std::byte* from) {
  for (const Range& range : {to.range, to.wrapped}) {
    const auto count = static_cast<std::size_t>(range.count);
    if (count == 0) continue;
    tensor::reduce_into(reduction_, tensor::TensorView(bytes_of(to.memory, range).data(), dtype_, count),
                        tensor::ConstTensorView(from, dtype_, count));
    from += range.count * size_;
  }
}

std::optional<std::string> Runner::misfit(int peer, std::uint32_t index, std::uint64_t bytes) const {
  const auto& from_peer = program_->receives[static_cast<std::size_t>(peer)];
  if (index >= from_peer.size()) return fmt::format("message {}, of which there are only {}", index + 1, from_peer.size());
  const auto expected = static_cast<std::uint64_t>(program_->actions[from_peer[index]].elements * size_);
  if (bytes != expected) return fmt::format("message {} with {} bytes instead of {}", index + 1, bytes, expected);
  return std::nullopt;
}

Result<std::uint32_t> Runner::find_waiting(int peer, std::uint32_t index, std::uint64_t bytes) const {
  if (const auto text = misfit(peer, index, bytes)) return error(ErrorKind::kCorrupt, "{}", *text);
  const std::uint32_t at = program_->receives[static_cast<std::size_t>(peer)][index];
  if (slots_[at].state != State::kWaiting) return error(ErrorKind::kCorrupt, "message {} twice", index + 1);
  return at;
}

Result<std::span<std::byte>> Runner::on_begin(int peer, std::uint32_t index, std::uint64_t bytes) {
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t at, find_waiting(peer, index, bytes));
  const Action& action = program_->actions[at];
  Slot& slot = slots_[at];
  slot.state = State::kReceiving;
  if (bytes == 0) return std::span<std::byte>();
  ++borrowed_;
  const bool in_one_piece = action.to.wrapped.count == 0;
  if (action.kind == ActionKind::kReceive && in_one_piece && is_free_action(at)) return bytes_of(action.to.memory, action.to.range);
  slot.block = pool_.take(bytes);
  return slot.block.bytes();
}

Status Runner::on_begun(int peer, std::uint32_t index, BlockPool::Block& block) {
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t at, find_waiting(peer, index, block.bytes().size()));
  Slot& slot = slots_[at];
  slot.state = State::kReceiving;
  if (!block.bytes().empty()) ++borrowed_;
  slot.block = std::move(block);
  return {};
}

Status Runner::on_arrived(int peer, std::uint32_t index) {
  const auto& from_peer = program_->receives[static_cast<std::size_t>(peer)];
  if (index >= from_peer.size()) return error(ErrorKind::kCorrupt, "{}", *misfit(peer, index, 0));
  const std::uint32_t at = from_peer[index];
  Slot& slot = slots_[at];
  if (slot.state != State::kReceiving) {
    if (program_->actions[at].elements > 0 || slot.state != State::kWaiting)
      return error(ErrorKind::kCorrupt, "message {} twice", index + 1);
  } else if (program_->actions[at].elements > 0) {
    --borrowed_;
  }
  slot.state = State::kArrived;
  return {};
}

void Runner::on_delivered(std::uint32_t at) {
  PACELINE_CHECK(at < slots_.size() && slots_[at].state == State::kSending, "action {} is not being sent", at);
  slots_[at].block = {};
  slots_[at].state = State::kDone;
  --borrowed_;
}

void Runner::on_lost(int peer) {
  for (std::size_t at = 0; at < slots_.size(); ++at) {
    const State state = slots_[at].state;
    if (program_->actions[at].peer != peer || (state != State::kSending && state != State::kReceiving)) continue;
    slots_[at].state = State::kLost;
    --borrowed_;
  }
}

bool Runner::needs(int peer) const {
  const auto with_peer = [&](std::size_t at) {
    const Action& action = program_->actions[at];
    const bool message = action.kind == ActionKind::kSend || receives(action);
    const State state = slots_[at].state;
    return message && action.peer == peer && state != State::kDone && state != State::kArrived;
  };
  for (const std::uint32_t at : pending_) {
    if (with_peer(at)) return true;
  }
  for (std::size_t at = next_; at < program_->actions.size(); ++at) {
    if (with_peer(at)) return true;
  }
  return false;
}

int Runner::waits_for() const {
  for (const std::uint32_t at : pending_) {
    const Action& action = program_->actions[at];
    if ((action.kind == ActionKind::kSend || receives(action)) && slots_[at].state != State::kArrived) return action.peer;
  }
  return -1;
}

std::span<std::byte> Runner::bytes_of(Memory memory, const Range& range) const {
  std::byte* base = memory == Memory::kBuffer    ? buffer_
                    : memory == Memory::kScratch ? scratch_.bytes().data()
                                                 : const_cast<std::byte*>(input_);  // no action writes there
  return {base + range.first * size_, static_cast<std::size_t>(range.count * size_)};
}

void Runner::read(const Place& from, std::byte* to) const {
  for (const Range& range : {from.range, from.wrapped}) {
    const auto bytes = bytes_of(from.memory, range);
    std::copy(bytes.begin(), bytes.end(), to);
    to += bytes.size();
  }
}

void Runner::write(const Place& to, const std::byte* from) {
  for (const Range& range : {to.range, to.wrapped}) {
    const auto bytes = bytes_of(to.memory, range);
    std::copy_n(from, bytes.size(), bytes.begin());
    from += bytes.size();
  }
}

}  // namespace paceline::collectives
