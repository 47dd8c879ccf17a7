// Pictures by matplotlib, which runs in a Python beside this program: PACELINE_PYTHON, else .venv/bin/python of the build's tree or
// of the current folder, else python3.
#pragma once

#include <string>

#include "base/status.h"

namespace paceline::cli {

// Runs `script` with the two arguments FILE and JSON. kIo with what Python says when it fails.
Status draw(const std::string& script, const std::string& json, const std::string& file);

}  // namespace paceline::cli
