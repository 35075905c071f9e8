// new, for pictures with label maps.
#ifdef CREMA_HAVE_OPENCV
#include <algorithm>

#include "data/image/png.h"
#include "tools/job_folder.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

// Pictures of 32x16 and label maps whose left half is 1 and right half is `right`.
class NewSegment : public JobFolder {
 protected:
  static Picture Labels(int right) {
    Picture labels{.width = 32, .height = 16, .channels = 1, .pixels = {}};
    for (int i = 0; i < 32 * 16; ++i) {
      labels.pixels.push_back(static_cast<uint8_t>(i % 32 < 16 ? 1 : right));
    }
    return labels;
  }
  void AddPairs(const std::string& folder, int count, const Picture& labels) {
    for (int i = 0; i < count; ++i) {
      Add(StrCat(folder, "/images/sub/", i, ".png"), Png(Pattern(16, 32, 3, i)));
      Add(StrCat(folder, "/masks/sub/", i, ".png"), EncodePng(labels));
    }
  }
  std::vector<float> ClassWeights() const {
    const NetParameter net = Net();
    for (const LayerParameter& layer : net.layer()) {
      if (layer.type() != "SoftmaxWithLoss") continue;
      return {layer.loss_param().class_weight().begin(), layer.loss_param().class_weight().end()};
    }
    return {};
  }
};

TEST_F(NewSegment, PicturesAndLabelMapsAreOneRecord) {
  AddPairs("gray", 8, Labels(2));
  Picture colored = Labels(2);
  colored.palette = {{0, 0, 0}, {128, 0, 0}, {0, 128, 0}, {128, 128, 0}};
  AddPairs("palette", 8, colored);
  for (const char* folder : {"gray", "palette"}) {
    const std::string out = Made({StrCat("--images=", folder), "--size=64x32"});
    EXPECT_TRUE(Contains(out, "8 pictures of 3 classes in label maps: 7 to train, 1 to test"))
        << out;
    const Records records = ReadAll(temp_.File("job/train_lmdb"));
    ASSERT_EQ(records.size(), 7U);
    const Datum datum = ParseDatum(records[0].second);
    ASSERT_EQ(datum.channels(), 4);
    ASSERT_EQ(datum.width(), 64);
    ASSERT_EQ(datum.height(), 32);
    const std::string labels = datum.data().substr(3 * 64 * 32);
    for (int x = 0; x < 64; ++x) EXPECT_EQ(labels[static_cast<size_t>(x)], x < 32 ? 1 : 2) << x;
    EXPECT_EQ(ParseDatum(ReadAll(temp_.File("job/test_labels_lmdb"))[0].second).data(), labels);
  }
  EXPECT_EQ(temp_.Read("job/labels.txt"), "0\n1\n2\n");
}

TEST_F(NewSegment, NamesComeFromLabelsTxtAndLimitTheLabels) {
  AddPairs("set", 4, Labels(255));
  Add("set/labels.txt", "sky\nground\n");
  Made({"--images=set", "--size=32"});
  EXPECT_EQ(temp_.Read("job/labels.txt"), "sky\nground\n") << "255 is ignored";
  AddPairs("set", 4, Labels(2));
  fs::remove_all(temp_.File("job"));
  ExpectRefused({"--images=set"},
                "set/masks/sub/0.png: has the label 2, but there are 2 classes (0 to 1; 255", 3);
}

TEST_F(NewSegment, TestPicturesHaveTheNumbersOfTheClasses) {
  AddPairs("train", 4, Labels(2));
  AddPairs("test", 2, Labels(1));
  Add("train/labels.txt", "sky\ncat\ndog\n");
  Add("test/labels.txt", "sky\ndog\ncat\n");
  const std::vector<std::string> flags = {"--images=train", "--test=test", "--size=32"};
  ExpectRefused(flags,
                "--test: the classes are sky, dog, cat, but those of --images sky, cat, dog");
  Add("test/labels.txt", "sky\ncat\n");
  Made(flags);
  fs::remove(temp_.File("train/labels.txt"));
  fs::remove(temp_.File("test/labels.txt"));
  Made(flags);
  EXPECT_EQ(temp_.Read("job/labels.txt"), "0\n1\n2\n") << "the tests have 0 and 1";
  fs::remove_all(temp_.File("job"));
  ExpectRefused({"--images=test", "--test=train"}, "--test: the class '2' is not among those");
}

TEST_F(NewSegment, DamagedLabelMapsAreListedOrLeftOut) {
  AddPairs("set", 12, Labels(2));
  for (int i = 0; i < 6; ++i) Add(StrCat("set/masks/sub/", i, ".png"), "no label map");
  Add("set/masks/sub/6.png", Png(Pattern(16, 32)));
  const ProcessResult refused = New({"--images=set"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_TRUE(Contains(refused.err, "7 pictures cannot be read:\n  'set/masks/sub/0.png': "))
      << refused.err;
  EXPECT_TRUE(Contains(refused.err, "set/masks/sub/4.png")) << refused.err;
  EXPECT_TRUE(Contains(refused.err, "and 2 more\n")) << refused.err;
  const std::string out = Made({"--images=set", "--size=32", "--on_bad=skip"});
  EXPECT_TRUE(Contains(out, "Found 5 pictures of 3 classes")) << out;
  EXPECT_TRUE(Contains(out, "'set/masks/sub/6.png': is no label map")) << out;
}

TEST_F(NewSegment, RareClassesCountMore) {
  Picture labels = Labels(0);
  std::fill(labels.pixels.begin() + 16, labels.pixels.end(), uint8_t{0});
  labels.pixels[5] = 2;  // 15 pixels of class 1, one of class 2, 496 of class 0
  AddPairs("set", 4, labels);
  Made({"--images=set", "--size=32"});
  EXPECT_EQ(ClassWeights(), (std::vector<float>{0.17F, 1, 3.87F})) << "sqrt of 15/496 and of 15";
  Add("set/labels.txt", "sky\ncat\ndog\ncow\nowl\nfox\nbee\n");
  Made({"--images=set", "--size=32"});
  EXPECT_EQ(ClassWeights(), (std::vector<float>{0.17F, 1, 3.87F, 1, 1, 1, 1}))
      << "classes without pixels change nothing";
}

TEST_F(NewSegment, PixelsWithoutClassAloneGiveEqualWeights) {
  Picture labels = Labels(255);
  std::ranges::fill(labels.pixels, uint8_t{255});
  AddPairs("set", 4, labels);
  Add("set/labels.txt", "sky\nground\n");
  Made({"--images=set", "--size=32"});
  EXPECT_EQ(ClassWeights(), (std::vector<float>{1, 1}));
}

TEST_F(NewSegment, DrawnDigitsBecomeASegmenter) {
  Run("make_digits", {"--task=segment", "--count=16", "--side=64", "digits"});
  Made({"--images=digits", "--size=32", "--epochs=2", "--batch=4"});
  Run("train", {"--solver=job/solver.prototxt", "--threads=1"});
  EXPECT_TRUE(Contains(Run("evaluate", {"--model=job/train_val.prototxt",
                                        "--weights=job/runs/unet128_best.caffemodel"}),
                       "2 samples"));
  Run("deploy", {"export", "--run=job/runs/unet128_run", "-o", "m.crema"});
  const std::string shares =
      Run("deploy", {"segment", "--model=m.crema", "digits/images/000003.jpg"});
  EXPECT_TRUE(Contains(shares, "background")) << shares;
}

TEST_F(NewSegment, RefusesPairsThatDoNotFit) {
  AddPairs("set", 4, Labels(0));
  Add("set/masks/sub/2.png", Png(Pattern(16, 32)));
  ExpectRefused({"--images=set"}, "2.png': is no label map: it has 3 channels and no palette", 3);
  fs::remove(temp_.File("set/masks/sub/2.png"));
  ExpectRefused({"--images=set"}, "'set/images/sub/2.png' has no label map 'set/masks/sub/2", 3);
  fs::remove(temp_.File("set/images/sub/2.png"));
  Add("set/masks/more.png", EncodePng(Labels(0)));
  ExpectRefused({"--images=set"}, "the label map 'set/masks/more.png' has no picture", 3);
  fs::remove(temp_.File("set/masks/more.png"));
  for (int i = 0; i < 4; ++i) {
    if (i != 2) Add(StrCat("set/images/sub/", i, ".png"), Png(Pattern(8, 8)));
  }
  ExpectRefused({"--images=set"}, "is 32x16, but its picture 'sub/", 3);
}

}  // namespace
}  // namespace crema::test
#endif
