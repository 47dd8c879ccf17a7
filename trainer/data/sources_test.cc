#include "trainer/data/sources.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "trainer/data/test_files.h"

namespace paceline::trainer::data {
namespace {

// Which of `files`, by their names in the folder, are of the data set.
std::vector<std::string> of(const TestFolder& folder, const std::string& spec, const std::vector<std::string>& files) {
  std::vector<std::string> found;
  for (const std::string& file : files)
    if (is_file_of(spec, folder.path("root"), folder.path(file))) found.push_back(file);
  return found;
}

using Names = std::vector<std::string>;

TEST(Sources, AreBothFilesOfATextAndTheOneOfRecordsHoweverTheyAreNamed) {
  const TestFolder folder;
  folder.write("s.txt", "a\n");
  folder.write("sub/x", "");
  std::filesystem::create_symlink(folder.path("s.txt"), folder.path("link"));
  const std::string text = "text:" + folder.path("s.txt") + "," + folder.path("t.txt");
  const Names asked = {"s.txt", "sub/../s.txt", "./t.txt", "link", "sub/x", "u.txt"};
  EXPECT_EQ(of(folder, text, asked), (Names{"s.txt", "sub/../s.txt", "./t.txt", "link"}));
  EXPECT_EQ(of(folder, "records:" + folder.path("link"), asked), (Names{"s.txt", "sub/../s.txt", "link"}));
  EXPECT_TRUE(is_file_of("text:one,two", "", std::filesystem::current_path() / "two"));
  EXPECT_FALSE(is_file_of(text, "", ""));
}

TEST(Sources, AreTheFilesOfFixedNamesWhereTheyAreLookedFor) {
  const TestFolder folder;
  const Names idx = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
                     "t10k-labels-idx1-ubyte"};
  Names asked = idx;
  asked.insert(asked.end(), {"metrics.jsonl", "train-images-idx3-ubyte.zip", "sub/t10k-labels-idx1-ubyte"});
  EXPECT_EQ(of(folder, "mnist:" + folder.path(), asked), idx);
  EXPECT_EQ(of(folder, "mnist-5k", {"root/mnist-5k/" + idx[0], "root/digits/" + idx[0]}), Names{"root/mnist-5k/" + idx[0]});
  EXPECT_EQ(of(folder, "digits", {"root/mnist-5k/" + idx[0], "root/digits/" + idx[0]}), Names{"root/digits/" + idx[0]});

  const std::string usual = "cifar-10-batches-bin/data_batch_5.bin";
  const Names bins = {"data_batch_1.bin", "test_batch.bin", "data_batch_6.bin", "train.bin", "test.bin", usual};
  EXPECT_EQ(of(folder, "cifar-10:" + folder.path(), bins), (Names{"data_batch_1.bin", "test_batch.bin"}));
  EXPECT_EQ(of(folder, "cifar-100:" + folder.path(), bins), (Names{"train.bin", "test.bin"}));
  folder.write(usual, "");
  EXPECT_EQ(of(folder, "cifar-10:" + folder.path(), bins), Names{usual});
}

TEST(Sources, AreTheImagesInFoldersOfClassesAndNoOtherFileThere) {
  const TestFolder folder;
  folder.write("img/a/0.png", "");
  folder.write("img/train/b/0.JPG", "");
  folder.write("img/.hidden/0.png", "");
  folder.write("store/c/0.png", "");
  folder.write("store/one.png", "");
  std::filesystem::create_directory_symlink(folder.path("store/c"), folder.path("img/c"));
  std::filesystem::create_symlink(folder.path("store/one.png"), folder.path("img/a/one.png"));
  const Names images = {"img/a/0.png",   "img/a/new.jpeg", "img/train/b/0.JPG", "img/c/0.png",
                        "img/a/one.png", "store/c/0.png",  "store/one.png"};
  Names asked = images;
  asked.insert(asked.end(), {"img/metrics.jsonl", "img/top.png", "img/a/notes.txt", "img/a/.0.png", "img/.hidden/0.png",
                             "store/new.png", "elsewhere/0.png"});
  EXPECT_EQ(of(folder, "images:" + folder.path("img") + ",size=32", asked), images);
  EXPECT_EQ(of(folder, "images:" + folder.path("img"), asked), images);
}

TEST(Sources, AreNoDevicesAndPipesAndNothingOfWhatIsMadeUpOrWrong) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(is_file_of("text:/dev/null," + folder.path("pipe"), "", "/dev/null"));
  EXPECT_FALSE(is_file_of("text:/dev/null," + folder.path("pipe"), "", folder.path("pipe")));
  for (const char* spec : {"synthetic:1x4x4", "synthetic", "", "text:x", "nonsense:x", "images:,size=3"})
    EXPECT_FALSE(is_file_of(spec, "", "x")) << spec;
}

}  // namespace
}  // namespace paceline::trainer::data
