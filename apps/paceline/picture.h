// Pictures by matplotlib, which runs in a Python beside this program: PACELINE_PYTHON, else .venv/bin/python of the build's tree or
// of the current folder, else python3.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::cli {

std::string python();

// As check_output, and that the name ends in .png, .svg or .pdf.
Status check_picture(const char* option, const std::string& file);

// Runs `script` with the two arguments FILE and JSON. The picture is there completely or not at all. kIo with what Python says when
// it fails.
Status draw(const std::string& script, const std::string& json, const std::string& file);

// Lets `interpreter` run the file `script` with `arguments`, which draws what a benchmark has measured. What it could not do is said
// on standard error and no failure, since the numbers are there without.
void draw_measured(const std::string& interpreter, const std::string& script, const std::vector<std::string>& arguments);

}  // namespace paceline::cli
