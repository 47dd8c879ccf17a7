// Measures what a message costs on the links of a job before it begins: the coordinator sends the members messages of several
// sizes, several at once, and sees when they have been received. Pure: who is to be sent what comes out, deliveries go in.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "cost/link_fit.h"
#include "session/endpoint.h"

namespace paceline::runtime {

class LinkProbe {
 public:
  // So many messages of one size, to one member.
  struct Volley {
    session::PeerId to = 0;
    Bytes size;
    int messages = 0;
  };
  static constexpr std::size_t kMostMembers = 3;  // that are asked, the last of them
  static constexpr Bytes kLargest{524'288};

  explicit LinkProbe(std::vector<session::PeerId> members);

  // The next volley, which leaves now; nothing: all is measured.
  std::optional<Volley> next(TimePoint now);
  // A message of the volley has been received. True: it was the last one, and next() may be called.
  bool on_delivered(TimePoint now);

  // Of the slowest link; nothing when there was nobody to measure. Of a member whose times do not grow with the sizes, because the
  // machine did something else meanwhile, or whose largest messages took much longer than the smaller ones would have it, because
  // a shaper let these pass at once, the rate of the largest messages counts, with a residual of 1: no link must be taken for a
  // faster one.
  std::optional<cost::LinkFit> result() const { return slowest_; }

 private:
  void finish_member();

  std::vector<session::PeerId> members_;
  std::size_t member_ = 0, volley_ = 0;
  int awaited_ = 0;
  TimePoint began_{};
  Duration last_{};
  std::vector<cost::LinkSample> samples_;
  std::optional<cost::LinkFit> slowest_;
};

}  // namespace paceline::runtime
