#include "report/link_report.h"

namespace paceline::report {

Json json_of(const LinkReport& link) {
  return {{"window", link.window},
          {"bandwidth", link.bandwidth},
          {"round_trip", link.round_trip},
          {"overtakes", link.overtakes},
          {"reply_overtakes", link.reply_overtakes},
          {"turns", link.turns},
          {"window_full", link.window_full},
          {"strangers", link.strangers}};
}

LinkReport link_from(const Json& json) {
  LinkReport link;
  link.window = json.at("window");
  link.bandwidth = json.at("bandwidth");
  link.round_trip = json.at("round_trip");
  link.overtakes = json.at("overtakes");
  link.reply_overtakes = json.at("reply_overtakes");
  link.turns = json.at("turns");
  link.window_full = json.at("window_full");
  link.strangers = json.at("strangers");
  return link;
}

}  // namespace paceline::report
