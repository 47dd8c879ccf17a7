// The linear cost model of a link: a message of n bytes takes alpha + beta * n seconds; reducing n bytes takes gamma * n more.
#pragma once

namespace paceline::cost {

// Not negative. Fitted on the live links, or given.
struct LinkCost {
  double alpha = 0;  // seconds of start-up for each message
  double beta = 0;   // seconds for each byte sent
  double gamma = 0;  // seconds for each byte reduced

  bool operator==(const LinkCost&) const = default;
};

}  // namespace paceline::cost
