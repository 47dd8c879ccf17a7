// What a doctor says: one JSON document, and the same for people.
#pragma once

#include <nlohmann/json.hpp>

#include "doctor/measured_way.h"
#include "paceline/machine.h"

namespace paceline::cli {

// Of this machine, with no hosts yet.
nlohmann::ordered_json report_of(const Machine& machine, const Result<EchoAnswer>& loopback);
// Of one host.
nlohmann::ordered_json report_of(const MeasuredWay& measured);

void print_text(const nlohmann::ordered_json& report);

}  // namespace paceline::cli
