// `paceline doctor`: what a person needs to know before a job, of this machine and of the way to others.
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/text.h"
#include "doctor/echo.h"
#include "doctor/measured_way.h"
#include "paceline/command.h"
#include "paceline/data_root.h"
#include "paceline/machine.h"
#include "paceline/option_files.h"
#include "runtime/signals.h"
#include "transport/open/open.h"
#include "wire/frame.h"
#include "wire/hello.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> hosts;
  int serve = -1;
  std::string bind = "127.0.0.1";
  std::string label;  // a rate, of links to the hosts; "": what their interfaces say
  bool json = false;
};

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

Json to_json(const MeasuredWay& measured) {
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

int examine(const Options& options) {
  std::vector<transport::Address> addresses;
  for (const std::string& host : options.hosts) {
    const auto address = doctor_address(host, "doctor");
    if (!address.ok()) return report_error(address.status());
    addresses.push_back(*address);
  }
  std::optional<double> label;
  if (!options.label.empty()) {
    const auto rate = parse_rate(options.label);
    if (!rate.ok()) return report_error(error(ErrorKind::kBadRequest, "--label {}", rate.status().message()));
    if (options.hosts.empty())
      return report_error(error(ErrorKind::kBadRequest, "--label is for the way to hosts; name them, or leave it out"));
    label = rate->value;
  }
  const Machine machine = this_machine();
  Json report = {{"program", program_facts()}, {"machine", to_json(machine)}, {"interfaces", to_json(machine.interfaces)}};
  report["loopback"] = to_json(ask_loopback({}));
  report["lab"] = to_json(machine.lab);
  report["hosts"] = Json::array();
  bool all_reached = report["loopback"]["reachable"];
  for (const transport::Address& address : addresses) {
    Json host = to_json(measure_way(address, machine.interfaces, label));
    all_reached = all_reached && host["reachable"].get<bool>();
    report["hosts"].push_back(std::move(host));
  }
  if (options.json)
    fmt::print("{}\n", report.dump(2));
  else
    print_text(report);
  return all_reached ? kDone : kFailed;
}

int serve(const Options& options) {
  const transport::Address place{options.bind, static_cast<std::uint16_t>(options.serve)};
  auto transport = transport::open(place);
  if (!transport.ok()) return report_error(transport.status());
  transport::Loop& loop = (*transport)->loop();
  const runtime::Signals signals(loop, {SIGINT, SIGTERM}, [&](int) { loop.stop(); });
  EchoServer server(**transport, PACELINE_VERSION);
  const auto address = server.start(place);
  if (!address.ok()) return report_error(address.status());
  if (options.json)
    std::cout << Json{{"listening", address->text()}}.dump() << std::endl;
  else
    fmt::print(stderr, "paceline: answering doctors at {}; end with Ctrl-C\n", address->text());
  loop.run();
  return kDone;
}

}  // namespace

void add_doctor(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* doctor =
      app.add_subcommand("doctor", "Examine this machine, and the way to hosts where 'paceline doctor --serve' runs");
  doctor->add_option("hosts", options->hosts,
                     fmt::format("HOST or HOST:PORT of doctors that serve; the port is {} unless given", kDoctorPort));
  CLI::Option* serving =
      doctor
          ->add_option("--serve", options->serve,
                       fmt::format("Answer doctors at this port until interrupted; usual: {}, 0: the kernel chooses", kDoctorPort))
          ->check(CLI::Range(0, 65'535));
  doctor
      ->add_option(
          "--bind", options->bind,
          "With --serve: address to listen on; other than loopback only in a closed network, for there is no authentication")
      ->capture_default_str();
  doctor
      ->add_option("--label", options->label,
                   "What the links to the hosts should carry, such as 1gbit; else what this machine's interface says")
      ->option_text("RATE")
      ->check(not_empty);
  doctor->add_flag("--json", options->json,
                   "One JSON document; times in seconds, rates in bytes/s. With --serve: {\"listening\": ADDRESS}");
  set_examples(*doctor,
               "  paceline doctor\n"
               "  paceline doctor --serve 4170 &  paceline doctor 127.0.0.1:4170 --json");
  doctor->callback([options, serving, &chosen] {
    chosen.run = [options, is_serving = serving->count() > 0] {
      if (!is_serving) return examine(*options);
      if (!options->hosts.empty())
        return report_error(
            error(ErrorKind::kBadRequest, "--serve answers others; it cannot ask {} at the same time", options->hosts[0]));
      return serve(*options);
    };
  });
}

}  // namespace paceline::cli
