// What a picture of a trace shows: when one worker computed, and when what it sent or was sent was on its way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::cli {

struct Span {
  double begin = 0, end = 0;  // microseconds of the trace
};

struct Lanes {
  std::vector<Span> forward, backward, on_its_way;  // in order; what nearly touches is one
  std::map<std::int64_t, double> begun;             // iteration -> when its forward pass began
};

// Of the file that --trace wrote (timeline/trace_file.h), all of it in `text`. `source` names it in errors. kBadRequest: it is no
// trace, or has no such worker; with the workers that it has.
Result<Lanes> read_lanes(const std::string& text, const std::string& source, std::int32_t worker);

struct Part {
  std::string title;
  Lanes lanes;
  double from = 0;  // microseconds of the trace, at the left edge
};

// An SVG with the parts one below the other on one scale, `length` microseconds wide. Its letters can be read on a telephone, and
// it has colours for light and for dark.
std::string drawn(const std::vector<Part>& parts, double length);

}  // namespace paceline::cli
