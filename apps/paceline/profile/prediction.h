// From times measured with some mini-batches to the time of a step with another one. Pure; any thread.
#pragma once

#include <vector>

#include "paceline/profile/measurements.h"

namespace paceline::cli {

// The calibrations, all of one model, read as straight lines between the measured mini-batches (the nearest two go on beyond the
// ends): times of every algorithm that all of them measured for a layer, of the rest, and of a step with the default. Memory is
// left out. Requires at least one calibration; several of the same mini-batch count with their median.
MeasuredStep predicted_step(const std::vector<MeasuredStep>& calibrations, std::int64_t mini_batch);

// Of each layer's algorithms the default, and those that are worth leaving it for: at least a twentieth faster, if all layers
// together make the step at least a fiftieth shorter. What gains less is lost in the noise of measuring, and the fastest of several
// equals would only be the luckiest. One with a smaller workspace stays, but counts as no faster than the default. All of them
// where the default was not measured.
MeasuredStep worthwhile(MeasuredStep step);

// For each layer the fastest worthwhile algorithm.
model::ConvolutionChoice fastest_choice(const MeasuredStep& step);

// The step's time with `choice`, layers that it does not name running the default.
double predicted_seconds(const MeasuredStep& step, const model::ConvolutionChoice& choice);

}  // namespace paceline::cli
