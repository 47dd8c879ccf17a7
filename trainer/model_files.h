// What a worker reads and writes of checkpoints, its buffers (BatchNorm's statistics), and the model that rank 0 exports. Training
// thread.
#pragma once

#include "runtime/worker_process.h"
#include "trainer/data/dataset.h"
#include "trainer/module_adapter.h"

namespace paceline::trainer {

// When a checkpoint is due after `iteration`, which it is always after the job's last one, writes this worker's part, tells the
// coordinator, and returns true. A part that cannot be written only makes the checkpoint void.
enum class Place { kMiddle, kLast };
bool save_part_if_due(runtime::WorkerProcess& process, const ModuleAdapter& adapter, Iteration iteration, Place place);

// A job that goes on: the buffers become those of the checkpoint. Errors: kCorrupt, kIo, kBadRequest naming file and buffer.
Status restore_part(const runtime::WorkerProcess& process, const ModuleAdapter& adapter);

// Parameters and buffers in the safetensors format, and with them how the input is made of a picture and which class is which.
// Errors: kIo naming the file, kBadRequest for a buffer of a strange dtype.
Status export_model(const std::string& path, ModuleAdapter& adapter, const job::JobSpec& settings, const data::DatasetPair& data);

}  // namespace paceline::trainer
