// Averages an array over some processes, one of which is started by
//   collectives RANK HOST:PORT HOST:PORT ...     the addresses of all ranks, in their order
//   collectives RANK of RANKS HOST:PORT          the address of rank 0, who tells the others of each other
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "paceline/collectives.h"

namespace {

int fail(const paceline::Outcome& outcome) {
  std::fprintf(stderr, "collectives: error: %s\n", outcome.message().c_str());
  return outcome.kind() == paceline::Outcome::Kind::kBadRequest ? 2 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: collectives RANK HOST:PORT ... | collectives RANK of RANKS HOST:PORT\n");
    return 2;
  }
  paceline::CommunicatorOptions options{.rank = std::atoi(arguments[1]), .silence_seconds = 2};
  if (count == 5 && std::string(arguments[2]) == "of") {
    options.ranks = std::atoi(arguments[3]);
    options.coordinator = arguments[4];
  } else {
    options.addresses.assign(arguments + 2, arguments + count);
  }
  paceline::Communicator all;
  if (const auto outcome = all.open(options); !outcome.ok()) return fail(outcome);

  // The mean of every rank's numbers, while the root's greeting travels.
  std::vector<float> numbers(1'000'000, static_cast<float>(all.rank() + 1));
  std::vector<std::int32_t> greeting(4, all.rank() == 0 ? 42 : 0);
  paceline::Request averaging = paceline::start_allreduce(all, numbers, numbers, {.reduction = paceline::Reduction::kMean});
  paceline::Request greeted = paceline::start_broadcast(all, greeting, {.root = 0, .priority = 0});
  if (const auto outcome = greeted.wait(); !outcome.ok()) return fail(outcome);
  if (const auto outcome = averaging.wait(); !outcome.ok()) return fail(outcome);
  const std::string how = averaging.choice();

  // Even ranks among themselves.
  std::vector<int> even;
  for (int rank = 0; rank < all.size(); rank += 2) even.push_back(rank);
  double largest = all.rank();
  if (all.rank() % 2 == 0) {
    paceline::Communicator group;
    if (const auto outcome = group.open_group(all, 1, even); !outcome.ok()) return fail(outcome);
    const paceline::Buffer value(&largest, 1, paceline::ElementType::kFloat64);
    if (const auto outcome = paceline::allreduce(group, value, value, {.reduction = paceline::Reduction::kMax}); !outcome.ok())
      return fail(outcome);
  }
  if (const auto outcome = paceline::barrier(all); !outcome.ok()) return fail(outcome);
  const paceline::LinkModel links = all.links();
  std::printf("rank %d of %d: mean %g, greeting %d, largest %g; %s; alpha %.3g s, beta %.3g s/B, gamma %.3g s/B, residual %.2g\n",
              all.rank(), all.size(), static_cast<double>(numbers[999'999]), greeting[3], largest, how.c_str(), links.alpha,
              links.beta, links.gamma, links.residual);
  return 0;
}
