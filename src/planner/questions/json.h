// JSON as questions read and write it.
#pragma once

#include "runtime/json_text.h"

namespace paceline::planner {

using runtime::brief;
using runtime::CaseIndex;
using runtime::Json;
using runtime::parse_json;

}  // namespace paceline::planner
