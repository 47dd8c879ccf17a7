// What of a worker's gradients travels to servers, as the job's codec says: the gradient from where it stands, or encoded; of
// several units that do not stand behind each other a copy in one piece.
//
// Memory: nothing is allocated per message once warm. Loop only.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "exchange/tensor_memory.h"
#include "paramserver/core/push_ledger.h"
#include "paramserver/service/sent_area.h"

namespace paceline::paramserver {

class GradientPayloads {
 public:
  // The plan outlives it.
  GradientPayloads(const job::Plan& plan, exchange::TensorMemory memory);

  // Of a push: stays as it is until the push has been delivered. Empty: the unit has no gradient.
  std::span<const std::byte> of(const wire::Push& push);
  std::span<const std::byte> of(const wire::Pushes& pushes);
  // Bytes made by a codec that packs since the last call; those of other codecs the ledger counts.
  std::int64_t take_packed_bytes() { return std::exchange(packed_bytes_, 0); }

 private:
  std::optional<std::span<const std::byte>> packed(const wire::Push& push);
  std::span<std::byte> place(std::uint32_t first, std::uint32_t last);

  const job::Plan& plan_;
  const tensor::Codec& codec_;
  exchange::TensorMemory memory_;
  std::optional<SentArea> sent_;                            // gradients as they are sent, when not as they stand
  std::map<std::uint32_t, std::vector<std::byte>> pieces_;  // on their way in one piece, by first unit
  std::vector<tensor::Range> used_;                         // scratch
  std::int64_t packed_bytes_ = 0;
};

}  // namespace paceline::paramserver
