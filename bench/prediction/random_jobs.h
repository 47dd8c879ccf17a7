// Jobs drawn from seeds, to set predictions beside: tables of layers whose workers compute at unequal speeds, on links that may
// differ, with every model of synchronisation, held updates, merging and all schedules but tuned. An iteration moves so many bytes
// that what a shaper lets pass at once after a pause (96 KiB, lab/script.h), which is not predicted, is a small part of them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/compute_speed.h"
#include "replay/table.h"
#include "simulation/predict.h"
#include "sync/sync_options.h"

namespace paceline::bench {

// Every host is a worker and a server.
struct RandomJob {
  std::uint64_t seed = 1;
  replay::LayerTable table;
  std::vector<BytesPerSecond> links;  // of each host
  job::ComputeSpeed speed;
  sync::SyncOptions sync;
  bool holds_updates = false;  // by --non-finite skip; --clip-norm holds them alike, but a replay's gradients have no norm
  scheduling::ScheduleOptions schedule;
  std::string schedule_name;
  Iteration iterations = 1;  // of each worker, in the mean

  int hosts() const { return static_cast<int>(links.size()); }
  std::string text() const;  // for people
};

// A seed's remainder by 4 is its model: bsp with held updates, asp, ssp, elastic-bsp. `length`: about so many seconds of computing.
RandomJob random_job(std::uint64_t seed, double length);

// What `paceline train` is told of it, whose table is in the file `table`.
std::vector<std::string> words_of(const RandomJob& job, const std::string& table);

// What a prediction is told of it.
simulation::Job job_of(const RandomJob& job);

}  // namespace paceline::bench
