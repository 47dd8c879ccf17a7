// What the coordinator gathers for `--trace`: the processes' clocks, by asking each of them now and then, and at the end what they
// have recorded. Pure but for write(). Belongs to the coordinator's loop; write() comes after it.
#pragma once

#include <map>
#include <string>

#include "base/files.h"
#include "job/spec.h"
#include "report/report.h"
#include "session/endpoint.h"
#include "timeline/round_trips.h"
#include "wire/control.h"

namespace paceline::timeline {

class TimelineCollector {
 public:
  static constexpr Duration kAskEvery = std::chrono::milliseconds(250);
  // Asked one right after the other, of which the quickest answer counts.
  static constexpr int kFirstQuestions = 16, kQuestions = 4;

  // The job that has been agreed on.
  void begin(job::JobSpec spec, wire::TensorTable table, std::int32_t workers, std::int32_t servers);

  // Begins to ask `peer`: the number of the question that is to be sent now. Nothing while one is open.
  std::optional<std::uint32_t> ask(session::PeerId peer, TimePoint now);
  // The answer; perhaps the next question.
  std::optional<std::uint32_t> on_reading(session::PeerId peer, std::uint32_t question, const wire::ClockReading& reading,
                                          TimePoint now);
  void on_part(session::PeerId peer, const wire::PeerName& name, wire::TimelinePart part);

  // Whether there is anything to write.
  bool empty() const { return parts_.empty(); }
  // Writes the file: under another name first, then renamed. What the report says of it; errors: kIo, and nothing is left behind.
  Result<report::Json> write(Files& files, const std::string& path) const;

 private:
  struct Clock {
    timeline::ClockAlignment alignment;
    std::optional<timeline::ClockSample> best;  // of the questions in a row
    std::uint32_t question = 0;                 // the last one
    int left = 0;                               // to be asked in this row; 0: none is open
    TimePoint sent{};
    bool known = false;  // has been asked before
  };
  struct Parts {
    wire::PeerName name;
    std::vector<wire::TimelinePart> parts;
  };

  job::JobSpec spec_;
  wire::TensorTable table_;
  std::int32_t workers_ = 0, servers_ = 0;
  std::map<session::PeerId, Clock> clocks_;
  std::map<session::PeerId, Parts> parts_;
};

}  // namespace paceline::timeline
