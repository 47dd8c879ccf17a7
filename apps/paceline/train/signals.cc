#include "paceline/train/signals.h"

#include <csignal>

#include <sys/signalfd.h>

namespace paceline::cli {

int take_signals_by_descriptor() {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&mask, number);
  struct sigaction inherited {};
  sigaction(SIGHUP, nullptr, &inherited);
  if (inherited.sa_handler != SIG_IGN) sigaddset(&mask, SIGHUP);
  const int descriptor = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  sigaddset(&mask, SIGPIPE);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  return descriptor;
}

}  // namespace paceline::cli
