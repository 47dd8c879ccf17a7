// What a doctor says: one JSON document, and the same for people.
#pragma once

#include <nlohmann/json.hpp>

#include "doctor/measured_way.h"
#include "paceline/machine.h"

namespace paceline::cli {

// Of this machine, with no hosts yet.
nlohmann::ordered_json report_of(const Machine& machine, const Result<EchoAnswer>& loopback);
// Each becomes one of "hosts", its directions "links", and what was found "findings" of all hosts, the dearest first.
void add_ways(nlohmann::ordered_json& report, const std::vector<MeasuredWay>& ways);

void print_text(const nlohmann::ordered_json& report);

}  // namespace paceline::cli
