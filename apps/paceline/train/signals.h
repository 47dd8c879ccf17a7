// Signals of a process that waits for children.
#pragma once

namespace paceline::cli {

// From now on SIGINT, SIGTERM, SIGHUP and SIGCHLD are read from the descriptor that this returns; SIGHUP not where this process was
// started to ignore it, as by nohup. What is printed where nobody reads is an error of that file, and not the end.
int take_signals_by_descriptor();

}  // namespace paceline::cli
