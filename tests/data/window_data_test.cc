#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/window_batches.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "data/lists/window_file.h"
#include "data/same_batches.h"
#include "support/temp_dir.h"

namespace crema {

void RegisterWindowData(Registry&);

namespace {

using test::TempDir;
using testing::Encode;
using testing::ExpectError;
using testing::Flat;
using testing::LayerRunner;
using testing::Pattern;

constexpr char kWindows[] =
    "# 0\na b.png\n3\n10\n20\n4\n"
    "7 0.9 2 1 5 8\n"    // foreground
    "7 0.5 0 0 19 9\n"   // foreground, at the threshold
    "7 0.4 1 1 2 2\n"    // dropped
    "0 0.1 10 3 12 4\n"  // background
    "# 1\nb.png\n3\n6\n6\n1\n"
    "3 0.2 1 1 4 4\n";  // background

Registry WindowsRegistry() {
  Registry registry;
  RegisterWindowData(registry);
  return registry;
}

TEST(WindowFile, SortsWindowsByTheirOverlap) {
  TempDir temp;
  const WindowFile file =
      ReadWindowFile(temp.Write("w", kWindows), "root/", {.foreground = 0.5f, .background = 0.3f});
  ASSERT_EQ(file.images.size(), 2u);
  EXPECT_EQ(file.images[0].path, "root/a b.png");
  EXPECT_EQ(file.images[0].height, 10);
  EXPECT_EQ(file.images[1].line, 12);
  ASSERT_EQ(file.foreground.size(), 2u);
  EXPECT_EQ(file.foreground[1].box.x2, 19);
  ASSERT_EQ(file.background.size(), 2u);
  EXPECT_EQ(file.background[1].label, 0);
  EXPECT_EQ(file.background[1].image, 1u);
}

TEST(WindowFile, ErrorsNameFileAndLine) {
  TempDir temp;
  const auto expect = [&](const std::string& text, const std::string& message) {
    const std::string path = temp.Write("w", text);
    ExpectError(ErrorCode::kDataLoss, message, [&] { ReadWindowFile(path, "", {}); });
  };
  expect("", "w: lists no images");
  expect("# 0\na.png\n3 4 4 1\n1 0.9 0 0 4 3\n",
         "w:4:1: the window 0 0 4 3 does not lie in 'a.png'");
  expect("# 0\na.png\n3 4 4 1\n1 0.9 3 0 2 3\n", "the window 3 0 2 3 does not lie");
  expect("# 0\na.png\n3 4 4 1\nx 0.9 0 0 2 3\n", "'x' stands where the label of a window should");
  expect("# 0\na.png\n3 4 4 1\n0 0.9 0 0 2 3\n", "its label is 0");
  expect("# 0\na.png\n3 4 4 2\n1 0.9 0 0 2 3\n", "the file ends where the label of a window");
  expect("# 0\na.png\n3 4 4 0\n1 0.9 0 0 2 3\n", "'1' stands where '# index' should");
  expect("# 0\na.png\n2 4 4 0\n", "has 2 channels");
  expect("# 0\na.png\n3 0 4 0\n", "sizes are above 0");
  expect("# 0\na.png\n3 4 4 0\n# 1\nb.png\n1 4 4 0\n", "'b.png' has 1 channels, but the first");
}

TEST(WindowCrop, WithoutContextTheWindowFillsTheSample) {
  const WindowPlacement place = PlaceWindow({2, 1, 5, 8}, 10, 20, false, {.size = 6});
  EXPECT_EQ(place.part.x1, 2);
  EXPECT_EQ(place.part.y2, 8);
  EXPECT_EQ(place.height, 6);
  EXPECT_EQ(place.width, 6);
  EXPECT_EQ(place.top + place.left, 0);
}

TEST(WindowCrop, ContextIsAddedAndCutOffAtTheImage) {
  // 4 x 4 about (4, 4), context 8 / (8 - 4) = 2: 0..8 in both, 9 long; the image ends at 7.
  const WindowBox window{2, 2, 5, 5};
  const WindowCropOptions options{.size = 8, .context_pad = 2};
  const WindowPlacement inside = PlaceWindow(window, 100, 100, false, options);
  EXPECT_EQ(inside.part.x1, 0);
  EXPECT_EQ(inside.part.x2, 8);
  EXPECT_EQ(inside.width, 8);
  const WindowPlacement cut = PlaceWindow(window, 100, 8, false, options);
  EXPECT_EQ(cut.part.x2, 7);
  EXPECT_EQ(cut.width, 7);  // 8 * 8 / 9
  EXPECT_EQ(cut.left, 0);
  const WindowPlacement mirrored = PlaceWindow(window, 100, 8, true, options);
  EXPECT_EQ(mirrored.left, 1);
  EXPECT_EQ(mirrored.width, 7);
}

TEST(WindowCrop, SquareWidensTheShorterSide) {
  const WindowPlacement place =
      PlaceWindow({10, 10, 13, 19}, 100, 100, false, {.size = 8, .square = true});
  EXPECT_EQ(place.part.x2 - place.part.x1, place.part.y2 - place.part.y1);
  EXPECT_EQ(place.part.y1, 10);
  EXPECT_EQ(place.part.x1, 7);
}

class WindowDataTest : public ::testing::Test {
 protected:
  WindowDataTest() {
    temp_.Write("a b.png", Encode(Pattern(10, 20, 3)));
    temp_.Write("b.png", Encode(Flat(6, 6, 50)));
    source_ = temp_.Write("windows", kWindows);
  }
  std::string Layer(const std::string& more, const std::string& transform) const {
    return StrCat(
        "name: 'boxes' type: 'WindowData' top: 'data' top: 'label' window_data_param { "
        "source: '",
        source_, "' root_folder: '", temp_.path(), "/' ", more, " } transform_param { ", transform,
        " }");
  }

  TempDir temp_;
  std::string source_;
  Registry registry_ = WindowsRegistry();
};

TEST_F(WindowDataTest, BackgroundComesBeforeForeground) {
  LayerRunner runner(registry_,
                     Layer("batch_size: 8 fg_fraction: 0.4 bg_threshold: 0.3", "crop_size: 3"));
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{8, 3, 3, 3}));
  EXPECT_EQ(runner.Collect(1, 2),
            (std::vector<float>{0, 0, 0, 0, 0, 7, 7, 7, 0, 0, 0, 0, 0, 7, 7, 7}));
}

TEST_F(WindowDataTest, SamplesAreNamedByImageAndWindow) {
  source_ = temp_.Write("one", "# 0\na b.png\n3 10 20 1\n7 0.9 2 1 4 3\n");
  LayerRunner runner(registry_, Layer("batch_size: 1 fg_fraction: 1", "crop_size: 3"));
  runner.Forward();
  EXPECT_EQ(runner.state().SampleName(0), temp_.path() + "/a b.png window 2,1 to 4,3");
}

TEST_F(WindowDataTest, PixelsAreThoseOfTheWindow) {
  source_ = temp_.Write("one", "# 0\na b.png\n3 10 20 1\n7 0.9 2 1 4 3\n");
  LayerRunner runner(registry_, Layer("batch_size: 1 fg_fraction: 1 scale: 0.5 cache_images: true",
                                      "crop_size: 3 mean_value: 2"));
  EXPECT_EQ(runner.Collect(0, 1),
            (std::vector<float>{5,   5.5,   6,   10,  10.5,  11,  15,  15.5,  16,
                                55,  55.5,  56,  60,  60.5,  61,  65,  65.5,  66,
                                105, 105.5, 106, 110, 110.5, 111, 115, 115.5, 116}));
  LayerRunner mirrored(registry_,
                       Layer("batch_size: 1 fg_fraction: 1", "crop_size: 3 mirror: true"));
  std::set<float> corners;
  for (int i = 0; i < 20; ++i) corners.insert(mirrored.Collect(0, 1)[0]);
  EXPECT_EQ(corners, (std::set<float>{12, 14}));
}

TEST_F(WindowDataTest, OutsideOfTheImageStaysZero) {
  source_ = temp_.Write("one", "# 0\nb.png\n3 6 6 1\n7 0.9 0 0 3 3\n");
  LayerRunner runner(registry_, Layer("batch_size: 1 fg_fraction: 1 context_pad: 2",
                                      "crop_size: 8 mean_value: 10"));
  const std::vector<float> values = runner.Collect(0, 1);
  // With context the window is -2..6, of which 0..5 exist: 5 of 8 pixels, after 2.
  for (int at = 0; at < 8; ++at) {
    EXPECT_EQ(values[static_cast<size_t>(at * 9)], at >= 2 && at < 7 ? 40 : 0) << at;
  }
}

TEST_F(WindowDataTest, ResumesAndErrorsNameTheFile) {
  const std::string text = Layer("batch_size: 4", "crop_size: 2 mirror: true");
  LayerRunner runner(registry_, text);
  runner.Collect(0, 3);
  LayerState saved;
  runner.state().Save(&saved);
  const std::vector<float> expected = runner.Collect(0, 4);
  LayerRunner resumed(registry_, text);
  resumed.state().Restore(saved);
  EXPECT_EQ(resumed.Collect(0, 4), expected);

  source_ = temp_.Write("one", "# 0\nb.png\n3 7 6 1\n7 0.9 0 0 3 3\n");
  const std::string foreground = Layer("batch_size: 1 fg_fraction: 1", "crop_size: 2");
  LayerRunner other_size(registry_, foreground);
  ExpectError(ErrorCode::kDataLoss, "is 6 high and 6 wide, but the window file says 7 and 6",
              [&] { other_size.Forward(); });
  ExpectError(ErrorCode::kInvalidArgument, "has no background windows",
              [&] { LayerRunner(registry_, Layer("batch_size: 4", "crop_size: 2")); });
  source_ = temp_.Write("one", "# 0\nnone.png\n3 7 6 1\n7 0.9 0 0 3 3\n");
  LayerRunner missing(registry_, Layer("batch_size: 1 fg_fraction: 1", "crop_size: 2"));
  ExpectError(ErrorCode::kNotFound, "(line 2 of '", [&] { missing.Forward(); });
}

TEST_F(WindowDataTest, BatchesAreTheSameForAnyWorkersAndFromAnySample) {
  const std::string layer =
      Layer("batch_size: 5 bg_threshold: 0.3 context_pad: 1", "crop_size: 4 mirror: true");
  testing::ExpectSameBatches(registry_, layer);
  testing::ExpectSameBatches(registry_, layer, "cache: ENCODED prefetch: 2");
  testing::ExpectSameBatches(registry_, layer, "cache: DECODED cache_mb: 1");
}

TEST_F(WindowDataTest, BadImagesAreReplacedTheSameWayForAnyWorkers) {
  temp_.Write("b.png", "no image");
  const std::string layer =
      Layer("batch_size: 6 bg_threshold: 0.3 context_pad: 1", "crop_size: 4 mirror: true");
  for (const char* pipeline :
       {"on_bad_sample: SKIP", "on_bad_sample: REPEAT cache: DECODED cache_mb: 1"}) {
    testing::ExpectSameBatches(registry_, layer, pipeline, 12, testing::Resume::kBetweenBatches);
  }
}

TEST_F(WindowDataTest, CachesChangeNothingAndBadImagesAreReplaced) {
  const std::string layer =
      Layer("batch_size: 6 fg_fraction: 0.5 bg_threshold: 0.3", "crop_size: 4 mirror: true");
  const std::vector<float> expected = LayerRunner(registry_, layer).Collect(0, 6);
  for (const char* cache : {"ENCODED", "DECODED"}) {
    LayerRunner cached(registry_, StrCat(layer, " pipeline_param { cache: ", cache, " }"));
    EXPECT_EQ(cached.Collect(0, 6), expected);
  }
  temp_.Write("b.png", "no image");  // of a background window
  LayerRunner runner(registry_, layer + " pipeline_param { on_bad_sample: SKIP }");
  for (int n = 0; n < 6; ++n) {
    runner.Forward();
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_NE(runner.state().SampleName(i).find("a b.png"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace crema
#endif
