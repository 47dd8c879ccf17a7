// The border to LibTorch, which reports by exceptions: what one says becomes a Status, as everything else does.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace paceline::trainer {

// Calls `work` and returns what it returns. What it throws is kOverloaded where there was not memory enough, and else kIo with the
// first line of what the exception says; the message begins with `who`, "worker 0", unless that is empty.
Status caught(const std::string& who, const std::function<Status()>& work);

}  // namespace paceline::trainer
