// A LinkReport as JSON, for reports that travel.
#pragma once

#include "report/report.h"

namespace paceline::report {

Json json_of(const LinkReport& link);
LinkReport link_from(const Json& json);  // throws as Json does

}  // namespace paceline::report
