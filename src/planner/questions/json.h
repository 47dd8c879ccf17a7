// JSON as questions read and write it.
#pragma once

#include "report/json_text.h"

namespace paceline::planner {

using report::brief;
using report::CaseIndex;
using report::Json;
using report::parse_json;

}  // namespace paceline::planner
