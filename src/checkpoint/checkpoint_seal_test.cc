// Who may write into the directory of a job's checkpoints, knows all of their formats and has not the key: makes every checksum
// right, and is found out all the same.
#include "checkpoint/checkpoint_seal.h"

#include <gmock/gmock.h>

#include "base/checksum.h"
#include "checkpoint/checkpoint_json.h"
#include "checkpoint/testing_checkpoint.h"

namespace paceline::checkpoint::testing {
namespace {

using ::testing::HasSubstr;

class SealedCheckpoints : public ::testing::Test {
 protected:
  SealedCheckpoints() {
    for (const Iteration iteration : {10, 20}) EXPECT_TRUE(save(files, iteration, 2, kTwoServers, seal).ok());
  }
  // Gives the newest checkpoint another part, and what the manifest says of it the right checksums.
  void replace_part(const PartSummary& with) {
    Manifest manifest = read_manifest(files, kNewest).value();
    for (PartSummary& part : manifest.parts) {
      if (part.name == with.name) part = with;
    }
    ASSERT_TRUE(write_manifest(files, kDirectory, manifest).ok());
  }
  // The manifest's text before its checksum is changed, and the checksum made right.
  void edit_manifest(const std::string& from, const std::string& to) {
    auto& bytes = files.files.at(kNewest + "/manifest.json")->bytes;
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto place = text.find(from);
    ASSERT_NE(std::string::npos, place);
    text.replace(place, from.size(), to);
    constexpr std::size_t kTail = 12;  // eight digits and the end
    text.resize(text.size() - kTail);
    text += hex(crc32c(bytes_of(text))) + "\"\n}\n";
    const auto changed = bytes_of(text);
    bytes.assign(changed.begin(), changed.end());
  }
  std::string refusal(const CheckpointSeal& with) {
    const auto found = newest_good_checkpoint(files, kDirectory, with);
    if (found.ok()) return "taken: " + found->folder;
    EXPECT_EQ(ErrorKind::kBadRequest, found.status().kind());
    return found.status().message();
  }

  const std::string kNewest = checkpoint_folder(kDirectory, 20);
  const CheckpointSeal seal{JobKey::draw()};
  MemoryFiles files;
};

TEST_F(SealedCheckpoints, AreTakenWithTheirKeyAndWithoutOne) {
  EXPECT_EQ("taken: " + kNewest, refusal(seal));
  EXPECT_EQ("taken: " + kNewest, refusal(CheckpointSeal()));
  auto model = SavedModel::open(files, kNewest, seal);
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::vector<float> value(kElements), state(2 * kElements);
  EXPECT_EQ(20, model->read(0, value, state).value());
}

TEST_F(SealedCheckpoints, AreRefusedWithAnotherKeyAndThoseWithoutASealByName) {
  EXPECT_THAT(refusal(CheckpointSeal(JobKey::draw())), HasSubstr(kNewest + "/manifest.json does not match its seal"));
  ASSERT_TRUE(save(files, 30).ok());
  EXPECT_THAT(refusal(seal), HasSubstr("00000030/manifest.json is not sealed"));
  EXPECT_THAT(refusal(seal), HasSubstr("move /runs/a/00000030 away"));
}

TEST_F(SealedCheckpoints, ASettingThatWasEditedIsFoundOutAlthoughTheChecksumIsRight) {
  edit_manifest("\"optimizer\": \"adam\"", "\"optimizer\": \"sgd\"");
  EXPECT_EQ("taken: " + kNewest, refusal(CheckpointSeal()));
  EXPECT_THAT(refusal(seal), HasSubstr("manifest.json does not match its seal"));
}

TEST_F(SealedCheckpoints, APartWithOtherValuesIsFoundOutAlthoughAllChecksumsAreRight) {
  const auto forged = write_server(files, 0, 20, kTwoServers[0], CheckpointSeal(JobKey::draw()));
  ASSERT_TRUE(forged.ok());
  EXPECT_THAT(refusal(seal), HasSubstr("server-0.bin does not match its seal"));
  replace_part(*forged);
  EXPECT_EQ("taken: " + kNewest, refusal(CheckpointSeal()));
  EXPECT_THAT(refusal(seal), HasSubstr("manifest.json is not sealed"));
}

TEST_F(SealedCheckpoints, APartOfAnotherCheckpointOfTheSameKeyIsFoundOut) {
  ASSERT_TRUE(write_server(files, 0, 20, {{0, 20}}, seal).ok());
  EXPECT_THAT(refusal(seal), HasSubstr("server-0.bin does not match its seal"));
  EXPECT_THAT(SavedModel::open(files, kNewest, seal).status().message(), HasSubstr("server-0.bin does not match its seal"));
}

// Who may write there and has no key exchanges what the coordinator has verified before the members read it.
TEST_F(SealedCheckpoints, OneThatWasExchangedSinceItWasVerifiedIsFoundOut) {
  job::Saving saving{
      .from = kNewest, .iteration = 20, .manifest = newest_good_checkpoint(files, kDirectory, seal)->manifest.checksum};
  EXPECT_TRUE(SavedModel::open(files, saving, seal).ok());
  EXPECT_TRUE(open_part(files, saving, "worker-1.bin", seal).ok());
  const std::string kOlder = checkpoint_folder(kDirectory, 10);
  for (const char* const name : {"manifest.json", "server-0.bin", "server-1.bin", "worker-0.bin", "worker-1.bin"})
    files.files.at(kNewest + "/" + name) = files.files.at(kOlder + "/" + name);
  EXPECT_THAT(SavedModel::open(files, saving, seal).status().message(), HasSubstr("it was replaced meanwhile"));
  EXPECT_THAT(open_part(files, saving, "worker-1.bin", seal).status().message(), HasSubstr("it was replaced meanwhile"));
}

TEST_F(SealedCheckpoints, EveryTagIsForOnePurpose) {
  const auto bytes = bytes_of("bytes");
  const std::string tag = seal.tag(kSealedArray, bytes);
  EXPECT_TRUE(seal.check(kSealedArray, bytes, tag, "here").ok());
  EXPECT_THAT(seal.check(kSealedHead, bytes, tag, "here").message(), HasSubstr("here does not match its seal"));
  EXPECT_THAT(seal.check(kSealedArray, bytes_of("byte5"), tag, "here").message(), HasSubstr("here does not match its seal"));
  EXPECT_THAT(seal.check(kSealedArray, bytes, tag.substr(1), "here").message(), HasSubstr("here does not match its seal"));
  EXPECT_THAT(seal.check(kSealedArray, bytes, "", "here").message(), HasSubstr("here is not sealed"));
}

TEST_F(SealedCheckpoints, BytesInEveryPieceOfALargeArrayCount) {
  std::vector<std::byte> large((std::size_t{2} << 20) + 5);
  const std::string tag = seal.tag(kSealedArray, large);
  for (const std::size_t place : {std::size_t{0}, std::size_t{1} << 20, large.size() - 1}) {
    large[place] ^= std::byte{1};
    EXPECT_NE(tag, seal.tag(kSealedArray, large)) << place;
    large[place] ^= std::byte{1};
  }
  EXPECT_EQ(tag, seal.tag(kSealedArray, large));
  EXPECT_NE(tag, seal.tag(kSealedArray, std::span(large).first(large.size() - 1)));
  EXPECT_NE(tag, CheckpointSeal(JobKey::draw()).tag(kSealedArray, large));
}

TEST_F(SealedCheckpoints, AnOlderOneInPlaceOfTheNewerIsFoundOut) {
  for (const char* const name : {"manifest.json", "server-0.bin", "server-1.bin", "worker-0.bin", "worker-1.bin"})
    files.files[kNewest + "/" + name] = files.files.at(checkpoint_folder(kDirectory, 10) + "/" + name);
  EXPECT_THAT(refusal(seal), HasSubstr("belongs to iteration 10, not into this folder"));
}

TEST_F(SealedCheckpoints, EveryByteOfAManifestCounts) {
  auto& bytes = files.files.at(kNewest + "/manifest.json")->bytes;
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    bytes[place] ^= std::byte{1};
    EXPECT_THAT(refusal(seal), HasSubstr(kNewest)) << place;
    bytes[place] ^= std::byte{1};
  }
  EXPECT_EQ("taken: " + kNewest, refusal(seal));
}

}  // namespace
}  // namespace paceline::checkpoint::testing
