// From times measured with some mini-batches to the time of a step with another one. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/questions/measurements.h"

namespace paceline::planner {

// The calibrations, all of one model, read as straight lines between the measured mini-batches (the nearest two go on beyond the
// ends): times of every algorithm that all of them measured for a layer, of the rest, and of a step with the default. Memory is
// left out. Requires at least one calibration; several of the same mini-batch count with their median.
MeasuredStep predicted_step(const std::vector<MeasuredStep>& calibrations, std::int64_t mini_batch);

// Of each layer's algorithms the default, and those that are worth leaving it for: at least a twentieth faster, if all layers
// together make the step at least a fiftieth shorter. What gains less is lost in the noise of measuring, and the fastest of several
// equals would only be the luckiest; so is what whole steps did not confirm (whole_gain). One with a smaller workspace stays, but
// counts as no faster than the default. All of them where the default was not measured.
MeasuredStep worthwhile(MeasuredStep step);

// Whether steps that are so many times as fast as the default's are worth a choice.
bool worth_a_choice(double gain);
// How many whole steps to time before that is asked: a second of them, at most 100, but at least `least`.
std::int64_t rounds_to_confirm(double step_s, std::int64_t least);

// For each layer the fastest worthwhile algorithm.
model::ConvolutionChoice fastest_choice(const MeasuredStep& step);

// The step's time with `choice`, layers that it does not name running the default.
double predicted_seconds(const MeasuredStep& step, const model::ConvolutionChoice& choice);

struct StepTime {
  double seconds = 0;
  enum class By {
    kLayers,      // what the layers and the rest add up to: whole steps were not measured
    kWholeSteps,  // measured in whole steps
    kBoth,        // the layers' sum, whose saving counts as much as that of the fastest choice did in whole steps
  } by = By::kLayers;
};
const char* to_string(StepTime::By by);  // "layers"

// The same where whole steps say more than layers do: with the default a step takes step_s, with fastest_choice() step_s /
// whole_gain. `step`: as worthwhile() leaves it.
StepTime step_time(const MeasuredStep& step, const model::ConvolutionChoice& choice);

}  // namespace paceline::planner
