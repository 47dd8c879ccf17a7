// The start-up cost and the rate of a link, fitted to messages of several sizes whose times were measured (iBatch,
// "Problem Formulation", needs both). Pure; any thread.
#pragma once

#include <span>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::cost {

// One message: its payload, and how long it took from being asked for until it had come completely.
struct LinkSample {
  Bytes bytes;
  Duration time{};
};

// time = start_up + bytes / bandwidth.
struct LinkFit {
  double start_up = 0;       // seconds for each message, not negative
  BytesPerSecond bandwidth;  // above zero
  // How far the measured times are from the fitted ones: root of the mean squared relative error over the sizes; 0.05 is a good
  // fit.
  double residual = 0;
};

// Takes the median time of each size, so that a message that was held up does not count, and minimises the squares of the relative
// errors over the sizes, so that small messages say as much as large ones; a start-up that would be negative is 0. Order does not
// matter; each size at least once, three times for the median to help. O(samples * log(samples)).
//
// Errors (kBadRequest): fewer than two sizes, a size below 0, a time not above 0, times that do not grow with the size, so that
// there is no rate.
Result<LinkFit> fit_link(std::span<const LinkSample> samples);

}  // namespace paceline::cost
