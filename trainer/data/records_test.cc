#include "trainer/data/records.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "trainer/data/mini_batch.h"
#include "trainer/data/open.h"
#include "trainer/data/test_files.h"

namespace paceline::trainer::data {
namespace {

const auto kSilent = [](std::int64_t) { return Status(); };

std::string spec_of(const TestFolder& folder, const std::string& name) { return "records:" + folder.path(name); }

void expect_same(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.form(), b.form());
  Sample of_a, of_b;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    for (const auto& [set, sample] : {std::pair{&a, &of_a}, std::pair{&b, &of_b}}) {
      ASSERT_TRUE(set->load(i, *sample).ok());
      ASSERT_TRUE(set->decode(i, *sample).ok());
    }
    ASSERT_EQ(of_a.pixels, of_b.pixels) << i;
    ASSERT_EQ(of_a.tokens, of_b.tokens) << i;
    ASSERT_EQ(of_a.target, of_b.target) << i;
    ASSERT_EQ(a.length(i), b.length(i)) << i;
  }
}

TEST(Records, LeaveNothingWhenPackingIsStopped) {
  const TestFolder folder;
  const DatasetPair pair = open("synthetic:1x8x8,samples=30,test=1", "").value();
  const auto stop = [](std::int64_t done) { return done < 7 ? Status() : Status(ErrorKind::kCancelled, "stopped"); };
  EXPECT_EQ(pack(pair, folder.path("packed"), stop).kind(), ErrorKind::kCancelled);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("")));
}

TEST(Records, GiveBackWhatWasPacked) {
  const TestFolder folder;
  std::string lines;
  for (int i = 0; i < 25; ++i) lines += std::string(static_cast<std::size_t>(i), 'w') + " x\n";
  folder.write("lines", lines);
  folder.write("images/a/1.jpg", jpeg(20, 10, plain_colour(20, 10, {1, 200, 30})));
  // A block holds 113 samples of 3x55x56: one, exactly one block, a block and one more.
  for (const std::string& spec :
       {std::string("synthetic:3x55x56,samples=1,test=1"), std::string("synthetic:3x55x56,samples=113,test=2"),
        std::string("synthetic:3x55x56,samples=114,test=227"), std::string("synthetic:3x1000x1000,samples=3,test=1"),
        "text:" + folder.path("lines") + "," + folder.path("lines"), "images:" + folder.path("images") + ",size=5"}) {
    const DatasetPair pair = open(spec, "").value();
    std::int64_t told = 0;
    const auto tell = [&](std::int64_t done) {
      told = done;
      return Status();
    };
    ASSERT_TRUE(pack(pair, folder.path("packed"), tell).ok()) << spec;
    EXPECT_EQ(told, pair.train->size() + pair.test->size());
    const auto back = open(spec_of(folder, "packed"), "");
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_NE(back->note.find(spec), std::string::npos);
    for (int again = 0; again < 2; ++again) {  // the first touch checks the block, the second reads the record alone
      expect_same(*pair.train, *back->train);
      expect_same(*pair.test, *back->test);
    }
    EXPECT_TRUE(back->train->verify().ok());
    EXPECT_TRUE(back->test->verify().ok());
  }
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 3u);  // lines, images, packed: nothing temporary is left
}

TEST(Records, GiveTheSameFloatsAsTheOriginal) {
  const TestFolder folder;
  const DatasetPair pair = open("synthetic:2x3x4,samples=9", "").value();
  ASSERT_TRUE(pack(pair, folder.path("packed"), kSilent).ok());
  const DatasetPair back = open(spec_of(folder, "packed"), "").value();
  const SystemClock clock;
  MiniBatch a, b;
  const std::vector<std::int64_t> indices = {8, 0, 3};
  ASSERT_TRUE(assemble(*pair.train, indices, clock, a).ok());
  ASSERT_TRUE(assemble(*back.train, indices, clock, b).ok());
  EXPECT_EQ(a.inputs, b.inputs);
}

TEST(Records, MayBeReadByManyThreads) {
  const TestFolder folder;
  const DatasetPair pair = open("synthetic:3x100x100,samples=100,test=1", "").value();
  ASSERT_TRUE(pack(pair, folder.path("packed"), kSilent).ok());
  const DatasetPair back = open(spec_of(folder, "packed"), "").value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { expect_same(*pair.train, *back.train); });
  for (std::thread& thread : threads) thread.join();
}

// Every single byte matters: with a bit changed in any of them the file is refused or a sample fails, and the file is named.
TEST(Records, NoticeEveryChangedByte) {
  const TestFolder folder;
  folder.write("lines", "a b\nc\nd\na\na\na\na\na\na\na\na\n");
  for (const std::string& spec :
       {std::string("synthetic:1x2x2,samples=5,test=2"), "text:" + folder.path("lines") + "," + folder.path("lines")}) {
    const DatasetPair pair = open(spec, "").value();
    ASSERT_TRUE(pack(pair, folder.path("good"), kSilent).ok());
    const std::string good = folder.read("good");
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1 << at % 8);
      folder.write("bad", bad);
      const auto opened = open(spec_of(folder, "bad"), "");
      Status status = opened.status();
      if (status.ok()) {
        status = opened->train->verify();
        if (status.ok()) status = opened->test->verify();
      }
      ASSERT_FALSE(status.ok()) << "byte " << at << " of " << spec;
      ASSERT_NE(status.message().find(folder.path("bad")), std::string::npos) << status.message();
    }
  }
}

TEST(Records, FailAtLoadingASampleOfADamagedBlockOnly) {
  const TestFolder folder;
  const DatasetPair pair = open("synthetic:3x55x56,samples=300,test=1", "").value();
  ASSERT_TRUE(pack(pair, folder.path("packed"), kSilent).ok());
  std::string bytes = folder.read("packed");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] + 1);
  folder.write("packed", bytes);
  const DatasetPair back = open(spec_of(folder, "packed"), "").value();
  Sample sample;
  EXPECT_TRUE(back.train->load(0, sample).ok());
  EXPECT_TRUE(back.train->load(299, sample).ok());
  for (int again = 0; again < 2; ++again) {
    expect_error(back.train->load(150, sample), ErrorKind::kCorrupt, {folder.path("packed"), "damaged", "CRC32C"}, "load");
  }
}

TEST(Records, RefuseEveryTruncationAndWhatIsTooLong) {
  const TestFolder folder;
  ASSERT_TRUE(pack(open("synthetic:1x2x2,samples=5,test=2", "").value(), folder.path("good"), kSilent).ok());
  const std::string good = folder.read("good");
  for (std::size_t length = 0; length < good.size(); ++length) {
    folder.write("bad", good.substr(0, length));
    expect_error(open(spec_of(folder, "bad"), "").status(), ErrorKind::kBadRequest, {folder.path("bad"), "truncated"},
                 std::to_string(length));
  }
  folder.write("bad", good + "x");
  expect_error(open(spec_of(folder, "bad"), "").status(), ErrorKind::kBadRequest, {folder.path("bad"), "wrong size"}, "longer");
}

// Puts a number into a good header, makes its checksum right again, and expects a refusal.
TEST(Records, RefuseHeadersThatContradictThemselves) {
  const TestFolder folder;
  ASSERT_TRUE(pack(open("synthetic:1x2x2,samples=5,test=2", "").value(), folder.path("good"), kSilent).ok());
  const std::string good = folder.read("good");
  const auto header_bytes = static_cast<std::size_t>(static_cast<unsigned char>(good[12]));
  struct Case {
    std::size_t at;
    std::string bytes;
    std::string part;
  };
  const std::string most(8, '\xff'), large("\0\0\0\0\0\0\0\x7f", 8), zero(8, '\0');
  for (const Case& bad : std::vector<Case>{{8, std::string("\2\0\0\0", 4), "version 2"},
                                           {16, std::string("\3\0\0\0", 4), "content 3"},
                                           {20, std::string("\0\0\0\0", 4), "channels"},
                                           {20, std::string("\2\0\0\0", 4), "channels"},
                                           {24, most.substr(0, 4), "4294967295"},
                                           {28, zero.substr(0, 4), "x 0 values"},
                                           {32, zero, "classes"},
                                           {32, most, "classes"},
                                           {48, zero, "no samples"},
                                           {48, most, "contradicts"},
                                           {48, large, "contradicts"},
                                           {56, large, "contradicts"},
                                           {56, std::string("\3\0\0\0\0\0\0\0", 8), "take"},
                                           {64, zero, "0 records of"},
                                           {64, large, "in a block"},
                                           {80, most.substr(0, 4), "name"},
                                           {header_bytes - 8, zero.substr(0, 4), "deviation 0"},
                                           {header_bytes - 8, std::string("\0\0\xc0\x7f", 4), "deviation nan"}}) {
    std::string header = good.substr(0, header_bytes - 4);
    header.replace(bad.at, bad.bytes.size(), bad.bytes);
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(header.data(), header.size())));
    header.append(reinterpret_cast<const char*>(&crc), 4);
    folder.write("bad", header + good.substr(header_bytes));
    const auto opened = open(spec_of(folder, "bad"), "");
    expect_error(opened.status(), ErrorKind::kBadRequest, {folder.path("bad"), bad.part}, fmt::format("byte {}", bad.at));
  }
}

TEST(Records, RefuseWhatIsNoRecordFile) {
  const TestFolder folder;
  folder.write("text", std::string(500, 'x'));
  expect_error(open(spec_of(folder, "text"), "").status(), ErrorKind::kBadRequest, {"text", "not a record file", "datasets pack"},
               "text");
  expect_error(open(spec_of(folder, "absent"), "").status(), ErrorKind::kBadRequest, {"absent", "No such file"}, "absent");
  expect_error(open("records:" + folder.path(), "").status(), ErrorKind::kBadRequest, {folder.path(), "not a regular file"},
               "folder");
}

TEST(Pack, LeavesNothingBehindWhenASampleCannotBeRead) {
  const TestFolder folder;
  folder.write("images/a/1.png", "not an image");
  const DatasetPair pair = open("images:" + folder.path("images"), "").value();
  expect_error(pack(pair, folder.path("packed"), kSilent), ErrorKind::kBadRequest, {"1.png"}, "pack");
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 1u);
  expect_error(pack(pair, folder.path("nowhere/packed"), kSilent), ErrorKind::kBadRequest, {"nowhere"}, "no folder");
  expect_error(pack(pair, folder.path("images"), kSilent), ErrorKind::kBadRequest, {"images", "folder"}, "a folder");
}

TEST(MiniBatch, PadsTextToItsLongestSentence) {
  const TestFolder folder;
  folder.write("s", "a b c\na\n");
  folder.write("t", "x\nx y\n");
  const DatasetPair pair = open("text:" + folder.path("s") + "," + folder.path("t"), "").value();
  const SystemClock clock;
  MiniBatch batch;
  ASSERT_TRUE(assemble(*pair.train, std::vector<std::int64_t>{0, 1}, clock, batch).ok());
  EXPECT_EQ(batch.input_shape, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(batch.tokens, (std::vector<std::int64_t>{4, 5, 6, kEnd, 4, kEnd, kPad, kPad}));
  EXPECT_EQ(batch.target_shape, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(batch.targets, (std::vector<std::int64_t>{kBegin, 4, kEnd, kPad, kBegin, 4, 5, kEnd}));
}

}  // namespace
}  // namespace paceline::trainer::data
