#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {
namespace {

// Different for each number.
Datum Numbered(int number, int label) { return RawDatum(Pattern(2, 3, 3, number), label); }

std::vector<Datum> GoodSet(int count, int first = 0) {
  std::vector<Datum> set;
  for (int i = first; i < first + count; ++i) set.push_back(Numbered(i, i % 3));
  return set;
}

class CheckData : public ::testing::Test {
 protected:
  template <typename Message>
  std::string Set(const std::string& name, const std::vector<Message>& records) {
    WriteSet(temp_.File(name), records);
    return temp_.File(name);
  }
  static ProcessResult Run(const std::vector<std::string>& arguments) {
    return RunTool("check_data", arguments);
  }
  TempDir temp_;
};

TEST_F(CheckData, GoodSetsPass) {
  const std::string train = Set("train", GoodSet(9));
  const std::string test = Set("test", GoodSet(4, 20));
  const ProcessResult result = Run({train, test});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(Contains(result.out, "train: 9 records, 3x2x3")) << result.out;
  EXPECT_TRUE(Contains(result.out, "3 labels, 3 to 3 images each")) << result.out;
  EXPECT_TRUE(Contains(result.out, "0  ######")) << result.out;
  EXPECT_TRUE(Contains(result.out, "no problems found"));
}

TEST_F(CheckData, JsonSaysTheSame) {
  const std::string train = Set("train", GoodSet(9));
  const ProcessResult result = Run({"--json", "-j", "3", train});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out,
            StrCat("{\"sets\":[{\"path\":\"", train,
                   "\",\"records\":9,\"encoded\":0,\"annotated\":0,\"broken\":0,\"gray\":0,",
                   "\"gray_in_color\":0,\"alpha\":0,\"boxes\":0,\"bad_boxes\":0,",
                   "\"labels\":{\"0\":3,\"1\":3,\"2\":3},\"sizes\":{\"3x2x3\":9}}],",
                   "\"findings\":[]}\n"));
}

TEST_F(CheckData, BrokenRecordsAndNegativeLabels) {
  std::vector<Datum> set = GoodSet(5);
  set[1].set_data("short");
  set[3].set_label(-4);
  const ProcessResult result = Run({Set("db", set)});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.out, "1 records that cannot be read\n    record \"00000001\""))
      << result.out;
  EXPECT_TRUE(Contains(result.out, "1 negative labels\n    00000003: -4")) << result.out;
}

TEST_F(CheckData, PipesAreAFaultOfTheData) {
  std::filesystem::create_directory(temp_.File("shards"));
  ASSERT_EQ(mkfifo(temp_.File("shards/a.tar").c_str(), 0600), 0);
  const ProcessResult result = Run({temp_.File("shards")});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.err, "a.tar: is a pipe or a device")) << result.err;
}

TEST_F(CheckData, GapsAreNotes) {
  std::vector<Datum> set = GoodSet(6);
  set[0].set_label(5);
  const std::string path = Set("db", set);
  const ProcessResult result = Run({path});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(Contains(result.out, "note: " + path + ": 2 labels that nothing has\n    3\n    4\n"))
      << result.out;
  EXPECT_EQ(Run({"--strict", path}).exit_code, 3);
}

TEST_F(CheckData, DuplicatesWithinAndAcross) {
  std::vector<Datum> train = GoodSet(6);
  train.push_back(Numbered(2, 2));  // again
  train.push_back(Numbered(4, 0));  // again, under another label
  const std::string train_path = Set("train", train);
  const ProcessResult alone = Run({train_path});
  EXPECT_EQ(alone.exit_code, 3);
  EXPECT_TRUE(Contains(alone.out, "2 images that are there before")) << alone.out;
  EXPECT_TRUE(Contains(alone.out, "00000002 (label 2) = 00000006 (label 2)")) << alone.out;
  EXPECT_TRUE(Contains(alone.out,
                       "1 equal images with different labels\n    "
                       "00000004 (label 1) = 00000007 (label 0)"))
      << alone.out;

  const std::string clean = Set("clean", GoodSet(6));
  const std::string test = Set("test", std::vector<Datum>{Numbered(30, 0), Numbered(5, 2)});
  const ProcessResult both = Run({clean, test});
  EXPECT_EQ(both.exit_code, 3);
  EXPECT_TRUE(Contains(both.out,
                       "1 images that the training set has, too\n    "
                       "00000001 (label 2) = 00000005 (label 2)"))
      << both.out;
  EXPECT_TRUE(Contains(Run({"--json", clean, test}).out, "\"kind\":\"leaks\""));
}

TEST_F(CheckData, SizeIsPartOfTheContent) {
  Datum wide = Numbered(1, 0);
  Datum high = wide;
  high.set_height(3);
  high.set_width(2);
  const ProcessResult result = Run({Set("db", std::vector<Datum>{wide, high})});
  EXPECT_FALSE(Contains(result.out, "there before")) << result.out;
  EXPECT_TRUE(Contains(result.out, "3x2x3: 1\n    3x3x2: 1")) << result.out;
}

TEST_F(CheckData, TestLabelsThatTrainingLacks) {
  const ProcessResult result =
      Run({Set("train", GoodSet(6)), Set("test", std::vector<Datum>{Numbered(40, 7)})});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.out, "1 labels that the training set lacks\n    7 (1 times)"))
      << result.out;
}

TEST_F(CheckData, Boxes) {
  std::vector<AnnotatedDatum> set(3);
  const auto add = [](AnnotatedDatum* datum, int label, float xmin, float ymin, float xmax,
                      float ymax) {
    AnnotationGroup* group = datum->add_annotation_group();
    group->set_group_label(label);
    NormalizedBBox* box = group->add_annotation()->mutable_bbox();
    box->set_xmin(xmin);
    box->set_ymin(ymin);
    box->set_xmax(xmax);
    box->set_ymax(ymax);
  };
  for (size_t i = 0; i < set.size(); ++i) {
    set[i].set_type(AnnotatedDatum::BBOX);
    *set[i].mutable_datum() = Numbered(static_cast<int>(i), -1);
  }
  add(&set[0], 1, 0.1F, 0.1F, 0.5F, 0.5F);
  add(&set[0], 3, 0, 0, 1, 1);
  EXPECT_EQ(Run({Set("good", set)}).exit_code, 0) << "labels of the images do not matter";
  add(&set[1], 1, 0.5F, 0.1F, 0.4F, 0.5F);
  add(&set[1], 1, 0.5F, 0.1F, 0.5F, 0.5F);
  add(&set[1], 1, 0.5F, 0.1F, 1.2F, 0.5F);
  add(&set[1], 1, 0.5F, 0.1F, NAN, 0.5F);
  const ProcessResult result = Run({Set("bad", set)});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.out, "3 with annotations, 6 boxes")) << result.out;
  EXPECT_TRUE(Contains(result.out, "4 bad boxes")) << result.out;
  for (const char* fault : {"inside out", "no area", "partly outside", "not a number"}) {
    EXPECT_TRUE(Contains(result.out, fault)) << fault << "\n" << result.out;
  }
  EXPECT_TRUE(Contains(result.out, "1 images without a box\n    00000002")) << result.out;
  EXPECT_TRUE(Contains(result.out, "1 labels that nothing has\n    2\n")) << "0 is the background";
}

TEST_F(CheckData, Usage) {
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_EQ(Run({"a", "b", "c"}).exit_code, 2);
  EXPECT_EQ(Run({temp_.File("none")}).exit_code, 2);
  EXPECT_TRUE(Contains(Run({"--help"}).out, "--strict"));
}

#ifdef CREMA_HAVE_OPENCV
TEST_F(CheckData, GrayAlphaAndCutImages) {
  std::vector<Datum> set;
  Image gray_in_color = Pattern(4, 4, 1);
  gray_in_color.channels = 3;
  const std::vector<uint8_t> plane = gray_in_color.pixels;
  for (int i = 0; i < 2; ++i) {
    gray_in_color.pixels.insert(gray_in_color.pixels.end(), plane.begin(), plane.end());
  }
  for (const Image& image :
       {Pattern(4, 4, 3, 1), Pattern(4, 4, 1, 2), Pattern(4, 4, 4, 3), gray_in_color}) {
    Datum datum;
    datum.set_encoded(true);
    datum.set_data(Png(image));
    datum.set_label(0);
    set.push_back(datum);
  }
  EXPECT_EQ(Run({Set("whole", set)}).exit_code, 0);
  set.push_back(set[0]);
  set.back().set_data(set[0].data().substr(0, set[0].data().size() - 12));
  const ProcessResult result = Run({Set("db", set)});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.out, "5 records, 4 encoded")) << result.out;
  EXPECT_TRUE(Contains(result.out, "1 gray images among others")) << result.out;
  EXPECT_TRUE(Contains(result.out, "1 gray images stored as color\n    00000003")) << result.out;
  EXPECT_TRUE(Contains(result.out, "1 images with an alpha channel")) << result.out;
  EXPECT_TRUE(Contains(result.out, "truncated")) << result.out;
}

TEST_F(CheckData, TheSameImageInAnotherFormatIsADuplicate) {
  Datum encoded;
  encoded.set_encoded(true);
  encoded.set_data(Png(Pattern(2, 3, 3, 4)));
  encoded.set_label(1);
  const ProcessResult result = Run({Set("train", GoodSet(6)), Set("test", std::vector{encoded})});
  EXPECT_TRUE(Contains(result.out, "that the training set has, too")) << result.out;
}
#endif

}  // namespace
}  // namespace crema::test
