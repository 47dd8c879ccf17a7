// Trains your own torch::nn::Module with many workers. What a user of LibTorch adds to a training program:
//
//   paceline::Worker worker(model, {.coordinator = "10.0.0.1:4100", .settings = {{"learning-rate", "0.05"}}});
//   for (int i = 0; i < 100; ++i) {
//     auto [x, y] = batch(worker.iteration(), worker.rank(), worker.workers());
//     worker.step([&] { return torch::cross_entropy_loss(model.forward(x), y); });
//   }
//   worker.finish();
//
// `paceline run --workers 4 --servers 2 -- PROGRAM` starts coordinator, servers and four processes of PROGRAM on this machine, with
// the coordinator's address in the environment variable PACELINE_COORDINATOR, the rank in PACELINE_RANK and where the job's key is,
// if it has one, in PACELINE_JOB_KEY_FILE. On several machines add `--hosts node1,node2`, or start `paceline coordinator`, servers
// (`paceline train --join`) and the programs yourself.
//
// The module keeps its parameters, but they live in one array from now on. After this call do not use an optimizer or a tensor that
// you took from the module earlier. Gradients are not left in the parameters. Every worker must bring the same module and settings;
// the first difference is named otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace paceline {

// Why the job cannot go on, in one sentence that names who, what and where.
class Error : public std::runtime_error {
 public:
  Error(const std::string& message, int exit_code) : std::runtime_error(message), exit_code_(exit_code) {}
  // 2: the request was wrong (workers that disagree, an option); 130: interrupted; 1: it failed while running.
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

struct WorkerOptions {
  std::string coordinator;  // HOST:PORT
  int rank = -1;            // -1: the coordinator chooses
  // By the names of `paceline train --help`: optimizer, learning-rate, momentum, weight-decay, clip-norm, schedule, sync, seed,
  // deadline, ...
  std::map<std::string, std::string> settings;
  std::string job_key_file;       // of the job; what PACELINE_JOB_KEY_FILE says under `paceline run`; "": none
  std::string security = "auto";  // or "psk", "tls", "none", as --security; "psk,clear-data": with --allow-clear-data
  // One forward pass, to learn in which order the layers are used. Without it: the order of registration.
  std::function<void()> dry_run;
};

// One thread.
class Worker {
 public:
  // Joins the job and returns when all are there and the module holds rank 0's parameters. `module` outlives the worker. Throws
  // Error.
  Worker(torch::nn::Module& module, const WorkerOptions& options);
  ~Worker();  // leaves; without finish() the job fails for all
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int rank() const;  // 0 .. workers() - 1
  int workers() const;
  std::int64_t iteration() const;  // that the next step trains, from 1

  // One iteration: calls `loss` once, which computes the forward pass (each layer waits only for its own parameters), runs
  // backward, and sends each gradient as soon as it is finished. Returns the loss. `samples` is for the report. Throws Error.
  double step(const std::function<torch::Tensor()>& loss, std::int64_t samples = 0);
  // Somebody asked the job to end (Ctrl-C): the last step was the last one.
  bool stopping() const;

  // Waits until the parameters hold the updates of all steps so far: before an evaluation or a checkpoint of your own. Throws
  // Error.
  void synchronize();
  // XXH3-128 of the parameters in forward order; after synchronize() the same on every worker.
  std::string parameters_hash();
  // Synchronises, reports, and returns when the job is over for everybody. Throws Error when it failed.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline
