// Where a worker receives the values that servers send: straight into the parameters; or, while backward may still read these, or
// where they have to be decoded (job::Plan::value_codec), into a staging area as large as the model; or, when values that come as
// one message do not stand behind each other, in one piece that is dealt out. The staging area is touched only when used.
//
// Threads: the loop; move() and round() any, of units that nobody receives. Memory: nothing is allocated per message once warm.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "exchange/tensor_memory.h"
#include "paramserver/core/push_ledger.h"
#include "paramserver/service/sent_area.h"

namespace paceline::paramserver {

class ValuePlaces {
 public:
  using Place = PushLedger::Place;

  // The plan and the ledger outlive it.
  ValuePlaces(const job::Plan& plan, const PushLedger& ledger, exchange::TensorMemory memory);

  // For values that begin to come.
  std::span<std::byte> begin(const wire::Values& values, Place place);
  // They are there: those for the parameters are moved there if they are not.
  void complete(const wire::Values& values, std::span<const std::byte> payload);
  // From the staging area into the parameters.
  void move(std::uint32_t unit) const;
  // The unit's parameters become what their servers send of them.
  void round(std::uint32_t unit) const;

 private:
  // What is to be done with values when they are complete.
  struct Arriving {
    bool deal = false;  // in the places of its units: `staged` or not
    bool staged = false;
    bool move = false;  // from the staging area
  };

  std::span<std::byte> place_of(std::uint32_t first, std::uint32_t last, bool staged) const;

  const job::Plan& plan_;
  const tensor::Codec& codec_;  // of all values but the initial ones, which come before backward, so never into the staging area
  const PushLedger& ledger_;
  exchange::TensorMemory memory_;
  SentArea staging_;
  std::vector<Arriving> arriving_;                       // by the first unit
  std::map<std::uint32_t, std::vector<float>> parcels_;  // by the first unit: memory of what is to be dealt out
};

}  // namespace paceline::paramserver
