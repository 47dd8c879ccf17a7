#include "runtime/loop_driver.h"

namespace paceline::runtime {

LoopDriver::LoopDriver(transport::Loop& loop) : loop_(loop), thread_([this] { serve(); }) {}

LoopDriver::~LoopDriver() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    loop_.stop();
    changed_.notify_all();
  }
  thread_.join();
}

void LoopDriver::serve() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (owner_ == Owner::kThread) {
      lock.unlock();
      loop_.run();
      lock.lock();
      if (wanted_ == 0) continue;  // an operation was over, which somebody else may have waited for
      owner_ = Owner::kNobody;
      released_ = loop_.now();
      changed_.notify_all();
      continue;
    }
    changed_.wait_for(lock, kLinger);
    const TimePoint now = loop_.now();
    if (owner_ == Owner::kCaller && now >= limit_) loop_.stop();
    if (owner_ == Owner::kNobody && wanted_ == 0 && now - released_ >= kLinger) owner_ = Owner::kThread;
  }
}

void LoopDriver::release() {
  driven_ = false;
  const std::lock_guard lock(mutex_);
  owner_ = Owner::kNobody;
  released_ = loop_.now();
  if (wanted_ > 0) changed_.notify_all();
}

bool LoopDriver::try_run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (owner_ != Owner::kNobody || wanted_ > 0 || ending_) return false;
    owner_ = Owner::kCaller;
    limit_ = TimePoint::max();
  }
  const Serving serving{*this};
  loop_.post([this, work = std::move(work)] {
    work();
    loop_.stop();
  });
  loop_.run();
  return true;
}

bool LoopDriver::drive(const std::atomic<bool>& over, Duration limit) {
  const TimePoint until = loop_.now() + limit;
  {
    std::unique_lock lock(mutex_);
    if (owner_ == Owner::kCaller || ending_) return false;
    if (owner_ == Owner::kThread) {
      ++wanted_;
      loop_.stop();
      changed_.wait(lock, [this] { return owner_ != Owner::kThread; });
      --wanted_;
      if (owner_ == Owner::kCaller) return false;
    }
    owner_ = Owner::kCaller;
    limit_ = until;
  }
  const Serving serving{*this};
  driven_ = true;
  while (!over && loop_.now() < until) loop_.run();
  return true;
}

void LoopDriver::on_over() {
  if (driven_) loop_.stop();
}

}  // namespace paceline::runtime
