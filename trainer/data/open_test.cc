#include "trainer/data/open.h"

#include <cmath>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "trainer/data/test_files.h"

namespace paceline::trainer::data {
namespace {

const std::string kTrainImages = "train-images-idx3-ubyte", kTrainLabels = "train-labels-idx1-ubyte",
                  kTestImages = "t10k-images-idx3-ubyte", kTestLabels = "t10k-labels-idx1-ubyte";

void write_mnist(const TestFolder& folder, const std::string& at, std::uint32_t train, std::uint32_t test) {
  folder.write(at + kTrainImages, idx_images(train, 5, 4));
  folder.write(at + kTrainLabels, idx_labels(train));
  folder.write(at + kTestImages, idx_images(test, 5, 4));
  folder.write(at + kTestLabels, idx_labels(test));
}

struct Read {
  std::vector<float> input;
  std::int64_t label;
};
Read read(const Dataset& set, std::int64_t index) {
  Read result{std::vector<float>(static_cast<std::size_t>(input_values(set.form()))), -1};
  const Status status = set.read(index, result.input, std::span(&result.label, 1));
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

TEST(OpenMnist, ReadsPlainAndCompressedFilesAlike) {
  const TestFolder folder;
  write_mnist(folder, "plain/", 13, 4);
  write_mnist(folder, "gz/", 13, 4);
  for (const auto& name : {kTrainImages, kTrainLabels, kTestImages, kTestLabels}) {
    folder.write("gz/" + name + ".gz", gzipped(folder.read("gz/" + name)));
    std::filesystem::remove(folder.path("gz/" + name));
  }
  for (const char* which : {"plain", "gz"}) {
    const auto pair = open("mnist:" + folder.path(which), "");
    ASSERT_TRUE(pair.ok()) << pair.status().message();
    EXPECT_EQ(pair->train->size(), 13);
    EXPECT_EQ(pair->test->size(), 4);
    EXPECT_EQ(pair->train->form().shape, (std::vector<std::int64_t>{1, 5, 4}));
    EXPECT_EQ(pair->train->form().classes, 10);
    const Read twelfth = read(*pair->train, 12);
    EXPECT_EQ(twelfth.label, 2);
    for (std::size_t i = 0; i < 20; ++i) {
      ASSERT_FLOAT_EQ(twelfth.input[i], (static_cast<float>((240 + i) % 251) / 255.0f - 0.1307f) / 0.3081f) << i;
    }
  }
}

TEST(OpenMnist, TakesTheShippedSetsFromTheDataRoot) {
  const TestFolder folder;
  write_mnist(folder, "mnist-5k/", 20, 10);
  write_mnist(folder, "digits/", 20, 10);
  EXPECT_EQ(open("mnist-5k", folder.path())->train->size(), 20);
  const auto digits = open("digits", folder.path());
  EXPECT_FLOAT_EQ(read(*digits->train, 0).input[1], (1 / 255.0f - 0.5f) / 0.5f);
  expect_error(open("digits", folder.path("elsewhere")).status(), ErrorKind::kBadRequest,
               {"digits", folder.path("elsewhere"), "scripts/setup"}, "not set up");
}

TEST(OpenMnist, RefusesBadFilesAndSaysWhichAndWhy) {
  struct Case {
    std::string what;
    std::function<void(const TestFolder&)> spoil;
    std::vector<std::string> parts;
  };
  const auto replace = [](const std::string& name, const std::string& content) {
    return [=](const TestFolder& f) { f.write(name, content); };
  };
  const auto compressed = [](const std::string& name, const std::string& content) {
    return [=](const TestFolder& f) {
      std::filesystem::remove(f.path(name));
      f.write(name + ".gz", content);
    };
  };
  std::string bad_label = idx_labels(13), damaged = gzipped(idx_images(13, 5, 4));
  bad_label[8 + 6] = 10;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  const std::string whole = gzipped(idx_images(13, 5, 4));
  const std::vector<Case> cases = {
      {"missing file",
       [](const TestFolder& f) { std::filesystem::remove(f.path(kTestLabels)); },
       {kTestLabels, "no such file", ".gz"}},
      {"a folder in its place",
       [](const TestFolder& f) {
         std::filesystem::remove(f.path(kTestLabels));
         std::filesystem::create_directory(f.path(kTestLabels));
       },
       {kTestLabels, "not a regular file"}},
      {"empty file", replace(kTrainImages, ""), {kTrainImages, "truncated", "0 bytes", "16"}},
      {"half a header", replace(kTrainImages, big_endian({0x803, 13})), {kTrainImages, "truncated", "8 bytes"}},
      {"truncated pixels", replace(kTrainImages, idx_images(13, 5, 4).substr(0, 200)), {kTrainImages, "truncated", "184", "260"}},
      {"one byte too many", replace(kTrainImages, idx_images(13, 5, 4) + "x"), {kTrainImages, "wrong size", "260"}},
      {"labels for images", replace(kTrainImages, idx_labels(13)), {kTrainImages, "0x00000801", "0x00000803"}},
      {"images for labels", replace(kTrainLabels, idx_images(13, 5, 4)), {kTrainLabels, "0x00000803", "0x00000801"}},
      {"text", replace(kTrainLabels, "hello, world"), {kTrainLabels, "magic 0x68656c6c"}},
      {"no samples", replace(kTrainImages, big_endian({0x803, 0, 5, 4})), {kTrainImages, "no samples"}},
      {"no labels", replace(kTrainLabels, big_endian({0x801, 0})), {kTrainLabels, "no samples"}},
      {"no pixels", replace(kTrainImages, big_endian({0x803, 13, 0, 4})), {kTrainImages, "0 x 4"}},
      {"absurd sides", replace(kTrainImages, big_endian({0x803, 13, 5, 0xffffffff})), {kTrainImages, "5 x 4294967295"}},
      {"absurd count", replace(kTrainImages, big_endian({0x803, 0xffffffff, 5, 4})), {kTrainImages, "4294967295"}},
      {"large count, small file",
       replace(kTrainImages, big_endian({0x803, 100000000, 5, 4})),
       {kTrainImages, "truncated", "2000000000"}},
      {"fewer labels", replace(kTrainLabels, idx_labels(12)), {kTrainImages, kTrainLabels, "13 images", "12 labels"}},
      {"more labels", replace(kTestLabels, idx_labels(5)), {kTestImages, kTestLabels, "4 images", "5 labels"}},
      {"label out of range", replace(kTrainLabels, bad_label), {kTrainLabels, "label 10 of sample 6", "0..9"}},
      {"halves of different size", replace(kTestImages, idx_images(4, 4, 5)), {"5 x 4", "4 x 5"}},
      {"gzip cut off", compressed(kTrainImages, whole.substr(0, whole.size() - 9)), {kTrainImages + ".gz", "truncated"}},
      {"gzip cut off in its head", compressed(kTrainImages, whole.substr(0, 5)), {kTrainImages + ".gz", "truncated"}},
      {"gzip damaged", compressed(kTrainImages, damaged), {kTrainImages + ".gz", "damaged"}},
      {"gzip with too little",
       compressed(kTrainImages, gzipped(idx_images(13, 5, 4).substr(0, 100))),
       {kTrainImages + ".gz", "truncated", "84", "260"}},
      {"gzip bomb",
       compressed(kTrainImages,
                  gzipped(idx_images(13, 5, 4) + std::string(50000000, '\0'))),  // NOLINT(bugprone-string-constructor)
       {kTrainImages + ".gz", "wrong size", "260"}},
      {"gzip of the wrong thing", compressed(kTrainImages, gzipped("hello, world")), {kTrainImages + ".gz", "magic"}},
  };
  for (const Case& bad : cases) {
    const TestFolder folder;
    write_mnist(folder, "", 13, 4);
    ASSERT_TRUE(open("mnist:" + folder.path(), "").ok());
    bad.spoil(folder);
    expect_error(open("mnist:" + folder.path(), "").status(), ErrorKind::kBadRequest, bad.parts, bad.what);
  }
  expect_error(open("mnist:/nowhere", "").status(), ErrorKind::kBadRequest, {"/nowhere", "not a folder"}, "no folder");
}

// Records whose pixels all equal the record's number.
std::string cifar(int records, int label_bytes, int first = 0) {
  std::string bytes;
  for (int i = 0; i < records; ++i) {
    if (label_bytes == 2) bytes += static_cast<char>((first + i) % 20);
    bytes += static_cast<char>((first + i) % 10 + (label_bytes == 2 ? 90 : 0));
    bytes += std::string(3072, static_cast<char>(first + i));
  }
  return bytes;
}

void write_cifar_10(const TestFolder& folder, const std::string& at) {
  for (int i = 0; i < 5; ++i) folder.write(at + "data_batch_" + std::to_string(i + 1) + ".bin", cifar(i + 1, 1, i * 10));
  folder.write(at + "test_batch.bin", cifar(3, 1, 100));
}

TEST(OpenCifar, ReadsBothVersionsAlsoFromTheirUsualSubfolders) {
  const TestFolder folder;
  write_cifar_10(folder, "plain/");
  write_cifar_10(folder, "nested/cifar-10-batches-bin/");
  for (const char* which : {"plain", "nested"}) {
    const auto pair = open("cifar-10:" + folder.path(which), "");
    ASSERT_TRUE(pair.ok()) << pair.status().message();
    EXPECT_EQ(pair->train->size(), 15);
    EXPECT_EQ(pair->test->size(), 3);
    const int numbers[] = {0, 10, 11, 20, 21, 22, 30, 31, 32, 33, 40, 41, 42, 43, 44};
    for (int i = 0; i < 15; ++i) {
      const Read sample = read(*pair->train, i);
      EXPECT_EQ(sample.label, numbers[i] % 10);
      EXPECT_FLOAT_EQ(sample.input[0], (static_cast<float>(numbers[i]) / 255 - 0.4914f) / 0.2470f);
      EXPECT_FLOAT_EQ(sample.input[3071], (static_cast<float>(numbers[i]) / 255 - 0.4465f) / 0.2616f);
    }
  }
  folder.write("hundred/train.bin", cifar(4, 2));
  folder.write("hundred/test.bin", cifar(2, 2));
  const auto pair = open("cifar-100:" + folder.path("hundred"), "");
  ASSERT_TRUE(pair.ok()) << pair.status().message();
  EXPECT_EQ(pair->train->form().classes, 100);
  EXPECT_EQ(read(*pair->train, 3).label, 93);
}

TEST(OpenCifar, RefusesBadFilesAndSaysWhichAndWhy) {
  struct Case {
    std::string what, file, content;
    std::vector<std::string> parts;
  };
  std::string bad_label = cifar(3, 1);
  bad_label[3073 * 2] = 10;
  for (const Case& bad :
       std::vector<Case>{{"truncated", "data_batch_3.bin", cifar(3, 1).substr(0, 9000), {"data_batch_3.bin", "9000", "3073"}},
                         {"empty", "test_batch.bin", "", {"test_batch.bin", "0 bytes"}},
                         {"label", "data_batch_5.bin", bad_label, {"data_batch_5.bin", "label 10 of record 2", "0..9"}}}) {
    const TestFolder folder;
    write_cifar_10(folder, "");
    folder.write(bad.file, bad.content);
    expect_error(open("cifar-10:" + folder.path(), "").status(), ErrorKind::kBadRequest, bad.parts, bad.what);
  }
  const TestFolder folder;
  write_cifar_10(folder, "");
  std::filesystem::remove(folder.path("data_batch_4.bin"));
  expect_error(open("cifar-10:" + folder.path(), "").status(), ErrorKind::kBadRequest, {"data_batch_4.bin", "No such file"},
               "missing batch");
  expect_error(open("cifar-100:" + folder.path(), "").status(), ErrorKind::kBadRequest, {"train.bin", "No such file"},
               "the other version");
  expect_error(open("cifar-10:/nowhere", "").status(), ErrorKind::kBadRequest, {"/nowhere", "not a folder", "data_batch_1.bin"},
               "no folder");
}

std::string grey_png(std::uint8_t value) { return png(6, 4, plain_colour(6, 4, {value, value, value})); }

TEST(OpenImages, TestsWithEveryTenthFileOfAClassByName) {
  const TestFolder folder;
  for (int i = 0; i < 21; ++i) folder.write(fmt::format("cats/{:02}.png", i), grey_png(static_cast<std::uint8_t>(i)));
  for (int i = 0; i < 3; ++i) folder.write(fmt::format("ants/{}.JPG", i), jpeg(8, 8, plain_colour(8, 8, {200, 200, 200})));
  folder.write("cats/notes.txt", "passed over");
  folder.write(".hidden/x.png", "passed over");
  const auto pair = open("images:" + folder.path() + ",size=2", "");
  ASSERT_TRUE(pair.ok()) << pair.status().message();
  EXPECT_EQ(pair->train->form().shape, (std::vector<std::int64_t>{3, 2, 2}));
  EXPECT_EQ(pair->train->form().classes, 2);
  ASSERT_EQ(pair->train->size(), 22);
  ASSERT_EQ(pair->test->size(), 2);
  EXPECT_EQ(read(*pair->train, 0).label, 0);  // ants come first
  const auto value = [](const Read& sample) { return static_cast<int>(std::lround((sample.input[0] * 0.229f + 0.485f) * 255)); };
  EXPECT_EQ(value(read(*pair->test, 0)), 9);
  EXPECT_EQ(value(read(*pair->test, 1)), 19);
  EXPECT_EQ(read(*pair->test, 1).label, 1);
  EXPECT_EQ(value(read(*pair->train, 3 + 9)), 10);
  EXPECT_TRUE(pair->train->verify().ok());
}

TEST(OpenImages, SayHowATrainedModelWantsItsPictures) {
  const TestFolder folder;
  for (const char* name : {"cats", "ants"}) folder.write(fmt::format("{}/1.png", name), grey_png(7));
  const auto pair = open("images:" + folder.path() + ",size=2", "");
  ASSERT_TRUE(pair.ok()) << pair.status().message();
  EXPECT_EQ(pair->class_names, (std::vector<std::string>{"ants", "cats"}));
  const auto lines = described(*pair);
  const std::map<std::string, std::string> by_name(lines.begin(), lines.end());
  EXPECT_EQ(by_name.at("input"), "3 x 2 x 2 float32 (channels x height x width): (byte / 255 - mean) / deviation");
  EXPECT_EQ(by_name.at("mean"), "0.485 0.456 0.406");
  EXPECT_EQ(by_name.at("deviation"), "0.229 0.224 0.225");
  EXPECT_EQ(by_name.at("preparation"),
            "RGB; the shorter side is scaled to 2 (bilinear, averaging), and the middle 2 x 2 is cut out");
  EXPECT_EQ(by_name.at("class_names"), "ants\ncats");
}

TEST(OpenImages, TakesTrainAndTestFoldersWhereThereAre) {
  for (const char* half : {"test", "val"}) {
    const TestFolder folder;
    for (int i = 0; i < 12; ++i) folder.write(fmt::format("train/b/{:02}.png", i), grey_png(1));
    folder.write("train/a/1.png", grey_png(1));
    folder.write(std::string(half) + "/b/1.png", grey_png(1));
    const auto pair = open("images:" + folder.path(), "");
    ASSERT_TRUE(pair.ok()) << pair.status().message();
    EXPECT_EQ(pair->train->size(), 13);
    EXPECT_EQ(pair->test->size(), 1);
    EXPECT_EQ(pair->train->form().shape, (std::vector<std::int64_t>{3, 224, 224}));
    Sample sample;
    ASSERT_TRUE(pair->test->load(0, sample).ok());
    EXPECT_EQ(sample.target, (std::vector<std::int64_t>{1}));
    folder.write(std::string(half) + "/c/1.png", grey_png(1));
    expect_error(open("images:" + folder.path(), "").status(), ErrorKind::kBadRequest, {half, "'c'", "train"},
                 "unknown test class");
  }
}

TEST(OpenImages, RefusesFoldersWithoutWhatIsNeeded) {
  const TestFolder folder;
  const std::string spec = "images:" + folder.path();
  expect_error(open(spec, "").status(), ErrorKind::kBadRequest, {folder.path(), "no folder", "one for each class"}, "no classes");
  folder.write("a/1.png", grey_png(1));
  folder.write("b/readme.txt", "");
  expect_error(open(spec, "").status(), ErrorKind::kBadRequest, {folder.path("b"), "no image"}, "empty class");
  expect_error(open("images:/nowhere", "").status(), ErrorKind::kBadRequest, {"/nowhere"}, "no such folder");
  expect_error(open(spec + ",size=0", "").status(), ErrorKind::kBadRequest, {"'size' is 0", "1..4096"}, "size 0");
  expect_error(open(spec + ",size=4097", "").status(), ErrorKind::kBadRequest, {"4097"}, "size too large");
  expect_error(open(spec + ",size=big", "").status(), ErrorKind::kBadRequest, {"'size'", "'big'"}, "no number");
  expect_error(open(spec + ",sise=3", "").status(), ErrorKind::kBadRequest, {"'sise'", "did you mean 'size'"}, "unknown option");
  expect_error(open("images:,size=3", "").status(), ErrorKind::kBadRequest, {"nothing stands"}, "no folder given");
}

TEST(OpenImages, NamesTheImageThatCannotBeRead) {
  const TestFolder folder;
  folder.write("a/1.png", grey_png(1));
  folder.write("a/2.png", "not an image");
  folder.write("a/3.png", grey_png(7).substr(0, 50));
  folder.write("a/4.jpg", jpeg(64, 64, plain_colour(64, 64, {9, 90, 200})).substr(0, 640));
  folder.write("a/5.jpg", "");
  const auto pair = open("images:" + folder.path() + ",size=2", "");
  ASSERT_TRUE(pair.ok());
  std::vector<float> input(12);
  std::int64_t label = 0;
  EXPECT_TRUE(pair->train->read(0, input, std::span(&label, 1)).ok());
  for (const int i : {1, 2, 3, 4}) {
    const std::string name = fmt::format("a/{}.", i + 1);
    expect_error(pair->train->read(i, input, std::span(&label, 1)), ErrorKind::kBadRequest, {name, "unreadable"}, name);
  }
  expect_error(pair->train->verify(), ErrorKind::kBadRequest, {"a/2.png", "unreadable"}, "verify");
}

TEST(OpenText, BuildsVocabulariesByFrequencyThenBytes) {
  const TestFolder folder;
  std::string source, target;
  for (int i = 0; i < 20; ++i) {
    source += i < 18 ? "the  cat\tsat\r\n" : "the unseen\n";
    target += i == 0 ? "zwei eins zwei\n" : "zwei\n";
  }
  folder.write("s", source);
  folder.write("t", target);
  const auto pair = open("text:" + folder.path("s") + "," + folder.path("t"), "");
  ASSERT_TRUE(pair.ok()) << pair.status().message();
  EXPECT_EQ(pair->train->size(), 18);
  EXPECT_EQ(pair->test->size(), 2);
  EXPECT_EQ(pair->train->form().source_vocabulary, 4 + 3);
  EXPECT_EQ(pair->train->form().classes, 4 + 2);
  Sample sample;
  ASSERT_TRUE(pair->train->load(0, sample).ok());
  EXPECT_EQ(sample.tokens, (std::vector<std::int64_t>{6, 4, 5, kEnd}));  // equally frequent: cat, sat, the
  EXPECT_EQ(sample.target, (std::vector<std::int64_t>{kBegin, 4, 5, 4, kEnd}));
  EXPECT_EQ(pair->train->length(0), 4);
  ASSERT_TRUE(pair->test->load(1, sample).ok());
  EXPECT_EQ(sample.tokens, (std::vector<std::int64_t>{6, kUnknown, kEnd}));
}

TEST(OpenText, CapsVocabulariesAndLeavesLongPairsOut) {
  const TestFolder folder;
  std::string source, target;
  for (int i = 0; i < 18000; ++i) {
    source += fmt::format("w{:05}\n", i);
    target += fmt::format("v{:05}\n", i);
  }
  std::string hundred, more;
  for (int i = 0; i < 100; ++i) hundred += "x ";
  more = hundred + "x";
  folder.write("s", hundred + "\n" + more + "\n\n" + source);
  folder.write("t", "y\ny\n\n" + target);
  const auto pair = open("text:" + folder.path("s") + "," + folder.path("t"), "");
  ASSERT_TRUE(pair.ok()) << pair.status().message();
  EXPECT_EQ(pair->train->size() + pair->test->size(), 18002);  // the empty pair stays
  EXPECT_EQ(pair->test->size(), 1800);
  EXPECT_EQ(pair->train->length(0), 101);
  EXPECT_EQ(pair->train->length(1), 1);
  EXPECT_EQ(pair->train->form().classes, 7709);
  EXPECT_EQ(pair->train->form().source_vocabulary, 16200 + 4 + 1);  // fewer words than 17191
  EXPECT_NE(pair->note.find("1 pairs"), std::string::npos) << pair->note;
}

TEST(OpenText, RefusesWhatDoesNotBelongTogether) {
  const TestFolder folder;
  folder.write("two", "a\nb\n");
  folder.write("three", "a\nb\nc");
  folder.write("none", "");
  const auto spec = [&](const std::string& s, const std::string& t) { return "text:" + folder.path(s) + "," + folder.path(t); };
  expect_error(open(spec("two", "three"), "").status(), ErrorKind::kBadRequest, {"two: 2 lines", "3 lines", "three"}, "counts");
  expect_error(open(spec("none", "none"), "").status(), ErrorKind::kBadRequest, {"none", "no samples"}, "empty");
  expect_error(open(spec("two", "absent"), "").status(), ErrorKind::kBadRequest, {"absent", "No such file"}, "missing");
  for (const char* incomplete : {"text:", "text:a", "text:a,", "text:,b", "text:a,b,c"}) {
    expect_error(open(incomplete, "").status(), ErrorKind::kBadRequest, {incomplete, "SOURCE,TARGET"}, incomplete);
  }
}

TEST(OpenSynthetic, GivesTheSameBytesOnEveryMachine) {
  const auto pair = open("synthetic:3x32x32,classes=10,samples=1000,seed=1", "");
  ASSERT_TRUE(pair.ok()) << pair.status().message();
  EXPECT_EQ(pair->train->size(), 1000);
  EXPECT_EQ(pair->test->size(), 200);
  Sample sample;
  std::uint32_t crc = 0;
  for (const auto& [set, index] : {std::pair{pair->train, 0}, std::pair{pair->train, 999}, std::pair{pair->test, 3}}) {
    ASSERT_TRUE(set->load(index, sample).ok());
    EXPECT_EQ(sample.target.front(), index % 10);
    crc = crc32c(std::as_bytes(std::span(sample.pixels)), crc);
  }
  EXPECT_EQ(crc, 2327439417u);  // computed by a Python twin of synthetic.h's description
}

TEST(OpenSynthetic, HasClassesThatCanBeLearned) {
  const auto pair = open("synthetic:1x12x12,classes=7,samples=700,test=70,seed=3", "").value();
  // Nearest class mean, learned from the training half, must name the test half.
  std::vector<std::vector<double>> means(7, std::vector<double>(144));
  Sample sample;
  for (std::int64_t i = 0; i < 700; ++i) {
    ASSERT_TRUE(pair.train->load(i, sample).ok());
    for (std::size_t p = 0; p < 144; ++p) means[static_cast<std::size_t>(sample.target[0])][p] += sample.pixels[p] / 100.0;
  }
  int right = 0;
  for (std::int64_t i = 0; i < 70; ++i) {
    ASSERT_TRUE(pair.test->load(i, sample).ok());
    std::size_t best = 0;
    double least = 1e300;
    for (std::size_t c = 0; c < 7; ++c) {
      double distance = 0;
      for (std::size_t p = 0; p < 144; ++p) distance += (means[c][p] - sample.pixels[p]) * (means[c][p] - sample.pixels[p]);
      if (distance < least) least = distance, best = c;
    }
    right += static_cast<std::int64_t>(best) == sample.target[0];
  }
  EXPECT_GE(right, 68);
}

TEST(OpenSynthetic, DiffersBySeedAndSample) {
  const auto one = open("synthetic:1x8x8,seed=1", "").value(), two = open("synthetic:1x8x8,seed=2", "").value();
  EXPECT_NE(read(*one.train, 0).input, read(*two.train, 0).input);
  EXPECT_NE(read(*one.train, 0).input, read(*one.train, 10).input);
  EXPECT_NE(read(*one.train, 0).input, read(*one.test, 0).input);
}

TEST(Open, RefusesWrongRequests) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"", {"unknown data set ''", "mnist-5k"}},
      {"minst-5k", {"'minst-5k'", "did you mean 'mnist-5k'"}},
      {"cifar10:/data", {"did you mean 'cifar-10'"}},
      {"quite something else", {"quite something else", "known are"}},
      {"mnist-5k:/data", {"mnist-5k takes nothing"}},
      {"mnist", {"mnist:DIR"}},
      {"mnist:", {"mnist:DIR"}},
      {"records", {"records:FILE"}},
      {"synthetic", {"synthetic:CxHxW"}},
      {"synthetic:3x32", {"'3x32'", "3x32x32"}},
      {"synthetic:3x32x32x1", {"'3x32x32x1'"}},
      {"synthetic:3x32x", {"''", "whole number"}},
      {"synthetic:3xax32", {"'a'", "whole number"}},
      {"synthetic:0x32x32", {"channels is 0"}},
      {"synthetic:3x-1x32", {"height is -1"}},
      {"synthetic:3x65536x65536", {"values of a sample"}},
      {"synthetic:99999999999999999999x1x1", {"whole number"}},
      {"synthetic:3x8x8,samples=0", {"'samples' is 0"}},
      {"synthetic:3x8x8,samples=", {"'samples' is ''"}},
      {"synthetic:3x8x8,clases=3", {"did you mean 'classes'"}},
      {"synthetic:3x8x8,seed=1,seed=2", {"'seed' twice"}},
      {"synthetic:3x8x8,seed=-1", {"'seed'", "'-1'"}},
  };
  for (const auto& [spec, parts] : cases) expect_error(open(spec, "").status(), ErrorKind::kBadRequest, parts, spec);
}

TEST(Open, KnowsEveryKindItLists) {
  for (const Kind& kind : kinds()) {
    const auto opened = open(kind.name + (kind.argument.empty() ? "" : ":/nowhere"), "/nowhere");
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().message().find("unknown data set"), std::string::npos) << kind.name;
  }
}

}  // namespace
}  // namespace paceline::trainer::data
