#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/image.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {
namespace {

Image Flat(uint8_t blue, uint8_t green, uint8_t red) {
  Image image{.channels = 3, .height = 120, .width = 120, .pixels = {}};
  for (const uint8_t value : {blue, green, red})
    image.pixels.insert(image.pixels.end(), 14400, value);
  return image;
}

class ShowBatch : public ::testing::Test {
 protected:
  ShowBatch() {
    WriteSet(temp_.File("db"),
             std::vector<Datum>{RawDatum(Flat(10, 20, 250), 1), RawDatum(Flat(200, 100, 0), 0)});
  }
  std::string Net(const std::string& transform, const std::string& source = "db",
                  const std::string& type = "Data") {
    return temp_.Write(
        "net.prototxt",
        StrCat("layer { name: 'd' type: '", type, "' top: 'data' top: 'label'\n",
               " data_param { source: '", temp_.File(source), "' batch_size: 2 backend: LMDB }\n",
               " transform_param { ", transform, " } }\n",
               "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'",
               " inner_product_param { num_output: 2 } }\n"));
  }
  ProcessResult Run(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"-o", temp_.File("sheet.png")});
    return RunTool("show_batch", flags);
  }
  Image Sheet() {
    Image sheet;
    DecodeImage(temp_.Read("sheet.png"), ColorMode::kColor, "sheet", &sheet);
    return sheet;
  }
  // Blue, green, red.
  static std::vector<int> Pixel(const Image& image, int x, int y) {
    const size_t plane = static_cast<size_t>(image.height) * static_cast<size_t>(image.width);
    const size_t at =
        static_cast<size_t>(y) * static_cast<size_t>(image.width) + static_cast<size_t>(x);
    return {image.pixels[at], image.pixels[plane + at], image.pixels[2 * plane + at]};
  }
  TempDir temp_;
};

TEST_F(ShowBatch, DrawsTheImagesWithMeanAndScaleUndone) {
  const ProcessResult result =
      Run({"--model=" + Net("mean_value: 100 scale: 0.5 crop_size: 112"), "--columns=2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "batch 0: data is 2x3x112x112, from -50 to 75\n")) << result.out;
  EXPECT_TRUE(Contains(result.out, "0  00000000  label 1\n1  00000001  label 0\n")) << result.out;
  const Image sheet = Sheet();
  EXPECT_EQ(sheet.width, 2 * (112 + 6) + 6);
  EXPECT_EQ(sheet.height, 112 + 24 + 6 + 6);
  EXPECT_EQ(Pixel(sheet, 60, 90), (std::vector<int>{10, 20, 250}));
  EXPECT_EQ(Pixel(sheet, 180, 90), (std::vector<int>{200, 100, 0}));
}

// A picture and its label map, as `new` writes them.
TEST_F(ShowBatch, OfFourChannelsTheFirstThreeAreDrawn) {
  Datum datum;
  datum.set_channels(4);
  datum.set_height(120);
  datum.set_width(120);
  for (const char value : {'\x0A', '\x14', '\x1E', '\x01'}) {
    datum.mutable_data()->append(120 * 120, value);
  }
  WriteSet(temp_.File("masks"), std::vector<Datum>{datum});
  const ProcessResult result = Run({"--model=" + Net("", "masks"), "--count=1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Pixel(Sheet(), 60, 90), (std::vector<int>{10, 20, 30}));
}

TEST_F(ShowBatch, CountBatchesAndNames) {
  const std::string labels = temp_.Write("labels.txt", "cat\ndog\n");
  const ProcessResult result =
      Run({"--model=" + Net(""), "--count=1", "--batches=3", "--columns=1", "--labels=" + labels});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "batch 2: ")) << result.out;
  EXPECT_TRUE(Contains(result.out, "0  00000000  label dog\n")) << result.out;
  EXPECT_FALSE(Contains(result.out, "cat")) << result.out;
  EXPECT_EQ(Sheet().height, 3 * (120 + 24 + 6) + 6);
}

TEST_F(ShowBatch, NamesOfTheDataSetAreTaken) {
  temp_.Write("db/labels.txt", "cat\ndog\n");
  const ProcessResult result = Run({"--model=" + Net(""), "--count=1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "0  00000000  label dog\n")) << result.out;
}

TEST_F(ShowBatch, MixedLabelsNameTheirClassesAndShares) {
  const std::string labels = temp_.Write("labels.txt", "cat\ndog\n");
  const ProcessResult result =
      Run({"--model=" + Net("augment_param { mixup: 100 classes: 5 }"), "--labels=" + labels});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "1  00000001  label cat:0.")) << result.out;
  EXPECT_TRUE(Contains(result.out, " dog:0.")) << result.out;
}

TEST_F(ShowBatch, BoxesAreDrawn) {
  std::vector<AnnotatedDatum> set(2);
  for (AnnotatedDatum& datum : set) {
    *datum.mutable_datum() = RawDatum(Flat(0, 0, 0), -1);
    datum.set_type(AnnotatedDatum::BBOX);
  }
  AnnotationGroup* group = set[1].add_annotation_group();
  group->set_group_label(3);
  NormalizedBBox* box = group->add_annotation()->mutable_bbox();
  box->set_xmin(0.25F);
  box->set_ymin(0.5F);
  box->set_xmax(0.75F);
  box->set_ymax(0.875F);
  WriteSet(temp_.File("boxes"), set);
  const ProcessResult result = Run({"--model=" + Net("", "boxes", "AnnotatedData"), "--columns=2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "3 at 0.25 0.5 0.75 0.875;")) << result.out;
  const Image sheet = Sheet();
  const int left = 6 + 126;
  const int top = 6 + 24;
  EXPECT_NE(Pixel(sheet, left + 30, top + 80), (std::vector<int>{0, 0, 0})) << "left edge";
  EXPECT_NE(Pixel(sheet, left + 60, top + 105), (std::vector<int>{0, 0, 0})) << "lower edge";
  EXPECT_EQ(Pixel(sheet, left + 60, top + 90), (std::vector<int>{0, 0, 0})) << "inside";
  EXPECT_EQ(Pixel(sheet, 6 + 30, top + 80), (std::vector<int>{0, 0, 0})) << "not the other one";
}

TEST_F(ShowBatch, SolverGivesNetAndSeed) {
  const std::string net = Net("mirror: true crop_size: 50");
  const std::string solver = temp_.Write(
      "solver.prototxt",
      StrCat("net: '", net, "' base_lr: 0.1 max_iter: 3 ", "lr_policy: 'fixed' random_seed: 5"));
  ASSERT_EQ(Run({"--solver=" + solver}).exit_code, 0);
  const std::string first = temp_.Read("sheet.png");
  ASSERT_EQ(Run({"--solver=" + solver, "-j", "1"}).exit_code, 0);
  EXPECT_EQ(temp_.Read("sheet.png"), first) << "whatever the threads";
}

// The data set is missing, which is not noticed yet.
TEST_F(ShowBatch, TheOutputIsLookedAtFirst) {
  const std::string net = "--model=" + Net("", "none");
  EXPECT_TRUE(Contains(Run({net}).err, "there is no data set"));
  const ProcessResult missing = RunTool("show_batch", {net, "-o", temp_.File("no/sheet.png")});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_TRUE(Contains(missing.err, "does not exist; create it first")) << missing.err;
  const ProcessResult kind = RunTool("show_batch", {net, "-o", temp_.File("sheet.xyz")});
  EXPECT_EQ(kind.exit_code, 2);
  EXPECT_TRUE(Contains(kind.err, "no picture format has the extension '.xyz'")) << kind.err;
}

TEST_F(ShowBatch, TellsTheWarningsOfTheNet) {
  const std::string net = Net("");
  temp_.Write("net.prototxt",
              "layer { name: 'i' type: 'Input' top: 'x'\n"
              "  input_param { shape { dim: 2 } } }\n" +
                  temp_.Read("net.prototxt") +
                  "layer { name: 'e' type: 'DummyData' top: 'y'\n"
                  "  dummy_data_param { shape { dim: 2 } }\n"
                  "  convolution_param { num_output: 2 } }\n");
  const ProcessResult result = Run({"--model=" + net});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.err,
                       "net.prototxt:9:3: layer \"e\": 'convolution_param' has no "
                       "effect"))
      << result.err;
}

TEST_F(ShowBatch, ThereIsNoBackendFlag) {
  EXPECT_FALSE(Contains(RunTool("show_batch", {"--help"}).out, "--backend"));
  EXPECT_EQ(Run({"--model=" + Net(""), "--backend=tar"}).exit_code, 2);
}

TEST_F(ShowBatch, RefusesWhatItCannotShow) {
  EXPECT_EQ(RunTool("show_batch", {"--model=" + Net("")}).exit_code, 2) << "no -o";
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_EQ(Run({"--model=" + Net(""), "--solver=s"}).exit_code, 2);
  EXPECT_EQ(Run({"--model=" + Net(""), "--batches=0"}).exit_code, 2);
  EXPECT_EQ(Run({"--model=" + Net(""), "--phase=both"}).exit_code, 2);
  const std::string none =
      temp_.Write("none.prototxt",
                  "layer { name: 'i' type: 'Input' top: 'x' input_param { shape { dim: 2 } } }");
  const ProcessResult result = Run({"--model=" + none});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(Contains(result.err, "no data layer")) << result.err;
}

}  // namespace
}  // namespace crema::test
#endif
