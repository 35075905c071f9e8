// The augmentations of SSD, one by one.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "data/augment/box.h"
#include "data/augment/canvas.h"
#include "data/augment/fit.h"
#include "data/augment/sampler.h"
#include "data/augment_checks.h"
#include "data/parse_message.h"

namespace crema {
namespace {

using testing::DrawsOf;
using testing::ExpectBox;
using testing::Parse;

// 1 x height x width with pixels 0, 1, 2, ...
Image Ramp(int height, int width) {
  Image image{.channels = 1, .height = height, .width = width, .pixels = {}};
  for (int i = 0; i < height * width; ++i) image.pixels.push_back(static_cast<uint8_t>(i));
  return image;
}

TEST(Box, OverlapsAndCoverage) {
  const Box a{0, 0, 0.5, 0.5};
  const Box b{0.25, 0.25, 0.75, 0.75};
  EXPECT_NEAR(Overlap(a, b), 0.0625 / 0.4375, 1e-12);
  EXPECT_NEAR(Coverage(a, b), 0.25, 1e-12);
  EXPECT_EQ(Overlap(a, {0.5, 0, 1, 1}), 0);
  EXPECT_EQ(Coverage(a, {0, 0, 1, 1}), 1);
  const Box point{0.2, 0.2, 0.2, 0.2};
  EXPECT_EQ(Overlap(point, point), 0);
  EXPECT_EQ(Coverage(point, a), 0);
  EXPECT_EQ(Overlap({0.5, 0.5, 0.1, 0.1}, {0.9, 0.9, 0.6, 0.6}), 0);
}

TEST(Box, ProjectionClippingAndMirroring) {
  const Box window{0.2, 0.4, 0.6, 0.9};
  ExpectBox(Project(window, {0.3, 0.5, 0.5, 0.65}), {0.25, 0.2, 0.75, 0.5});
  ExpectBox(Project(window, window), kWholeImage);
  ExpectBox(Clip({-0.5, 0.1, 1.5, 0.9}), {0, 0.1, 1, 0.9});
  ExpectBox(MirrorBox({0.1, 0.2, 0.4, 0.9}), {0.6, 0.2, 0.9, 0.9});
  ExpectBox(MirrorBox(MirrorBox(window)), window);
}

TEST(Box, EmitConstraints) {
  const Box window{0, 0, 0.5, 1};
  const auto center = Parse<EmitConstraint>("");
  EXPECT_TRUE(IsEmitted(center, window, {0.3, 0.3, 0.7, 0.5}));
  EXPECT_FALSE(IsEmitted(center, window, {0.3, 0.3, 0.8, 0.5}));
  const auto half = Parse<EmitConstraint>("emit_type: MIN_OVERLAP emit_overlap: 0.5");
  EXPECT_FALSE(IsEmitted(half, window, {0.25, 0, 0.75, 1}));
  EXPECT_TRUE(IsEmitted(half, window, {0.2, 0, 0.7, 1}));
}

TEST(Box, ObjectsOfAWindowAreProjectedAndClipped) {
  const std::vector<AnnotatedBox> objects{{.box = {0.4, 0.4, 0.9, 0.6}, .label = 1},
                                          {.box = {0.6, 0, 0.9, 1}, .label = 2},
                                          {.box = {0.1, 0.1, 0.1, 0.4}, .label = 3}};
  const Box window{0, 0, 0.5, 1};
  const std::vector<AnnotatedBox> kept = ProjectObjects(objects, window, nullptr);
  ASSERT_EQ(kept.size(), 1u);  // the second lies outside, the third has no area
  EXPECT_EQ(kept[0].label, 1);
  ExpectBox(kept[0].box, {0.8, 0.4, 1, 0.6});
  const auto center = Parse<EmitConstraint>("");
  EXPECT_TRUE(ProjectObjects(objects, window, &center).empty());
}

TEST(Sampler, BoxesLieInTheImageAndHaveTheAskedSize) {
  const auto sampler =
      Parse<Sampler>("min_scale: 0.3 max_scale: 0.9 min_aspect_ratio: 0.5 max_aspect_ratio: 2");
  for (uint64_t i = 0; i < 1000; ++i) {
    Draws draws = DrawsOf(i);
    const Box box = DrawBox(sampler, draws);
    EXPECT_GE(box.xmin, 0);
    EXPECT_GE(box.ymin, 0);
    EXPECT_LE(box.xmax, 1 + 1e-9);
    EXPECT_LE(box.ymax, 1 + 1e-9);
    const double ratio = box.width() / box.height();
    EXPECT_GE(ratio, 0.5 - 1e-6);
    EXPECT_LE(ratio, 2 + 1e-6);
    EXPECT_GE(Area(box), 0.3 * 0.3 - 1e-6);
    EXPECT_LE(Area(box), 0.9 * 0.9 + 1e-6);
  }
  Draws draws = DrawsOf(1);
  ExpectBox(DrawBox(Sampler(), draws), kWholeImage);
}

TEST(Sampler, ConstraintsMustAllHoldForOneObject) {
  const Box crop{0, 0, 0.5, 0.5};
  const std::vector<AnnotatedBox> objects{{.box = {0, 0, 0.25, 0.5}},
                                          {.box = {0.4, 0.4, 0.9, 0.9}}};
  const auto satisfied = [&](const std::string& text) {
    return Satisfies(Parse<SampleConstraint>(text), crop, objects);
  };
  EXPECT_TRUE(satisfied(""));
  EXPECT_TRUE(satisfied("min_jaccard_overlap: 0.5"));
  EXPECT_FALSE(satisfied("min_jaccard_overlap: 0.51"));
  EXPECT_TRUE(satisfied("max_jaccard_overlap: 0.1"));  // the second object
  EXPECT_TRUE(satisfied("min_sample_coverage: 0.5 max_sample_coverage: 0.5"));
  EXPECT_TRUE(satisfied("min_object_coverage: 1"));
  EXPECT_TRUE(satisfied("max_object_coverage: 0.05"));
  EXPECT_FALSE(satisfied("min_jaccard_overlap: 0.5 max_object_coverage: 0.05"));
  EXPECT_FALSE(Satisfies(Parse<SampleConstraint>("max_jaccard_overlap: 1"), crop, {}));
}

TEST(Sampler, EachSamplerKeepsAtMostMaxSample) {
  const auto param = Parse<AnnotatedDataParameter>(
      "batch_sampler { max_sample: 2 max_trials: 50 sampler { min_scale: 0.5 } }"
      "batch_sampler { max_sample: 1 max_trials: 50 sampler { min_scale: 0.3 } "
      "  sample_constraint { min_jaccard_overlap: 2 } }"
      "batch_sampler { use_original_image: false }"
      "batch_sampler { max_trials: 3 }");
  Draws draws = DrawsOf(0);
  EXPECT_EQ(DrawCrops(param.batch_sampler(), {{.box = {}}}, draws).size(), 5u);
}

TEST(Canvas, CropsMirrorsAndEnlarges) {
  Image part = Crop(Ramp(3, 4), {.top = 1, .left = 1, .height = 2, .width = 3});
  EXPECT_EQ(part.pixels, (std::vector<uint8_t>{5, 6, 7, 9, 10, 11}));
  Mirror(&part);
  EXPECT_EQ(part.pixels, (std::vector<uint8_t>{7, 6, 5, 11, 10, 9}));
  const Image large = PutOnCanvas(Ramp(1, 2), {.top = 1, .left = 1, .height = 3, .width = 4}, {9});
  EXPECT_EQ(large.pixels, (std::vector<uint8_t>{9, 9, 9, 9, 9, 0, 1, 9, 9, 9, 9, 9}));
}

TEST(Canvas, PixelsOfABoxAreInTheImage) {
  const PixelRect half = PixelsOf({0.25, 0, 0.75, 0.5}, 10, 8);
  EXPECT_EQ(half.left, 2);
  EXPECT_EQ(half.width, 4);
  EXPECT_EQ(half.height, 5);
  ExpectBox(BoxOf(half, 10, 8), {0.25, 0, 0.75, 0.5});
  const PixelRect tiny = PixelsOf({1, 1, 1, 1}, 10, 8);
  EXPECT_EQ(tiny.top, 9);
  EXPECT_EQ(tiny.left, 7);
  EXPECT_EQ(tiny.height, 1);
  EXPECT_EQ(tiny.width, 1);
}

TEST(Canvas, DrawnCanvasesHoldTheImage) {
  const auto param = Parse<ExpansionParameter>("prob: 0.5 max_expand_ratio: 4");
  int enlarged = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    Draws draws = DrawsOf(i);
    const PixelRect canvas = DrawCanvas(param, 10, 20, draws);
    enlarged += canvas.width > 20 ? 1 : 0;
    EXPECT_LE(canvas.height, 40);
    EXPECT_LE(canvas.width, 80);
    EXPECT_GE(canvas.top, 0);
    EXPECT_GE(canvas.left, 0);
    EXPECT_LE(canvas.top + 10, canvas.height);
    EXPECT_LE(canvas.left + 20, canvas.width);
  }
  EXPECT_NEAR(enlarged, 500, 80);
}

TEST(Fit, SizesOfTheThreeModes) {
  const auto fit = [](const std::string& mode, int height, int width) {
    return FitTo(Parse<ResizeParameter>("height: 30 width: 60 resize_mode: " + mode), height,
                 width);
  };
  EXPECT_EQ(fit("WARP", 10, 10).inner.width, 60);
  const Fit wide = fit("FIT_LARGE_SIZE_AND_PAD", 10, 40);  // resized to 15 x 60
  EXPECT_EQ(wide.inner.height, 15);
  EXPECT_EQ(wide.inner.top, 7);
  EXPECT_EQ(wide.height, 30);
  ExpectBox(FitBox(wide, kWholeImage), {0, 7.0 / 30, 1, 22.0 / 30});
  const Fit high = fit("FIT_LARGE_SIZE_AND_PAD", 40, 40);
  EXPECT_EQ(high.inner.width, 30);
  EXPECT_EQ(high.inner.left, 15);
  ExpectBox(FitBox(high, {0.5, 0.5, 1, 1}), {0.5, 0.5, 0.75, 1});
  const Fit small = fit("FIT_SMALL_SIZE", 10, 40);
  EXPECT_EQ(small.height, 30);
  EXPECT_EQ(small.width, 120);
  EXPECT_EQ(fit("FIT_SMALL_SIZE", 40, 40).height, 60);
}

#ifdef CREMA_HAVE_OPENCV
TEST(Fit, EdgesAreContinuedOrPadded) {
  const auto rows = [](const std::string& text) {
    Draws draws = DrawsOf(0);
    // 1 x 4 becomes 1 x 4 in the middle of 5 x 4.
    Image image{.channels = 1, .height = 2, .width = 4, .pixels = {1, 1, 1, 1, 9, 9, 9, 9}};
    const Image out =
        ResizeToFit(Parse<ResizeParameter>("height: 6 width: 4 resize_mode: FIT_LARGE_SIZE_AND_PAD "
                                           "interp_mode: NEAREST " +
                                           text),
                    image, draws);
    std::vector<int> first;
    for (int y = 0; y < 6; ++y) first.push_back(out.pixels[static_cast<size_t>(y * 4)]);
    return first;
  };
  EXPECT_EQ(rows(""), (std::vector<int>{0, 0, 1, 9, 0, 0}));
  EXPECT_EQ(rows("pad_value: 7"), (std::vector<int>{7, 7, 1, 9, 7, 7}));
  EXPECT_EQ(rows("pad_mode: REPEAT_NEAREST"), (std::vector<int>{1, 1, 1, 9, 9, 9}));
  EXPECT_EQ(rows("pad_mode: MIRRORED"), (std::vector<int>{1, 9, 1, 9, 1, 9}));
}
#endif

}  // namespace
}  // namespace crema
