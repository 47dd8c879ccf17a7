#include "transport/faulty/fault_plan.h"

namespace paceline::transport {

FaultPlan::FaultPlan(const FaultOptions& options) : options_(options), state_(options.seed) {
  for (const double chance : {options.delay, options.reorder, options.cut_before, options.cut_inside, options.cut_after,
                              options.corrupt_head, options.corrupt_payload, options.duplicate_connect}) {
    PACELINE_CHECK(chance >= 0 && chance <= 1, "a chance of {}", chance);
  }
  PACELINE_CHECK(options.longest_delay > Duration::zero(), "a longest delay of {} ns", options.longest_delay.count());
}

// SplitMix64 (Steele, Lea and Flood, 2014): the same numbers on every machine, unlike the distributions of <random>.
std::uint64_t FaultPlan::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

bool FaultPlan::happens(double chance) { return static_cast<double>(next() >> 11) * 0x1p-53 < chance; }

Fate FaultPlan::draw(std::size_t head_bytes, std::size_t payload_bytes) {
  Fate fate;
  if (frames_++ < options_.first_faults_after) return fate;
  if (happens(options_.delay)) fate.delay = Duration(1 + below(static_cast<std::size_t>(options_.longest_delay.count())));
  fate.wait_for_others = happens(options_.reorder);
  if (happens(options_.corrupt_head)) fate.flip_head = below(8 * head_bytes);
  if (happens(options_.corrupt_payload) && payload_bytes > 0) fate.flip_payload = below(8 * payload_bytes);
  if (happens(options_.cut_before)) {
    fate.cut = Fate::Cut::kBefore;
  } else if (happens(options_.cut_inside)) {
    fate.cut = Fate::Cut::kInside;
    fate.cut_at = 1 + below(head_bytes + payload_bytes - 1);
  } else if (happens(options_.cut_after)) {
    fate.cut = Fate::Cut::kAfter;
  }
  return fate;
}

bool FaultPlan::draw_duplicate_connect() { return frames_ >= options_.first_faults_after && happens(options_.duplicate_connect); }

}  // namespace paceline::transport
