#include "checkpoint/checkpoint.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "checkpoint/testing_checkpoint.h"
#include "job/testing.h"

namespace paceline::checkpoint {
namespace {

using job::testing::give;
using namespace testing;
using ::testing::HasSubstr;

TEST(Checkpoint, IsReadBackWithEveryBit) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  EXPECT_EQ(loadable(files), 10);
  const auto found = newest_good_checkpoint(files, kDirectory);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->manifest.table, table());
  EXPECT_EQ(found->manifest.settings, to_settings(spec()));
  EXPECT_EQ(parse_manifest(manifest_text(found->manifest), "x").value(), found->manifest);
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

// Some iterations need not use a tensor, which then has had fewer updates than others.
TEST(Checkpoint, ValuesOfTensorsThatWereUpdatedLessOftenAreReadWithTheOthers) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 5, 1, {{{0, 20, 3}, {20, 36}}, {{56, 4, 0}}}).ok());
  auto model = SavedModel::open(files, checkpoint_folder(kDirectory, 5));
  ASSERT_TRUE(model.ok());
  std::vector<float> value(kElements);
  ASSERT_TRUE(model->read_values(0, value).ok());
  for (std::int64_t i = 0; i < kElements; ++i) EXPECT_EQ(value[static_cast<std::size_t>(i)], number_at(5, 0, i));
  EXPECT_EQ(model->read(0, std::span(value).first(20), {}).value(), 3);
  EXPECT_THAT(model->read(10, std::span(value).first(20), {}).status().message(), HasSubstr("after 3 and after 5 updates"));
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

// --- what is not ours ---

void put(MemoryFiles& files, const std::string& path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  files.files[path] = std::make_shared<MemoryFiles::Content>(MemoryFiles::Content{{bytes.begin(), bytes.end()}, {}});
}

TEST(Checkpoint, AFolderOfTheUsersIsNoCheckpointWhateverItsNameAndStays) {
  MemoryFiles files;
  const std::vector<std::string> theirs = {"/runs/a/20240131/raw/thesis.txt", "/runs/a/20240201/manifest.json",
                                           "/runs/a/20240202/server-0.bin", "/runs/a/20240203"};
  for (const std::string& path : theirs) put(files, path, "{\"name\": \"somebody else's\"}");
  for (const Iteration iteration : {10, 20, 30}) ASSERT_TRUE(save(files, iteration).ok());
  const std::map<Iteration, bool> ours = {{20, true}, {30, true}};
  EXPECT_EQ(list_checkpoints(files, kDirectory).value(), ours);
  EXPECT_EQ(loadable(files), 30);
  EXPECT_THAT(newest_good_checkpoint(files, kDirectory)->warnings, ::testing::IsEmpty());
  ASSERT_TRUE(clear_newer_checkpoints(files, kDirectory, 0).ok());
  for (const std::string& path : theirs) EXPECT_TRUE(files.files.contains(path)) << path;
}

TEST(Checkpoint, NothingIsWrittenIntoAFolderOfTheUsers) {
  MemoryFiles files;
  put(files, "/runs/a/00000010/worker-0.bin", "somebody else's");
  const Status status = save(files, 10);
  EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(status.message(), ::testing::AllOf(HasSubstr("/runs/a/00000010"), HasSubstr("worker-0.bin")));
  EXPECT_EQ(files.files.size(), 1U);
  EXPECT_TRUE(remove_checkpoint(files, checkpoint_folder(kDirectory, 10)).ok());
  EXPECT_EQ(files.files.size(), 1U);
}

// Another member's part gets its name after the folder was listed, before anybody looks into it.
class RenamedMeanwhile final : public MemoryFiles {
 public:
  Result<std::vector<std::string>> list(const std::string& path) override {
    auto names = MemoryFiles::list(path);
    const auto writing = files.find(path + "/worker-1.bin.4711-0.tmp");
    if (writing != files.end()) {
      files[path + "/worker-1.bin"] = writing->second;
      files.erase(writing);
    }
    return names;
  }
};

TEST(Checkpoint, APartThatAnotherMemberJustRenamesDoesNotMakeTheFolderTheUsers) {
  RenamedMeanwhile files;
  put(files, "/runs/a/00000010/worker-1.bin.4711-0.tmp", "PACEPART");
  const Status made = make_checkpoint_folder(files, checkpoint_folder(kDirectory, 10));
  EXPECT_TRUE(made.ok()) << made.message();
  EXPECT_TRUE(files.files.contains("/runs/a/00000010/worker-1.bin"));
}

TEST(Checkpoint, WhatIsNotOursStaysWhenACheckpointGoes) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  put(files, "/runs/a/00000010/notes.txt", "the good one");
  ASSERT_TRUE(write_server(files, 0, 15, kTwoServers[0]).ok());  // never finished,
  put(files, "/runs/a/00000015/server-1.bin.tmp", "PACE");       // and killed while it was being written
  put(files, "/runs/a/00000015/server-2.bin.tmp", "");
  for (const Iteration iteration : {20, 30}) ASSERT_TRUE(save(files, iteration).ok());
  std::vector<std::string> old;
  for (const auto& [path, content] : files.files) {
    if (path < "/runs/a/00000020") old.push_back(path);
  }
  EXPECT_THAT(old, ::testing::ElementsAre("/runs/a/00000010/notes.txt"));
}

TEST(Checkpoint, ADamagedOneNeverReplacesAnotherThatWasPutAside) {
  MemoryFiles files;
  put(files, "/runs/a/00000010.damaged/thesis.txt", "mine");
  ASSERT_TRUE(save(files, 10).ok());
  ASSERT_TRUE(clear_newer_checkpoints(files, kDirectory, 0).ok());
  EXPECT_TRUE(files.files.contains("/runs/a/00000010.damaged/thesis.txt"));
  EXPECT_TRUE(files.files.contains("/runs/a/00000010.damaged-2/manifest.json"));
  EXPECT_EQ(loadable(files), 0);
}

// --- which job it is ---

TEST(Checkpoint, TheNewestManifestTellsTheJobWhateverItsPartsAre) {
  MemoryFiles files;
  EXPECT_EQ(newest_manifest(files, kDirectory).status().kind(), ErrorKind::kBadRequest);
  ASSERT_TRUE(save(files, 10).ok());
  ASSERT_TRUE(save(files, 20).ok());
  files.files.at("/runs/a/00000020/server-0.bin")->bytes.back() ^= std::byte{4};
  const auto newest = newest_manifest(files, kDirectory), good = newest_good_checkpoint(files, kDirectory);
  ASSERT_TRUE(newest.ok() && good.ok()) << newest.status().message() << good.status().message();
  EXPECT_EQ(newest->manifest.iteration, 20);
  EXPECT_EQ(good->manifest.iteration, 10);
  files.files.at("/runs/a/00000020/manifest.json")->bytes.back() ^= std::byte{4};
  EXPECT_EQ(newest_manifest(files, kDirectory)->manifest.iteration, 10);
}

TEST(Checkpoint, AnotherJobsCheckpointIsRefusedNamingTheDifference) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10).ok());
  const auto found = newest_good_checkpoint(files, kDirectory);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(can_resume(*found, spec(), table(), 2).ok());
  const auto with = [&](const std::string& name, const std::string& value) {
    job::JobSpec changed = spec();
    give(changed, name, value);
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
                                                  {"convolutions", "conv2=fft"},
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
  EXPECT_THAT(can_resume(*found, spec(), table(), 3).message(), HasSubstr("--workers 2 there against 3 here"));
  job::JobSpec several = spec();
  give(several, "seed", "2");
  give(several, "wire", "dropping:0.25");
  EXPECT_THAT(
      can_resume(*found, several, table(), 3).message(),
      HasSubstr("--seed 1 there against 2 here, --wire float32 there against dropping:0.25 here, --workers 2 there against 3 "
                "here; give"));
  EXPECT_TRUE(is_same_job(*found, spec(), std::nullopt).ok()) << "somebody else compares the workers";
  wire::TensorTable other = table();
  other.tensors[1].shape = {9, 4};
  EXPECT_THAT(can_resume(*found, spec(), other, 2).message(), HasSubstr("fc.weight"));
}

TEST(Checkpoint, TrainingWithoutServersGoesOnWithThemAndTheOtherWayRoundUnlessSumsAreInAnotherOrder) {
  MemoryFiles files;
  ASSERT_TRUE(save(files, 10, 4).ok());
  auto found = newest_good_checkpoint(files, kDirectory);
  ASSERT_TRUE(found.ok()) << found.status().message();
  const auto job = [](const std::string& loop, const std::string& algorithm, const std::string& merge = "") {
    job::JobSpec settings = testing::spec();
    give(settings, "collective", loop);
    give(settings, "algorithm", algorithm);
    give(settings, "merge", merge);
    return settings;
  };
  for (const char* algorithm : {"best", "lp", "direct"})
    EXPECT_TRUE(can_resume(*found, job("loop3", algorithm), table(), 4).ok()) << algorithm;
  const Status ring = can_resume(*found, job("loop3", "ring"), table(), 4);
  EXPECT_THAT(ring.message(), ::testing::AllOf(HasSubstr("in rank order there"), HasSubstr("--collective loop3 --algorithm ring")));
  found->manifest.settings = to_settings(job("loop3", "ring", "500"));
  EXPECT_FALSE(can_resume(*found, spec(), table(), 4).ok());
  EXPECT_TRUE(can_resume(*found, job("loop3", "ring", "500"), table(), 4).ok());
  EXPECT_FALSE(can_resume(*found, job("loop3", "ring", "501"), table(), 4).ok()) << "other messages have other parts";
  EXPECT_FALSE(can_resume(*found, job("loop3", "be", "500"), table(), 4).ok());
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

}  // namespace
}  // namespace paceline::checkpoint
