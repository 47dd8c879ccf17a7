// What users see (paceline/collectives.h): ranks as threads, each with a communicator of its own over TCP.
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <latch>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paceline/collectives.h"
#include "ports.h"

namespace paceline {
namespace {

using testing::Ports;

constexpr LinkModel kSomeLink{.alpha = 5e-5, .beta = 8e-9, .gamma = 1e-10};

// Every rank on a thread, with what `options` says of it.
void run_ranks(int ranks, const std::function<CommunicatorOptions(int)>& options,
               const std::function<void(Communicator&, const Outcome&)>& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator all;
      const Outcome outcome = all.open(options(rank));
      work(all, outcome);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void with_ranks(int ranks, const std::function<void(Communicator&)>& work) {
  Ports ports;
  const auto addresses = ports.next(ranks);
  run_ranks(
      ranks, [&](int rank) { return CommunicatorOptions{.rank = rank, .addresses = addresses, .link = kSomeLink}; },
      [&](Communicator& all, const Outcome& opened) {
        ASSERT_TRUE(opened.ok()) << opened.message();
        work(all);
      });
}

std::vector<float> numbers(int rank, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((static_cast<std::size_t>(rank) * 7 + i) % 13);
  return values;
}

std::vector<float> sum(int ranks, std::int64_t count) {
  std::vector<float> total(static_cast<std::size_t>(count));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto next = numbers(rank, count);
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += next[i];
  }
  return total;
}

TEST(Library, EveryOperationInPlaceAndApartGivesTheRightNumbers) {
  for (const int ranks : {1, 2, 3, 5}) {
    with_ranks(ranks, [ranks](Communicator& all) {
      for (const std::int64_t count : {0, 1, 4, 30'011}) {
        const auto total = sum(ranks, count);
        const Part part = part_of(count, ranks, all.rank());
        const auto mine = [&](const std::vector<float>& whole) {
          return std::vector<float>(whole.begin() + part.first, whole.begin() + part.first + part.count);
        };
        std::vector<float> data = numbers(ranks - 1, count);
        if (all.rank() != ranks - 1) data.assign(data.size(), -1);
        EXPECT_TRUE(broadcast(all, data, {.root = ranks - 1}).ok());
        EXPECT_EQ(data, numbers(ranks - 1, count));

        const std::vector<float> input = numbers(all.rank(), count);
        std::vector<float> output(input.size(), -1), place = input;
        EXPECT_TRUE(allreduce(all, input, output).ok());
        EXPECT_EQ(output, total);
        EXPECT_TRUE(allreduce(all, place, place).ok());
        EXPECT_EQ(place, total);

        output.assign(input.size(), -1);
        EXPECT_TRUE(reduce(all, input, all.rank() == 0 ? Buffer(output) : Buffer(), {.root = 0}).ok());
        if (all.rank() == 0) {
          EXPECT_EQ(output, total);
        }

        std::vector<float> own(static_cast<std::size_t>(part.count), -1);
        EXPECT_TRUE(reduce_scatter(all, input, own).ok());
        EXPECT_EQ(own, mine(total));
        place = input;
        const Buffer in_place(place.data() + part.first, part.count, ElementType::kFloat32);
        EXPECT_TRUE(reduce_scatter(all, place, in_place).ok());
        EXPECT_EQ(mine(place), mine(total));

        std::vector<float> gathered(input.size(), -1);
        EXPECT_TRUE(allgather(all, own, gathered).ok());
        EXPECT_EQ(gathered, total);
        EXPECT_TRUE(allgather(all, in_place, place).ok());
        EXPECT_EQ(place, total);
      }
      EXPECT_TRUE(barrier(all).ok());
    });
  }
}

TEST(Library, SeveralOperationsAreInFlightAndSayHowTheyRun) {
  with_ranks(3, [](Communicator& all) {
    std::vector<std::vector<double>> values(6, std::vector<double>(5'000, 1.5));
    std::vector<Request> requests;
    for (std::size_t i = 0; i < values.size(); ++i) {
      CallOptions options{.reduction = Reduction::kMax, .priority = static_cast<int>(6 - i)};
      if (i % 2 == 0) options.algorithm = Algorithm::kRing;
      values[i][9] = static_cast<double>(i) + all.rank();
      requests.push_back(start_allreduce(all, values[i], values[i], options));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Outcome outcome = requests[i].wait();
      ASSERT_TRUE(outcome.ok()) << outcome.message();
      EXPECT_TRUE(requests[i].done());
      EXPECT_EQ(values[i][9], static_cast<double>(i) + 2);
      if (i % 2 == 0) {
        EXPECT_EQ(requests[i].choice().rfind("ring, predicted ", 0), 0) << requests[i].choice();
      }
    }
  });
}

TEST(Library, ThreadsWithAGroupEachWorkAtTheSameTime) {
  with_ranks(3, [](Communicator& all) {
    std::vector<Communicator> groups(3);
    for (int i = 0; i < 3; ++i) {
      const Outcome opened = groups[static_cast<std::size_t>(i)].open_group(all, i + 1, {0, 1, 2});
      ASSERT_TRUE(opened.ok()) << opened.message();
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([i, &group = groups[static_cast<std::size_t>(i)]] {
        for (int round = 0; round < 30; ++round) {
          std::vector<std::int32_t> values(static_cast<std::size_t>(1 + 3000 * (round % 3)), i + round);
          const Outcome outcome = allreduce(group, values, values);
          ASSERT_TRUE(outcome.ok()) << outcome.message();
          EXPECT_EQ(values.back(), 3 * (i + round));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(barrier(all).ok());
  });
}

TEST(Library, RanksMeetAtACoordinatorAndMeasureTheirLinks) {
  for (const int ranks : {1, 4}) {
    Ports ports;
    const std::string coordinator = ports.next();
    std::array<LinkModel, 4> links;
    run_ranks(
        ranks, [&](int rank) { return CommunicatorOptions{.rank = rank, .coordinator = coordinator, .ranks = ranks}; },
        [&](Communicator& all, const Outcome& opened) {
          ASSERT_TRUE(opened.ok()) << opened.message();
          EXPECT_EQ(all.size(), ranks);
          links[static_cast<std::size_t>(all.rank())] = all.links();
          std::int32_t value = all.rank();
          const Buffer buffer(&value, 1, ElementType::kInt32);
          EXPECT_TRUE(allreduce(all, buffer, buffer).ok());
          EXPECT_EQ(value, ranks * (ranks - 1) / 2);
        });
    for (int rank = 1; rank < ranks; ++rank) {  // bit for bit, or they would choose differently
      EXPECT_EQ(links[static_cast<std::size_t>(rank)].alpha, links[0].alpha);
      EXPECT_EQ(links[static_cast<std::size_t>(rank)].beta, links[0].beta);
      EXPECT_EQ(links[static_cast<std::size_t>(rank)].gamma, links[0].gamma);
    }
    EXPECT_GT(links[0].beta, 0);
  }
}

TEST(Library, ACallThatMakesNoSenseIsRefusedBeforeAnythingBeginsAndHarmsNobody) {
  std::latch seen_in_flight(1);
  with_ranks(2, [&](Communicator& all) {
    std::vector<float> memory(64);
    const auto refused = [&](Request request, const std::string& words) {
      const Outcome outcome = request.wait();
      EXPECT_EQ(outcome.kind(), Outcome::Kind::kBadRequest) << words;
      EXPECT_NE(outcome.message().find(words), std::string::npos) << outcome.message();
      EXPECT_TRUE(request.done());
      EXPECT_EQ(request.choice(), "");
    };
    const auto at = [&](std::int64_t offset, std::int64_t count) {
      return Buffer(reinterpret_cast<std::byte*>(memory.data()) + offset, count, ElementType::kFloat32);
    };
    refused(start_broadcast(all, at(0, 8), {.root = 2}), "root 2 is no rank of the group; legal: 0 to 1");
    refused(start_reduce(all, at(0, 8), at(0, 8), {.root = -1}), "root -1 is no rank");
    refused(start_allreduce(all, ConstBuffer(nullptr, 8, ElementType::kFloat32), at(0, 8)), "the input is null");
    refused(start_broadcast(all, Buffer(nullptr, 8, ElementType::kFloat32)), "the output is null");
    refused(start_allreduce(all, at(2, 8), at(64, 8)), "not aligned to the 4 bytes of float32");
    refused(start_allreduce(all, at(0, 8), at(16, 8)), "input and output overlap");
    refused(start_allreduce(all, at(0, 8), at(64, 7)), "an input of 8 elements and an output of 7");
    refused(start_broadcast(all, at(0, -1)), "-1 elements");
    refused(start_reduce_scatter(all, at(0, 9), at(64, 9)), "the output has 9 elements; the part of rank");
    refused(start_allgather(all, at(0, 9), at(64, 9)), "the input has 9 elements; the part of rank");
    refused(start_allreduce(all, ConstBuffer(memory.data(), 8, ElementType::kInt32), at(0, 8)), "different element types");
    const Buffer whole(memory.data(), 8, ElementType::kInt32);
    refused(start_allreduce(all, whole, whole, {.reduction = Reduction::kMean}), "the mean of int32");
    const Buffer odd(memory.data(), 8, static_cast<ElementType>(5));
    refused(start_broadcast(all, odd), "5 is no element type; legal: 0 to 4");
    refused(start_allreduce(all, at(0, 8), at(0, 8), {.reduction = static_cast<Reduction>(4)}), "4 is no reduction");
    refused(start_allreduce(all, at(0, 8), at(0, 8), {.algorithm = static_cast<Algorithm>(5)}), "5 is no algorithm");
    refused(start_broadcast(all, at(0, 8), {.algorithm = Algorithm::kRing}), "broadcast cannot run by ring; legal: lp, mst, be");
    refused(start_broadcast(all, at(0, 8), {.block_bytes = 0}), "a block of 0 bytes; at least 1 is needed");
    refused(start_broadcast(all, at(0, 8), {.priority = -1}), "priority -1");
    // Rank 0 waits for what rank 1 sends, and rank 1 sends once rank 0 has seen that its operation is in flight.
    if (all.rank() == 1) seen_in_flight.wait();
    Request clipped = start_broadcast(all, at(0, 8), {.root = 1, .algorithm = Algorithm::kLinearPipeline, .block_bytes = 1000});
    EXPECT_NE(clipped.choice().find("blocks of 32 bytes (all of the message"), std::string::npos) << clipped.choice();
    if (all.rank() == 0) {
      refused(start_broadcast(all, at(28, 8)), "still used by an operation in flight");
      seen_in_flight.count_down();
    }
    EXPECT_TRUE(clipped.wait().ok());
    std::thread([&] { EXPECT_TRUE(barrier(all).ok()) << "another thread may use it"; }).join();
    Communicator closed, group;
    refused(start_barrier(closed), "the communicator is not open");
    EXPECT_NE(all.open({}).message().find("open already"), std::string::npos);
    EXPECT_NE(group.open_group(all, 0, {0, 1}).message().find("group 0 cannot be; legal: 1 and more"), std::string::npos);
    EXPECT_NE(group.open_group(all, 1, {0, 2}).message().find("rank 2 of group 1 is no rank"), std::string::npos);
    EXPECT_NE(group.open_group(closed, 1, {0}).message().find("not open"), std::string::npos);
    Communicator again;
    EXPECT_EQ(group.open_group(all, 1, {0, 1}).message(), "") << "what was refused before had used nothing";
    EXPECT_NE(again.open_group(all, 1, {0, 1}).message().find("group 1 was made before"), std::string::npos);
    EXPECT_TRUE(barrier(all).ok());
  });
}

TEST(Library, OfARankThatIsNoneThePartIsEmpty) {
  const Communicator closed;
  for (const Part part : {part_of(10, closed.size(), closed.rank()), part_of(10, 0, 0), part_of(10, 2, 2), part_of(-1, 2, 0)}) {
    EXPECT_EQ(part.first, 0);
    EXPECT_EQ(part.count, 0);
  }
  EXPECT_EQ(part_of(10, 3, 2).count, 3);
}

TEST(Library, InAChildOfForkACommunicatorIsRefusedAndGoesWithoutWaitingAndTheParentKeepsIts) {
  with_ranks(2, [](Communicator& all) {
    std::vector<float> memory(64, 1);
    Request pending = start_allreduce(all, memory, memory);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // instead of a hang, which is what this test is about
      bool refused = pending.wait().kind() == Outcome::Kind::kBadRequest && barrier(all).kind() == Outcome::Kind::kBadRequest;
      Communicator group;
      refused = refused && group.open_group(all, 1, {0, 1}).kind() == Outcome::Kind::kBadRequest;
      { const Request gone = std::move(pending); }
      { const Communicator gone = std::move(all); }
      _exit(refused ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(pending.wait().ok());
    EXPECT_EQ(memory, std::vector<float>(64, 2));
    EXPECT_TRUE(barrier(all).ok());
  });
}

TEST(Library, WithoutConfirmationSumsAreTheSameAndRanksThatDifferAboutItAreRefused) {
  Ports ports;
  for (const int differs : {-1, 1}) {
    const auto addresses = ports.next(3);
    run_ranks(
        3,
        [&](int rank) {
          return CommunicatorOptions{.rank = rank, .addresses = addresses, .confirm = rank == differs, .link = kSomeLink};
        },
        [&](Communicator& all, const Outcome& opened) {
          EXPECT_EQ(opened.ok(), differs < 0) << opened.message();
          if (!opened.ok()) {
            EXPECT_NE(opened.message().find("different values of confirm"), std::string::npos) << opened.message();
            return;
          }
          std::vector<float> memory(2'000, 1.0F + static_cast<float>(all.rank()));
          EXPECT_TRUE(reduce(all, memory, memory).ok());
          EXPECT_TRUE(broadcast(all, memory).ok());
          EXPECT_EQ(memory, std::vector<float>(2'000, 6.0F));
        });
  }
}

TEST(Library, CountsThatDifferFailAllRanksWithTheSameWordsAndTheCommunicatorStaysOfNoUse) {
  Ports ports;
  const auto addresses = ports.next(3);
  std::mutex mutex;
  std::vector<std::string> words;
  const auto note = [&](const Outcome& outcome) {
    const std::lock_guard lock(mutex);
    words.push_back(outcome.message());
  };
  run_ranks(
      3, [&](int rank) { return CommunicatorOptions{.rank = rank, .addresses = addresses, .link = kSomeLink}; },
      [&](Communicator& all, const Outcome& opened) {
        if (!opened.ok()) {  // the others were faster, and their disagreement has reached this one within open()
          return note(opened);
        }
        std::vector<float> memory(2'000, 1.0F);
        const Buffer buffer(memory.data(), all.rank() == 1 ? 1'999 : 2'000, ElementType::kFloat32);
        const Outcome outcome = allreduce(all, buffer, buffer);
        EXPECT_EQ(outcome.kind(), Outcome::Kind::kBadRequest) << outcome.message();
        EXPECT_NE(outcome.message().find("allreduce (sum) of 1999 float32"), std::string::npos) << outcome.message();
        EXPECT_EQ(barrier(all).message(), outcome.message());
        EXPECT_EQ(allreduce(all, buffer, buffer).message(), outcome.message());
        note(outcome);
      });
  ASSERT_EQ(words.size(), 3U);
  EXPECT_EQ(words[0], words[1]);
  EXPECT_EQ(words[0], words[2]);
}

TEST(Library, BlocksThatDifferFailAllRanksWithTheSameWords) {
  Ports ports;
  for (const int differs : {0, 1, 2}) {
    const auto addresses = ports.next(3);
    std::mutex mutex;
    std::vector<std::string> words;
    run_ranks(
        3, [&](int rank) { return CommunicatorOptions{.rank = rank, .addresses = addresses, .link = kSomeLink}; },
        [&](Communicator& all, const Outcome& opened) {
          std::vector<float> memory(100'000, 1.0F);
          const CallOptions options{.algorithm = Algorithm::kLinearPipeline,
                                    .block_bytes = all.rank() == differs ? 10'000 : 30'000};
          const Outcome outcome = opened.ok() ? broadcast(all, memory, options) : opened;
          EXPECT_EQ(outcome.kind(), Outcome::Kind::kBadRequest) << outcome.message();
          EXPECT_NE(outcome.message().find("disagree on operation 1, broadcast"), std::string::npos) << outcome.message();
          EXPECT_NE(outcome.message().find("block_bytes"), std::string::npos) << outcome.message();
          const std::lock_guard lock(mutex);
          words.push_back(outcome.message());
        });
    ASSERT_EQ(words.size(), 3U);
    EXPECT_EQ(words[0], words[1]);
    EXPECT_EQ(words[0], words[2]);
  }
}

TEST(Library, OptionsThatMakeNoSenseAreRefusedByName) {
  const auto refused = [](const CommunicatorOptions& options, const std::string& words) {
    Communicator all;
    const Outcome outcome = all.open(options);
    EXPECT_EQ(outcome.kind(), Outcome::Kind::kBadRequest) << words;
    EXPECT_NE(outcome.message().find(words), std::string::npos) << outcome.message();
    EXPECT_FALSE(all.is_open());
  };
  refused({}, "not neither");
  refused({.addresses = {"127.0.0.1:1"}, .coordinator = "127.0.0.1:1"}, "not both");
  refused({.rank = 2, .addresses = {"127.0.0.1:1", "127.0.0.1:2"}}, "rank 2 is none of the 2 ranks; legal: 0 to 1");
  refused({.rank = 0, .addresses = {"127.0.0.1:1", "127.0.0.1:1"}}, "ranks 0 and 1 have the same address");
  refused({.rank = 0, .addresses = {"127.0.0.1:1", "here"}}, "here");
  refused({.rank = 0, .coordinator = "127.0.0.1:0", .ranks = 2}, "port 0");
  refused({.rank = 0, .coordinator = "127.0.0.1:1", .ranks = 0}, "0 ranks");
  refused({.rank = 0, .addresses = {"127.0.0.1:1"}, .ranks = 2}, "2 ranks, but 1 addresses");
  refused({.rank = 0, .addresses = {"127.0.0.1:1"}, .stall_seconds = 0}, "stall_seconds is 0");
  refused({.rank = 0, .addresses = {"127.0.0.1:1"}, .link = LinkModel{.beta = NAN}}, "link has a constant of nan");
}

TEST(Library, RanksThatDoNotBelongTogetherSaySo) {
  Ports ports;
  const auto addresses = ports.next(3);
  // Another list.
  std::atomic<int> refused = 0;
  run_ranks(
      2,
      [&](int rank) {
        CommunicatorOptions options{.rank = rank, .addresses = {addresses[0], addresses[1]}, .connect_seconds = 3};
        if (rank == 1) options.addresses.push_back(addresses[2]);
        return options;
      },
      [&](Communicator&, const Outcome& opened) {
        EXPECT_FALSE(opened.ok());
        if (opened.message().find("belongs to job") != std::string::npos) ++refused;
      });
  EXPECT_EQ(refused, 1);
  // Another number of ranks.
  const std::string coordinator = ports.next();
  run_ranks(
      2,
      [&](int rank) {
        return CommunicatorOptions{.rank = rank, .coordinator = coordinator, .ranks = rank == 0 ? 2 : 3, .connect_seconds = 20};
      },
      [&](Communicator&, const Outcome& opened) {
        EXPECT_EQ(opened.kind(), Outcome::Kind::kBadRequest);
        EXPECT_NE(opened.message().find("rank 1 expects 3 ranks, rank 0 expects 2"), std::string::npos) << opened.message();
      });
  // Another order of sums.
  const auto others = ports.next(2);
  run_ranks(
      2,
      [&](int rank) { return CommunicatorOptions{.rank = rank, .addresses = others, .rank_order = rank == 0, .link = kSomeLink}; },
      [&](Communicator&, const Outcome& opened) {
        EXPECT_EQ(opened.kind(), Outcome::Kind::kBadRequest);
        EXPECT_NE(opened.message().find("different values of rank_order"), std::string::npos) << opened.message();
      });
}

TEST(Library, WhoDoesNotComeIsNamed) {
  Ports ports;
  const auto addresses = ports.next(3);
  run_ranks(
      1, [&](int) { return CommunicatorOptions{.rank = 0, .addresses = addresses, .connect_seconds = 0.2}; },
      [&](Communicator&, const Outcome& opened) {
        EXPECT_EQ(opened.kind(), Outcome::Kind::kDeadline);
        EXPECT_NE(opened.message().find("of 3 ranks ranks 1, 2 did not come"), std::string::npos) << opened.message();
      });
}

TEST(Library, ARankThatLeavesEarlyIsNamedToWhoeverWaitsForIt) {
  Ports ports;
  const auto addresses = ports.next(2);
  run_ranks(
      2, [&](int rank) { return CommunicatorOptions{.rank = rank, .addresses = addresses, .link = kSomeLink}; },
      [&](Communicator& all, const Outcome& opened) {
        ASSERT_TRUE(opened.ok()) << opened.message();
        if (all.rank() == 1) return;
        std::vector<float> memory(1'000'000);
        const Outcome outcome = allreduce(all, memory, memory);
        EXPECT_FALSE(outcome.ok());
        EXPECT_NE(outcome.message().find("worker 1"), std::string::npos) << outcome.message();
      });
}

}  // namespace
}  // namespace paceline
