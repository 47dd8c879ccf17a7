// A message leaves a ledger, without its payload, which whoever carries it asks of memory. A plain value.
#pragma once

#include "base/quantity.h"
#include "wire/messages.h"

namespace paceline::paramserver {

struct Send {
  Rank to;            // at the other end of the message's channel
  bool kept = false;  // from a server: with the kept values of its units (Keep), not those of now
  wire::Message message;
};

}  // namespace paceline::paramserver
