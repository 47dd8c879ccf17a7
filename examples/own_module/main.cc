// Trains a module and data of one's own with Paceline. Lines marked (+) are what Paceline adds to a plain LibTorch program.
//   paceline run --workers 2 --servers 1 -- ./own_module
//   paceline run --workers 2 --servers 1 -- ./own_module steps=150 checkpoint=DIR
//   paceline run --workers 2 --servers 1 -- ./own_module checkpoint=DIR resume=1
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <torch/torch.h>

#include "paceline/torch.h"  // (+)

// Learns on which side of a wavy line a point lies.
struct Network : torch::nn::Module {
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  Network() {
    hidden = register_module("hidden", torch::nn::Linear(2, 32));
    out = register_module("out", torch::nn::Linear(32, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::tanh(hidden(x))); }
};

struct Batch {
  torch::Tensor x, y;
};

Batch make_batch(std::int64_t iteration, int rank) {
  torch::manual_seed(1000 * iteration + rank);
  const torch::Tensor x = 4 * torch::rand({64, 2}) - 2;
  return {x, (x.select(1, 1) > torch::sin(2 * x.select(1, 0))).to(torch::kInt64)};
}

// NAME=VALUE of the command line, over what this program has chosen.
std::map<std::string, std::string> chosen(int count, char** arguments) {
  std::map<std::string, std::string> values{{"steps", "300"}, {"optimizer", "adam"}, {"learning-rate", "0.01"}};
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos) throw paceline::Error(argument + " is not of the form NAME=VALUE", 2);
    values[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  return values;
}

std::int64_t whole_number(const std::string& name, const std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [read, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || read != end) throw paceline::Error(name + "=" + text + " is not a whole number", 2);
  return value;
}

int main(int count, char** arguments) try {
  torch::manual_seed(7);
  Network network;
  const char* coordinator = std::getenv("PACELINE_COORDINATOR");
  const char* rank = std::getenv("PACELINE_RANK");
  const char* key = std::getenv("PACELINE_JOB_KEY_FILE");
  if (coordinator == nullptr || rank == nullptr)
    throw paceline::Error("start me with: paceline run --workers 2 --servers 1 -- ./own_module", 2);
  auto settings = chosen(count, arguments);
  const std::int64_t steps = whole_number("steps", settings.extract("steps").mapped());
  paceline::Worker worker(network, {.coordinator = coordinator,  // (+)
                                    .rank = std::atoi(rank),
                                    .settings = settings,
                                    .job_key_file = key == nullptr ? "" : key});
  double loss = 0;
  while (worker.iteration() <= steps && !worker.stopping()) {
    const Batch batch = make_batch(worker.iteration(), worker.rank());
    loss = worker.step([&] { return torch::nn::functional::cross_entropy(network.forward(batch.x), batch.y); }, 64);  // (+)
  }
  worker.synchronize();  // (+)
  const Batch test = make_batch(0, 0);
  const double accuracy = (network.forward(test.x).argmax(1) == test.y).to(torch::kFloat32).mean().item<double>();
  std::printf("worker %d of %d: loss %.3f, accuracy %.1f %%, parameters %s\n", worker.rank(), worker.workers(), loss,
              100 * accuracy, worker.parameters_hash().c_str());
  worker.finish();  // (+)
  return 0;
} catch (const paceline::Error& problem) {
  std::fprintf(stderr, "own_module: error: %s\n", problem.what());
  return problem.exit_code();
}
