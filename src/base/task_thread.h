// One thread that works off tasks in the order they were given, for work that may take long (files) beside a loop that must not.
// Threads: run() any; destroy where no task waits for the destroying thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace paceline {

class TaskThread {
 public:
  TaskThread();
  ~TaskThread();  // after the last task
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void run(std::function<void()> task);
  void wait_idle();  // blocks until every task is done

 private:
  void work();

  std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false, ending_ = false;

  std::thread thread_;
};

}  // namespace paceline
