// The pages of error codes (base/error_pages.h) for programs.
#pragma once

#include "report/report.h"

namespace paceline::report {

// An array with an object for each code: code, shown, title, means, check, remedy.
Json error_pages_json();

}  // namespace paceline::report
