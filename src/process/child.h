// A process started by this one, that never outlives it: the kernel kills it when the parent dies. Its arguments reach it as they
// are, for no shell stands between. Its standard output and error are read line by line. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline {

struct Pipe {
  int read = -1, write = -1;
};
// Both ends close on exec; reading does not wait.
Result<Pipe> make_pipe();

class Child {
 public:
  // What it reads as standard input: this process's (of a terminal nothing), or what is written into input(), which ends with this
  // object.
  enum class Input { kInherited, kPipe };

  // `label` names it in messages: "worker 2". `arguments[0]` is the program, searched in PATH when it has no slash; `environment`
  // is added to this process's, as "NAME=VALUE"; `kept` are descriptors that stay open in it.
  static Result<std::unique_ptr<Child>> start(std::string label, const std::vector<std::string>& arguments,
                                              const std::vector<std::string>& environment = {}, const std::vector<int>& kept = {},
                                              Input input = Input::kInherited);
  // A process that another one forked and left to this one, a child subreaper, and the readable ends of what it prints.
  static std::unique_ptr<Child> adopt(std::string label, pid_t pid, int output, int errors);
  ~Child();  // kills it when it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const std::string& label() const { return label_; }
  pid_t pid() const { return pid_; }
  int output() const { return output_; }  // readable ends; -1 once closed
  int errors() const { return errors_; }
  int input() const { return input_; }  // writable; -1: it has this process's

  // Reads what is there, some 64 KiB at most, calling `on_line` for every complete line; closes the end when it is over.
  void read_output(const std::function<void(const std::string&)>& on_line) { read(output_, output_rest_, on_line); }
  void read_errors(const std::function<void(const std::string&)>& on_line) { read(errors_, errors_rest_, on_line); }

  void signal(int number) const;
  // What it has started and left behind is killed when it ends, unless that made a session of its own.
  void take_group_along() { takes_group_along_ = true; }
  // Has it ended? Then what waitpid said stays in wait_status().
  bool try_wait();
  // Waits for that.
  void wait();
  bool ended() const { return ended_; }
  int wait_status() const { return wait_status_; }
  std::string ending() const;  // "exited with code 1", "was killed by signal 9"

  // Reads what it prints until it prints a line on standard output that holds `text`. kIo when it ends before, with the last line of
  // its standard error; kDeadline after `limit`.
  Status wait_for_line(std::string_view text, Duration limit);
  // Reads what it prints until it ends: its standard output. kIo when it fails, with the last line of its standard error; kDeadline
  // after `limit`.
  Result<std::string> finish(Duration limit);

 private:
  Child(std::string label, pid_t pid, int output, int errors)
      : label_(std::move(label)), pid_(pid), output_(output), errors_(errors) {}
  Status failed(const std::string& last_error) const;
  template <typename Done, typename OnLine>
  Status read_until(Duration limit, std::string& last_error, Done done, OnLine on_line);
  static void read(int& descriptor, std::string& rest, const std::function<void(const std::string&)>& on_line);

  std::string label_;
  pid_t pid_;
  int output_, errors_, input_ = -1;
  std::string output_rest_, errors_rest_;
  bool ended_ = false, takes_group_along_ = false;
  int wait_status_ = 0;
};

}  // namespace paceline
