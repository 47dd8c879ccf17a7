#include "runtime/checkpoint.h"

#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "runtime/checkpoint_keeper.h"
#include "runtime/saved_model.h"
#include "runtime/testing_files.h"

namespace paceline::runtime {
namespace {

using ::testing::HasSubstr;
using testing::MemoryFiles;

constexpr const char* kDirectory = "/runs/a";
constexpr std::int64_t kElements = 60;  // of the arena below

wire::TensorTable table() {
  wire::TensorTable table;
  table.layers = {"conv", "fc"};
  table.tensors = {{"conv.weight", "float32", {2, 10}, Layer{0}, 0},
                   {"fc.weight", "float32", {4, 9}, Layer{1}, 0},
                   {"fc.bias", "float32", {4}, Layer{1}, 0}};
  return table;
}

wire::Settings settings() {
  JobSettings job;
  job.optimizer = "adam";
  job.checkpoint = kDirectory;
  return to_settings(job);
}

// What the model is after `iteration`: plane 0 the values, 1 and 2 the optimizer state.
float number_at(Iteration iteration, std::int64_t plane, std::int64_t element) {
  return static_cast<float>(iteration * 1000 + plane * 100 + element) + 0.25F;
}

struct Range {
  std::int64_t offset, elements;
};

Result<PartSummary> write_server(Files& files, std::int32_t rank, Iteration iteration, const std::vector<Range>& ranges) {
  PartHead head{"server", rank, iteration, "", {}};
  std::vector<std::vector<float>> numbers;
  std::vector<std::span<const std::byte>> contents;
  for (const Range& range : ranges) {
    std::vector<float> all;
    for (std::int64_t plane = 0; plane < 3; ++plane) {
      for (std::int64_t i = 0; i < range.elements; ++i) all.push_back(number_at(iteration, plane, range.offset + i));
    }
    numbers.push_back(std::move(all));
    head.arrays.push_back({.name = fmt::format("at{}", range.offset),
                           .offset = range.offset,
                           .elements = range.elements,
                           .planes = 2,
                           .steps = iteration});
  }
  for (const auto& all : numbers) contents.push_back(std::as_bytes(std::span(all)));
  return write_part(files, kDirectory, head, contents);
}

Result<PartSummary> write_worker(Files& files, std::int32_t rank, Iteration iteration) {
  const std::int64_t count = 7 * iteration + rank;
  PartHead head{
      "worker", rank, iteration, "torch 2.13", {{.name = "bn.num_batches_tracked", .dtype = "int64", .shape = {}, .elements = 1}}};
  return write_part(files, kDirectory, head, {std::as_bytes(std::span(&count, 1))});
}

const std::vector<std::vector<Range>> kTwoServers = {{{0, 20}, {56, 4}}, {{20, 36}}};

// What servers and workers and the coordinator do for one checkpoint; stops at the first failure, as a job would void it.
Status save(Files& files, Iteration iteration, std::int32_t workers = 2,
            const std::vector<std::vector<Range>>& servers = kTwoServers) {
  Manifest manifest{iteration, "0.1.0", workers, static_cast<std::int32_t>(servers.size()), settings(), table(), {}};
  for (std::size_t rank = 0; rank < servers.size(); ++rank) {
    PACELINE_ASSIGN_OR_RETURN(PartSummary part, write_server(files, static_cast<std::int32_t>(rank), iteration, servers[rank]));
    manifest.parts.push_back(std::move(part));
  }
  for (std::int32_t rank = 0; rank < workers; ++rank) {
    PACELINE_ASSIGN_OR_RETURN(PartSummary part, write_worker(files, rank, iteration));
    manifest.parts.push_back(std::move(part));
  }
  PACELINE_RETURN_IF_ERROR(write_manifest(files, kDirectory, manifest));
  return prune_checkpoints(files, kDirectory, 2);
}

// The iteration whose checkpoint would be resumed, after checking that it loads with exactly its values; 0 for none.
Iteration loadable(Files& files) {
  const auto found = newest_good_checkpoint(files, kDirectory);
  if (!found.ok()) return 0;
  auto model = SavedModel::open(files, found->folder);
  if (!model.ok()) return -1;
  std::vector<float> value(kElements), state(2 * kElements);
  const auto steps = model->read(0, value, state);
  const Iteration iteration = found->manifest.iteration;
  if (!steps.ok() || *steps != iteration) return -1;
  for (std::int64_t i = 0; i < kElements; ++i) {
    for (std::int64_t plane = 0; plane < 3; ++plane) {
      const float got =
          plane == 0 ? value[static_cast<std::size_t>(i)] : state[static_cast<std::size_t>((plane - 1) * kElements + i)];
      if (got != number_at(iteration, plane, i)) return -1;
    }
  }
  return iteration;
}

TEST(Checkpoint, IsReadBackWithEveryBit) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  EXPECT_EQ(loadable(files), 10);
  const auto found = newest_good_checkpoint(files, kDirectory);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->manifest.table, table());
  EXPECT_EQ(found->manifest.settings, settings());
  EXPECT_EQ(parse_manifest(to_text(found->manifest), "x").value(), found->manifest);
  EXPECT_THAT(found->warnings, ::testing::IsEmpty());
  const auto worker = PartReader::open(files, found->folder + "/worker-1.bin");
  ASSERT_TRUE(worker.ok()) << worker.status().message();
  std::int64_t count = 0;
  ASSERT_TRUE(worker->read(0, std::as_writable_bytes(std::span(&count, 1))).ok());
  EXPECT_EQ(count, 71);
  EXPECT_EQ(worker->head().fingerprint, "torch 2.13");
}

TEST(Checkpoint, AnyRangeOfTheModelIsReadWhateverRangesItWasSavedIn) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    MemoryFiles files;
    std::vector<std::vector<Range>> servers(1 + random() % 4);
    for (std::int64_t at = 0; at < kElements;) {
      const std::int64_t elements = std::min<std::int64_t>(kElements - at, 1 + random() % 25);
      servers[random() % servers.size()].push_back({at, elements});
      at += elements;
    }
    ASSERT_TRUE(save(files, 5, 1, servers).ok());
    ASSERT_EQ(loadable(files), 5);
    auto model = SavedModel::open(files, checkpoint_folder(kDirectory, 5));
    ASSERT_TRUE(model.ok());
    for (int i = 0; i < 20; ++i) {
      const std::int64_t offset = random() % kElements,
                         elements = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(kElements - offset));
      const std::int64_t planes = random() % 2 == 0 ? 2 : 0;
      std::vector<float> value(static_cast<std::size_t>(elements)), state(static_cast<std::size_t>(planes * elements));
      ASSERT_EQ(model->read(offset, value, state).value(), 5);
      for (std::int64_t j = 0; j < elements; ++j) {
        ASSERT_EQ(value[static_cast<std::size_t>(j)], number_at(5, 0, offset + j));
        for (std::int64_t p = 0; p < planes; ++p)
          ASSERT_EQ(state[static_cast<std::size_t>(p * elements + j)], number_at(5, p + 1, offset + j));
      }
    }
  }
}

TEST(Checkpoint, EveryFlippedByteOfEveryFileIsFoundAndThePreviousOneTaken) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  ASSERT_TRUE(save(files, 20).ok());
  const std::string newest = checkpoint_folder(kDirectory, 20);
  int flips = 0;
  for (auto& [path, content] : files.files) {
    if (!path.starts_with(newest)) continue;
    for (std::size_t i = 0; i < content->bytes.size(); ++i) {
      for (const unsigned mask : {0x01U, 0x20U, 0x80U, 0xFFU}) {
        content->bytes[i] ^= std::byte{static_cast<unsigned char>(mask)};
        const auto found = newest_good_checkpoint(files, kDirectory);
        content->bytes[i] ^= std::byte{static_cast<unsigned char>(mask)};
        ASSERT_TRUE(found.ok()) << path << " byte " << i << ": " << found.status().message();
        ASSERT_EQ(found->manifest.iteration, 10) << path << " byte " << i << " mask " << mask;
        ASSERT_EQ(found->warnings.size(), 1U);
        ASSERT_THAT(found->warnings[0], HasSubstr(path));
        ++flips;
      }
    }
  }
  EXPECT_GT(flips, 10'000);
  EXPECT_EQ(loadable(files), 20);
}

TEST(Checkpoint, TenThousandRandomDamagesOfSeveralBitsAreFound) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  ASSERT_TRUE(save(files, 20).ok());
  std::vector<std::shared_ptr<MemoryFiles::Content>> contents;
  for (auto& [path, content] : files.files) {
    if (path.starts_with(checkpoint_folder(kDirectory, 20))) contents.push_back(content);
  }
  for (unsigned seed = 1; seed <= 10'000; ++seed) {
    std::mt19937 random(seed);
    auto& bytes = contents[random() % contents.size()]->bytes;
    const auto before = bytes;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (bytes == before) continue;
    const auto found = newest_good_checkpoint(files, kDirectory);
    ASSERT_TRUE(found.ok()) << "seed " << seed;
    ASSERT_EQ(found->manifest.iteration, 10) << "seed " << seed;
    bytes = before;
  }
}

TEST(Checkpoint, ADamagedTensorIsNamedWithItsFile) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  auto& bytes = files.files.at(checkpoint_folder(kDirectory, 10) + "/server-0.bin")->bytes;
  bytes.back() ^= std::byte{1};
  const auto found = newest_good_checkpoint(files, kDirectory);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(found.status().message(), HasSubstr("/runs/a/00000010/server-0.bin"));
  EXPECT_THAT(found.status().message(), HasSubstr("\"at56\""));
  auto model = SavedModel::open(files, checkpoint_folder(kDirectory, 10));
  ASSERT_TRUE(model.ok());
  std::vector<float> value(4);
  EXPECT_EQ(model->read(56, value, {}).status().kind(), ErrorKind::kCorrupt) << "a server checks what it reads too";
}

TEST(Checkpoint, AFileThatIsCutOffAnywhereOrHasMoreIsFound) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  ASSERT_TRUE(save(files, 20).ok());
  for (auto& [path, content] : files.files) {
    if (!path.starts_with(checkpoint_folder(kDirectory, 20))) continue;
    const auto whole = content->bytes;
    for (std::size_t length = 0; length < whole.size(); ++length) {
      content->bytes.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      ASSERT_EQ(loadable(files), 10) << path << " cut at " << length;
    }
    content->bytes = whole;
    content->bytes.push_back(std::byte{0});
    ASSERT_EQ(loadable(files), 10) << path << " with a byte more";
    content->bytes = whole;
  }
}

TEST(Checkpoint, PartsOfTwoIterationsOrRanksAreNeverMixed) {
  const auto swapped = [](const std::string& a, const std::string& b) {
    MemoryFiles files;
    EXPECT_TRUE(save(files, 10).ok());
    EXPECT_TRUE(save(files, 20).ok());
    std::swap(files.files.at(std::string(kDirectory) + a), files.files.at(std::string(kDirectory) + b));
    return loadable(files);
  };
  for (const char* name : {"/server-0.bin", "/server-1.bin", "/worker-0.bin", "/manifest.json"}) {
    EXPECT_EQ(swapped(std::string("/00000010") + name, std::string("/00000020") + name), 0)
        << name << ": both are damaged by the exchange";
  }
  EXPECT_EQ(swapped("/00000020/server-0.bin", "/00000020/server-1.bin"), 10);
  EXPECT_EQ(swapped("/00000020/worker-0.bin", "/00000020/worker-1.bin"), 10);
}

TEST(Checkpoint, AFolderThatWasRenamedIsNotTakenForAnotherIteration) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  ASSERT_TRUE(files.rename(checkpoint_folder(kDirectory, 10), checkpoint_folder(kDirectory, 30)).ok());
  EXPECT_EQ(loadable(files), 0);
}

TEST(Checkpoint, WhateverFileIsMissingThePreviousOneIsTaken) {
  MemoryFiles whole;
  ASSERT_TRUE(save(whole, 10).ok());
  ASSERT_TRUE(save(whole, 20).ok());
  for (const char* name : {"server-0.bin", "server-1.bin", "worker-0.bin", "worker-1.bin", "manifest.json"}) {
    MemoryFiles files;
    files.files = whole.files;
    files.files.erase(checkpoint_folder(kDirectory, 20) + "/" + name);
    EXPECT_EQ(loadable(files), 10) << name;
    EXPECT_THAT(newest_good_checkpoint(files, kDirectory)->warnings, ::testing::ElementsAre(HasSubstr(name)));
  }
}

TEST(Checkpoint, AManifestThatLeavesOutPartOfTheModelIsRefused) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10, 2, {{{0, 20}}, {{20, 30}}}).ok());  // 50..59 are nowhere
  EXPECT_EQ(loadable(files), 0);
  ASSERT_TRUE(save(files, 20, 2, {{{0, 20}}, {{10, 50}}}).ok());  // 10..19 twice
  EXPECT_EQ(loadable(files), 0);
  ASSERT_TRUE(save(files, 30, 2, {{{0, 20}}, {{20, 40}, {60, 5}}}).ok());  // behind the end
  EXPECT_EQ(loadable(files), 0);
}

TEST(Checkpoint, NoFilesAndNoDirectoryAreNoCheckpoint) {
  MemoryFiles files;
  const auto found = newest_good_checkpoint(files, kDirectory);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(found.status().message(), HasSubstr(kDirectory));
}

// --- a disk that fails ---

int operations_of_second_save() {
  MemoryFiles files;
  EXPECT_TRUE(save(files, 10).ok());
  const int before = files.operations;
  EXPECT_TRUE(save(files, 20).ok());
  return files.operations - before;
}

TEST(Checkpoint, WhicheverOperationFailsTheLastGoodOneLoadsAndTheNextSucceeds) {
  const int operations = operations_of_second_save();
  ASSERT_GT(operations, 25);
  int failures = 0;
  for (int n = 0; n < operations; ++n) {
    MemoryFiles files;
    ASSERT_TRUE(save(files, 10).ok());
    files.fail_at = files.operations + n;
    const Status status = save(files, 20);
    if (!status.ok()) {
      ++failures;
      EXPECT_EQ(status.kind(), ErrorKind::kIo);
      EXPECT_THAT(status.message(), HasSubstr(kDirectory)) << "the path is named";
    }
    const Iteration now = loadable(files);
    EXPECT_TRUE(status.ok() ? now == 20 : (now == 10 || now == 20)) << "operation " << n << ": " << now;
    ASSERT_TRUE(save(files, 30).ok()) << "operation " << n;
    EXPECT_EQ(loadable(files), 30) << "operation " << n;
  }
  EXPECT_EQ(failures, operations) << "every operation counts";
}

TEST(Checkpoint, WheneverThePowerGoesTheLastGoodOneIsThere) {
  const int operations = operations_of_second_save();
  for (int keep = 0; keep < 2; ++keep) {
    for (int n = 0; n <= operations; ++n) {
      MemoryFiles files;
      ASSERT_TRUE(save(files, 5).ok());
      ASSERT_TRUE(save(files, 10).ok());
      files.fail_at = files.operations + n;
      files.fail_ever_after = true;
      const bool done = save(files, 20).ok();
      if (keep == 0) files.lose_power();  // else: the process is killed, the kernel goes on
      files.fail_at = -1;
      const Iteration now = loadable(files);
      EXPECT_TRUE(done ? now == 20 : (now == 10 || now == 20))
          << "operation " << n << ", " << (keep == 0 ? "power" : "kill") << ": " << now;
      ASSERT_TRUE(save(files, 30).ok());
      EXPECT_EQ(loadable(files), 30);
    }
  }
}

TEST(Checkpoint, OldOnesAndUnfinishedOnesAreRemovedTheNewestStay) {
  MemoryFiles files;
  for (const Iteration iteration : {10, 20, 30}) ASSERT_TRUE(save(files, iteration).ok());
  ASSERT_TRUE(write_server(files, 0, 25, kTwoServers[0]).ok());  // never finished
  ASSERT_TRUE(write_server(files, 0, 40, kTwoServers[0]).ok());  // being written
  ASSERT_TRUE(prune_checkpoints(files, kDirectory, 2).ok());
  const std::map<Iteration, bool> left = {{20, true}, {30, true}, {40, false}};
  EXPECT_EQ(list_checkpoints(files, kDirectory).value(), left);
}

// --- which job it is ---

TEST(Checkpoint, AnotherJobsCheckpointIsRefusedNamingTheDifference) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  const auto found = newest_good_checkpoint(files, kDirectory);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(can_resume(*found, settings(), table(), 2).ok());
  const auto with = [&](const std::string& name, const std::string& value) {
    wire::Settings changed = settings();
    for (auto& [key, text] : changed) {
      if (key == name) text = value;
    }
    return can_resume(*found, changed, table(), 2);
  };
  for (const auto& [name, value] : wire::Settings{{"model", "mlp"},
                                                  {"dataset", "digits"},
                                                  {"seed", "2"},
                                                  {"optimizer", "sgd"},
                                                  {"learning-rate", "0.1"},
                                                  {"momentum", "0.8"},
                                                  {"weight-decay", "0.1"},
                                                  {"clip-norm", "1"},
                                                  {"mini-batch", "16"},
                                                  {"sync", "asp"}}) {
    const Status status = with(name, value);
    EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(status.message(), ::testing::AllOf(HasSubstr("--" + name), HasSubstr(value), HasSubstr(found->folder)));
  }
  for (const auto& [name, value] : wire::Settings{{"iterations", "99"},
                                                  {"epochs", "7"},
                                                  {"evaluate-every", "3"},
                                                  {"schedule", "p3"},
                                                  {"non-finite", "skip"},
                                                  {"checkpoint-every", "2"},
                                                  {"deadline", "3"},
                                                  {"metrics", "1"}}) {
    EXPECT_TRUE(with(name, value).ok()) << name;
  }
  EXPECT_THAT(can_resume(*found, settings(), table(), 3).message(), HasSubstr("--workers 2 there against 3 here"));
  wire::TensorTable other = table();
  other.tensors[1].shape = {9, 4};
  EXPECT_THAT(can_resume(*found, settings(), other, 2).message(), HasSubstr("fc.weight"));
}

TEST(Checkpoint, AnotherNumberOfOptimizerPlanesIsRefusedNamingTheTensor) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  auto model = SavedModel::open(files, checkpoint_folder(kDirectory, 10));
  ASSERT_TRUE(model.ok());
  std::vector<float> value(10), state(10);
  const auto read = model->read(0, value, state);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.status().message(), HasSubstr("at0"));
}

// --- the coordinator's side ---

class Keeper : public ::testing::Test {
 protected:
  CheckpointKeeper make(std::int32_t servers = 1) {
    return CheckpointKeeper(
        files_, {.workers = 2, .servers = servers, .release = "0.1.0", .keep = 2, .warn = [this](const std::string& text) {
                   warnings_.push_back(text);
                 }});
  }
  static std::string said(const PartSummary& part) { return encode(part); }
  // All parts of a job with one server.
  void save_all(CheckpointKeeper& keeper, Iteration iteration) {
    keeper.on_saved({session::Role::kServer, Rank{0}}, iteration,
                    said(write_server(files_, 0, iteration, {{0, kElements}}).value()));
    for (std::int32_t rank = 0; rank < 2; ++rank)
      keeper.on_saved({session::Role::kWorker, Rank{rank}}, iteration, said(write_worker(files_, rank, iteration).value()));
    keeper.finish();
  }

  MemoryFiles files_;
  std::vector<std::string> warnings_;
};

TEST_F(Keeper, MakesACheckpointOnceEverybodyHasSaved) {
  auto keeper = make();
  wire::Settings agreed = settings();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  EXPECT_EQ(keeper.newest(), "");
  keeper.on_saved({session::Role::kServer, Rank{0}}, 10, said(write_server(files_, 0, 10, {{0, kElements}}).value()));
  keeper.finish();
  EXPECT_EQ(keeper.newest(), "");
  EXPECT_EQ(loadable(files_), 0);
  save_all(keeper, 10);
  EXPECT_EQ(keeper.newest(), "/runs/a/00000010");
  EXPECT_EQ(loadable(files_), 10);
  EXPECT_THAT(warnings_, ::testing::IsEmpty());
}

TEST_F(Keeper, APartThatCouldNotBeWrittenVoidsItsCheckpointAndGivesTheRoomBack) {
  auto keeper = make();
  wire::Settings agreed = settings();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  save_all(keeper, 10);
  keeper.on_saved({session::Role::kServer, Rank{0}}, 20,
                  said({"server-0.bin", 0, 0, "cannot write /runs/a/00000020/server-0.bin.tmp: No space left on device"}));
  for (std::int32_t rank = 0; rank < 2; ++rank)
    keeper.on_saved({session::Role::kWorker, Rank{rank}}, 20, said(write_worker(files_, rank, 20).value()));
  keeper.finish();
  EXPECT_EQ(loadable(files_), 10);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], ::testing::AllOf(HasSubstr("server 0"), HasSubstr("iteration 20"), HasSubstr("No space left"),
                                             HasSubstr("/runs/a/00000010")));
  EXPECT_EQ(list_checkpoints(files_, kDirectory)->size(), 1U);
  save_all(keeper, 30);
  EXPECT_EQ(loadable(files_), 30);
}

TEST_F(Keeper, NonsenseFromAMemberIsNoPart) {
  auto keeper = make();
  wire::Settings agreed = settings();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  for (const char* text :
       {"", "{}", "[]", "7", R"({"name":"../../etc/passwd","bytes":1,"crc32c":"00000000"})",
        R"({"name":"server-9.bin","bytes":1,"crc32c":"00000000"})", R"({"name":"server-0.bin","bytes":-1,"crc32c":"0"})"}) {
    keeper.on_saved({session::Role::kServer, Rank{0}}, 10, text);
  }
  EXPECT_EQ(warnings_.size(), 7U);
  save_all(keeper, 10);
  EXPECT_EQ(loadable(files_), 10);
}

TEST_F(Keeper, AnEarlierJobsCheckpointsAreNotOverwrittenUnasked) {
  ASSERT_TRUE(save(files_, 10).ok());
  auto keeper = make();
  wire::Settings agreed = settings();
  const Status status = keeper.begin(agreed, table());
  EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(status.message(), ::testing::AllOf(HasSubstr("--resume"), HasSubstr("/runs/a")));
  EXPECT_EQ(loadable(files_), 10);
}

TEST_F(Keeper, ResumesFromTheNewestGoodOneAndPutsDamagedOnesAside) {
  ASSERT_TRUE(save(files_, 10).ok());
  ASSERT_TRUE(save(files_, 20).ok());
  ASSERT_TRUE(write_server(files_, 0, 30, kTwoServers[0]).ok());  // was being written when the job died
  files_.files.at("/runs/a/00000020/server-1.bin")->bytes.back() ^= std::byte{4};
  JobSettings job = from_settings(settings()).value();
  job.resume = 1;
  wire::Settings agreed = to_settings(job);
  auto keeper = make();
  const Status status = keeper.begin(agreed, table());
  ASSERT_TRUE(status.ok()) << status.message();
  job = from_settings(agreed).value();
  EXPECT_EQ(job.resume_iteration, 10);
  EXPECT_EQ(job.resume_from, "/runs/a/00000010");
  EXPECT_EQ(keeper.newest(), "/runs/a/00000010");
  EXPECT_THAT(warnings_, ::testing::ElementsAre(HasSubstr("00000030"), HasSubstr("/runs/a/00000020/server-1.bin")));
  const std::map<Iteration, bool> left = {{10, true}};
  EXPECT_EQ(list_checkpoints(files_, kDirectory).value(), left);
  EXPECT_TRUE(files_.files.contains("/runs/a/00000020.damaged/manifest.json"));
  save_all(keeper, 20);
  EXPECT_EQ(loadable(files_), 20);
}

TEST_F(Keeper, WhatAMemberSaysAboutWhereToResumeIsOverruled) {
  JobSettings job = from_settings(settings()).value();
  job.resume_from = "/etc";
  job.resume_iteration = 5;
  wire::Settings agreed = to_settings(job);
  auto keeper = make();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  EXPECT_EQ(from_settings(agreed)->resume_from, "");
  EXPECT_EQ(from_settings(agreed)->resume_iteration, 0);
}

// --- the real disk ---

TEST(SystemFiles, AFileIsThereCompletelyOrNotAtAll) {
  const auto directory = std::filesystem::temp_directory_path() / fmt::format("paceline-files-{}", ::getpid());
  Files& files = system_files();
  ASSERT_TRUE(files.make_directories((directory / "a/b").string()).ok());
  const std::string path = (directory / "a/b/file").string(), text = "twelve bytes";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const std::vector<std::span<const std::byte>> pieces = {bytes.first(5), bytes.subspan(5)};
  ASSERT_TRUE(write_file(files, path, pieces).ok());
  const auto reader = files.open(path);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->size(), text.size());
  std::string back(text.size(), ' ');
  ASSERT_TRUE((*reader)->read(0, std::as_writable_bytes(std::span(back))).ok());
  EXPECT_EQ(back, text);
  EXPECT_EQ((*reader)->read(1, std::as_writable_bytes(std::span(back))).kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(files.list((directory / "a/b").string()).value(), ::testing::ElementsAre("file"));
  EXPECT_TRUE(files.list((directory / "none").string()).value().empty());
  EXPECT_FALSE(files.open((directory / "a").string()).ok()) << "a directory is no file";
  EXPECT_FALSE(files.make_directories(path + "/below").ok());
  EXPECT_THAT(write_file(files, (directory / "none/file").string(), pieces).message(), HasSubstr("none/file"));
  ASSERT_TRUE(files.remove_all(directory.string()).ok());
  EXPECT_TRUE(files.remove_all(directory.string()).ok()) << "nothing there is well";
}

TEST(SystemFiles, ADirectoryIsLockedByOneAtATime) {
  const auto directory = std::filesystem::temp_directory_path() / fmt::format("paceline-lock-{}", ::getpid());
  Files& files = system_files();
  ASSERT_TRUE(files.make_directories(directory.string()).ok());
  auto lock = files.lock_directory(directory.string());
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  EXPECT_EQ(files.lock_directory(directory.string()).status().kind(), ErrorKind::kOverloaded);
  *lock = nullptr;
  EXPECT_TRUE(files.lock_directory(directory.string()).ok());
  ASSERT_TRUE(files.remove_all(directory.string()).ok());
  EXPECT_EQ(files.lock_directory(directory.string()).status().kind(), ErrorKind::kIo);
}

TEST(SystemFiles, AFullDiskIsAnErrorThatNamesTheFile) {
  const auto writer = system_files().create("/dev/full");
  ASSERT_TRUE(writer.ok());
  const std::vector<std::byte> some(100'000);
  Status status = (*writer)->append(some);
  if (status.ok()) status = (*writer)->finish();
  EXPECT_EQ(status.kind(), ErrorKind::kIo);
  EXPECT_THAT(status.message(), ::testing::AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

}  // namespace
}  // namespace paceline::runtime
