#include "doctor/report.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include <fmt/format.h>

#include "base/text.h"
#include "paceline/data_root.h"
#include "wire/frame.h"
#include "wire/hello.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

Json program_facts() {
  const auto trainer = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "paceline-trainer";
  const bool found = std::filesystem::exists(trainer);
#ifdef PACELINE_HAS_BENCH
  const bool bench = true;
#else
  const bool bench = false;
#endif
  const std::filesystem::path data = data_root();
  std::error_code ignored;
  return {{"version", PACELINE_VERSION},
          {"wire_protocol", fmt::format("{}.{}", wire::kMajorVersion, wire::kMinorVersion)},
          {"session_protocol", wire::kHighestSession},
          {"compiler", "C++ " __VERSION__},
          {"trainer", found ? Json(trainer.string()) : Json()},
          {"benchmarks", bench},
          {"data_root", data.string()},
          {"data_found", std::filesystem::is_directory(data, ignored)}};
}

Json to_json(const Machine& machine) {
  return {{"name", machine.name},
          {"system", machine.system},
          {"processor", machine.processor},
          {"cores", machine.cores},
          {"usable_cores", machine.usable_cores},
          {"memory_bytes", machine.memory_bytes},
          {"available_bytes", machine.available_bytes}};
}

Json to_json(const std::vector<Interface>& interfaces) {
  Json all = Json::array();
  for (const Interface& one : interfaces) {
    all.push_back({{"name", one.name},
                   {"address", one.address},
                   {"up", one.up},
                   {"loopback", one.loopback},
                   {"mtu", one.mtu},
                   {"bytes_per_second", one.bytes_per_second > 0 ? Json(one.bytes_per_second) : Json()}});
  }
  return all;
}

Json to_json(const lab::Rights& lab) {
  const auto path = [](const std::string& found) { return found.empty() ? Json() : Json(found); };
  return {{"namespaces", lab.namespaces}, {"reason", lab.reason}, {"ip", path(lab.ip)}, {"tc", path(lab.tc)}};
}

Json to_json(const Result<EchoAnswer>& answer) {
  if (!answer.ok()) {
    return {{"reachable", false},
            {"reason", answer.status().message()},
            {"version", nullptr},
            {"round_trip_seconds", nullptr},
            {"bytes_per_second", nullptr},
            {"clock_offset_seconds", nullptr},
            {"clock_offset_error_seconds", nullptr}};
  }
  return {{"reachable", true},
          {"reason", nullptr},
          {"version", answer->release},
          {"round_trip_seconds", {{"median", answer->round_trip_median}, {"min", answer->round_trip_least}}},
          {"bytes_per_second", answer->bytes_per_second},
          {"clock_offset_seconds", answer->clock_offset},
          {"clock_offset_error_seconds", answer->round_trip_least / 2}};
}

Json to_json(const Way& way) {
  const auto known = [](const auto& value) { return value == std::decay_t<decltype(value)>() ? Json() : Json(value); };
  return {{"interface", known(way.interface)},
          {"address", known(way.own_address)},
          {"gateway", known(way.gateway)},
          {"mtu", known(way.mtu)},
          {"segment_bytes", known(way.segment_bytes)}};
}

// A direction of the way to a host.
Json link_json(const HostFacts& facts, const std::string& from, const std::string& to, double rate) {
  const double label = facts.label.value_or(facts.way.bytes_per_second);
  return {{"from", from},
          {"to", to},
          {"rate", rate},
          {"label", label > 0 ? Json(label) : Json()},
          {"round_trip", facts.round_trip},
          {"mtu", facts.way.mtu > 0 ? Json(facts.way.mtu) : Json()},
          {"interface", facts.way.interface.empty() ? Json() : Json(facts.way.interface)}};
}

Json host_json(const MeasuredWay& measured) {
  const HostFacts& facts = measured.facts;
  Json host = {{"host", facts.host}};
  host.update(to_json(facts.reached.ok() ? measured.answer : Result<EchoAnswer>(facts.reached)));
  host["bytes_per_second_back"] = facts.back > 0 ? Json(facts.back) : Json();
  host["bytes_per_second_of_several"] = facts.several > 0 ? Json(facts.several) : Json();
  host["way"] = to_json(facts.way);
  host["findings"] = Json::array();
  for (const Finding& one : findings(facts)) host["findings"].push_back({{"what", one.what}, {"remedy", one.remedy}});
  return host;
}

std::string text_of_seconds(double value) { return (value < 0 ? "-" : "") + to_text(from_seconds(std::abs(value))); }

void print_link(const std::string& name, const Json& link, bool offset) {
  if (!link["reachable"].get<bool>()) {
    fmt::print("{:<12} not reachable: {}\n", name, link["reason"].get<std::string>());
    return;
  }
  fmt::print("{:<12} round trip {} (least {}), {}", name, text_of_seconds(link["round_trip_seconds"]["median"]),
             text_of_seconds(link["round_trip_seconds"]["min"]), to_text(BytesPerSecond{link["bytes_per_second"]}));
  if (offset) {
    fmt::print(", its clock is {} ahead (+- {}), version {}", text_of_seconds(link["clock_offset_seconds"]),
               text_of_seconds(link["clock_offset_error_seconds"]), link["version"].get<std::string>());
  }
  fmt::print("\n");
}

void print_host(const Json& host) {
  const std::string name = host["host"].get<std::string>();
  print_link(name, host, true);
  const Json& way = host["way"];
  if (host["reachable"].get<bool>() && way["interface"].is_string()) {
    fmt::print("{:<12} by {} ({}){}, MTU {}; back {}, there by 4 connections {}\n", "", way["interface"].get<std::string>(),
               way["address"].get<std::string>(), way["gateway"].is_string() ? " through " + way["gateway"].get<std::string>() : "",
               way["mtu"].dump(), to_text(BytesPerSecond{host["bytes_per_second_back"]}),
               to_text(BytesPerSecond{host["bytes_per_second_of_several"]}));
  }
  for (const Json& one : host["findings"]) {
    fmt::print("  found      {} {}\n  remedy     {}\n", name, one["what"].get<std::string>(), one["remedy"].get<std::string>());
  }
  if (host["findings"].empty()) fmt::print("  found      nothing that would hold a job up\n");
}

}  // namespace

Json report_of(const Machine& machine, const Result<EchoAnswer>& loopback) {
  return {{"program", program_facts()},    {"machine", to_json(machine)}, {"interfaces", to_json(machine.interfaces)},
          {"loopback", to_json(loopback)}, {"lab", to_json(machine.lab)}, {"hosts", Json::array()},
          {"links", Json::array()},        {"findings", Json::array()}};
}

void add_ways(Json& report, const std::vector<MeasuredWay>& ways) {
  std::vector<std::pair<std::string, Finding>> found;
  for (const MeasuredWay& measured : ways) {
    const HostFacts& facts = measured.facts;
    report["hosts"].push_back(host_json(measured));
    if (facts.reached.ok()) {
      report["links"].push_back(link_json(facts, facts.way.own_address, facts.host, facts.there));
      report["links"].push_back(link_json(facts, facts.host, facts.way.own_address, facts.back));
    }
    for (Finding& one : findings(facts)) found.emplace_back(facts.host, std::move(one));
  }
  std::ranges::stable_sort(found, std::greater(), [](const auto& one) { return one.second.cost; });
  for (const auto& [host, one] : found)
    report["findings"].push_back({{"code", one.code}, {"host", host}, {"text", host + " " + one.what}, {"remedy", one.remedy}});
}

void print_text(const Json& report) {
  const Json& program = report["program"];
  const Json& machine = report["machine"];
  fmt::print("{:<12} paceline {}, wire protocol {}, session protocol {}, built with {}\n", "program",
             program["version"].get<std::string>(), program["wire_protocol"].get<std::string>(),
             program["session_protocol"].get<int>(), program["compiler"].get<std::string>());
  fmt::print("{:<12} {}\n", "trainer",
             program["trainer"].is_null() ? "missing: this build cannot train (it was made without LibTorch)"
                                          : program["trainer"].get<std::string>());
  fmt::print("{:<12} {}{}\n", "data sets", program["data_root"].get<std::string>(),
             program["data_found"].get<bool>() ? "" : " (missing: scripts/setup makes it)");
  fmt::print("{:<12} {}, {}\n", "machine", machine["name"].get<std::string>(), machine["system"].get<std::string>());
  fmt::print("{:<12} {}, {} cores, {} usable\n", "processor", machine["processor"].get<std::string>(), machine["cores"].get<int>(),
             machine["usable_cores"].get<int>());
  fmt::print("{:<12} {}, {} available\n", "memory", to_text(Bytes{machine["memory_bytes"]}),
             to_text(Bytes{machine["available_bytes"]}));
  for (const Json& one : report["interfaces"]) {
    fmt::print("{:<12} {:<10} {}{}\n", "address", one["name"].get<std::string>(), one["address"].get<std::string>(),
               one["up"].get<bool>() ? "" : " (down)");
  }
  print_link("loopback", report["loopback"], false);
  const Json& lab = report["lab"];
  fmt::print("{:<12} {}: {}{}{}\n", "lab", lab["namespaces"].get<bool>() ? "possible" : "not possible",
             lab["reason"].get<std::string>(), lab["ip"].is_null() ? "; the program 'ip' is missing" : "",
             lab["tc"].is_null() ? "; the program 'tc' is missing" : "");
  for (const Json& host : report["hosts"]) print_host(host);
}

}  // namespace paceline::cli
