// What the codecs of --wire do to a gradient and a value, from their definitions in plain arithmetic: for the reference and for
// tests. Shares no code with tensor/ and paramserver/.
#pragma once

#include "job/wire_options.h"

namespace paceline::training {

// The nearest number of the wire's type, of two equally near ones the even one; infinite from half a unit above the largest on.
// NaNs and infinities stay. Any thread.
float reference_rounded(const job::WireOptions& wire, float value);

// What the servers make of one element of a worker's gradient before they divide by the loss scale.
float reference_sent(const job::WireOptions& wire, float gradient);

}  // namespace paceline::training
