// Lets a thread that waits for an operation do the loop's work meanwhile, so that nobody has to be woken on the way of a small
// message: the loop's own thread serves it only while no caller does.
//
// The loop is served by one thread at a time. A caller that has finished leaves it to nobody for kLinger, since it is likely to
// come back at once; then the loop's thread takes it, which looks every kLinger. So what arrives in between may have to wait twice
// that long, and no longer.
//
// What the loop's work throws on a caller's thread reaches that caller, who has let the loop go by then.
//
// Threads: any. Make it before and destroy it after everybody who uses the loop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "collectives/exec/communicator.h"
#include "transport/transport.h"

namespace paceline::runtime {

class LoopDriver final : public collectives::Driver {
 public:
  static constexpr Duration kLinger = std::chrono::milliseconds(2);

  explicit LoopDriver(transport::Loop& loop);
  ~LoopDriver() override;  // the loop is not served any more
  LoopDriver(const LoopDriver&) = delete;
  LoopDriver& operator=(const LoopDriver&) = delete;

  bool try_run(std::function<void()> work) override;
  bool drive(const std::atomic<bool>& over, Duration limit) override;
  void on_over() override;

 private:
  enum class Owner { kNobody, kThread, kCaller };

  // Of a caller, until it goes, however it goes.
  struct Serving {
    LoopDriver& driver;
    ~Serving() { driver.release(); }
  };

  void serve();
  void release();

  transport::Loop& loop_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Owner owner_ = Owner::kThread;
  std::atomic<bool> driven_ = false;  // a caller serves it; on the loop, without the mutex
  int wanted_ = 0;                    // callers that wait for the thread to let go
  bool ending_ = false;
  TimePoint released_{}, limit_{};
  std::thread thread_;
};

}  // namespace paceline::runtime
