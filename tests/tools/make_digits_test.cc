// make_digits as files: class folders, boxes, label maps.
#ifdef CREMA_HAVE_OPENCV
#include <set>

#include "tools/job_folder.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class MakeDigits : public JobFolder {
 protected:
  std::set<std::string> FilesIn(const std::string& folder) const {
    std::set<std::string> files;
    for (const auto& entry : fs::directory_iterator(temp_.File(folder))) {
      files.insert(entry.path().filename().string());
    }
    return files;
  }
  void ExpectRefusal(const std::vector<std::string>& flags, const std::string& message) {
    const ProcessResult result = RunTool("make_digits", flags, temp_.path());
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(Contains(result.err, message)) << result.err;
  }
};

TEST_F(MakeDigits, FoldersHoldTheDigitsOfTheirNames) {
  Run("make_digits", {"--layout=folders", "--count=30", "a"});
  for (const std::string& digit : FilesIn("a")) {
    EXPECT_EQ(FilesIn("a/" + digit).size(), 3U) << digit;
  }
  Run("make_digits", {"--count=30", "--png=all", "--png_count=30", "lmdb"});
  for (int label = 0; label < 10; ++label) {
    for (const std::string& name : FilesIn(StrCat("a/", label))) {
      const std::string same = StrCat("all/", std::stoi(name), "_", label, ".png");
      EXPECT_TRUE(fs::exists(temp_.File(same))) << same;
    }
  }
}

#ifdef CREMA_HAVE_EXPAT
TEST_F(MakeDigits, BoxesAreInTheLayoutOfVocAndDependOnTheSeed) {
  Run("make_digits", {"--task=detect", "--count=12", "--side=80", "a"});
  Run("make_digits", {"--task=detect", "--count=12", "--side=80", "b"});
  Run("make_digits", {"--task=detect", "--count=12", "--side=80", "--seed=2", "c"});
  const std::string first = "/Annotations/000003.xml";
  EXPECT_EQ(temp_.Read("a" + first), temp_.Read("b" + first));
  EXPECT_NE(temp_.Read("a" + first), temp_.Read("c" + first));
  const ProcessResult converted = RunTool(
      "convert_boxes", {"--find_classes", "--write_labelmap=map", "a", "lmdb"}, temp_.path());
  EXPECT_EQ(converted.exit_code, 0) << converted.err;
  EXPECT_TRUE(Contains(converted.out, "Wrote 12 images")) << converted.out;
  EXPECT_EQ(converted.err, "") << "no box is outside";
}
#endif

TEST_F(MakeDigits, LabelMapsHaveTheSizeOfTheirPictures) {
  Run("make_digits", {"--task=segment", "--count=5", "--side=72", "a"});
  EXPECT_EQ(FilesIn("a/images").size(), 5U);
  for (const std::string& name : FilesIn("a/images")) {
    Image image;
    DecodeImage(temp_.Read("a/images/" + name), ColorMode::kAsStored, name, &image);
    EXPECT_EQ(image.width, 72);
    const std::string mask = "a/masks/" + name.substr(0, 6) + ".png";
    DecodeImage(temp_.Read(mask), ColorMode::kAsStored, mask, &image);
    EXPECT_EQ(image.height, 72);
  }
  EXPECT_EQ(LinesOf("a/labels.txt").size(), 11U);
}

TEST_F(MakeDigits, RefusesWhatItWouldReplaceAndFlagsThatDoNotFit) {
  fs::create_directories(temp_.File("a"));
  ExpectRefusal({"--layout=folders", "a"}, "'a' exists already");
  ExpectRefusal({"--task=detct", "b"}, "--task: 'detct' is not one of classify, detect, segment");
  ExpectRefusal({"--task=detect", "--layout=folders", "b"}, "--layout=folders is for --task=cl");
  ExpectRefusal({"--task=segment", "--png=p", "b"}, "--png is for an LMDB of digits");
  ExpectRefusal({"--task=detect", "--side=10", "b"}, "--side is 10, but must be 64 to 4096");
}

}  // namespace
}  // namespace crema::test
#endif  // CREMA_HAVE_OPENCV
