#include "math/boxes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "math/box_matching.h"
#include "math/box_suppression.h"

namespace crema {
namespace {

constexpr double kNanCorner = std::numeric_limits<double>::quiet_NaN();

TEST(BoxesTest, OverlapIsIntersectionOverUnion) {
  const Box a{0, 0, 2, 2};
  EXPECT_DOUBLE_EQ(Overlap(a, a), 1);
  EXPECT_DOUBLE_EQ(Overlap(a, {1, 0, 3, 2}), 1.0 / 3);
  EXPECT_EQ(Overlap(a, {2, 0, 3, 2}), 0);
  EXPECT_EQ(Overlap(a, {5, 5, 6, 6}), 0);
  EXPECT_EQ(Overlap(a, {1, 1, 0, 0}), 0) << "the wrong way round";
  // Pixels 0..2 and 2..4 share one of five columns.
  EXPECT_DOUBLE_EQ(Overlap({0, 0, 2, 2}, {2, 0, 4, 2}, BoxUnits::kPixels), 0.2);
}

TEST(BoxesTest, EncodingOfKnownBoxes) {
  const Box prior{0, 0, 0.5, 0.25};
  const Box box{0.25, 0.25, 0.5, 0.75};
  const BoxOffsets v{0.1, 0.1, 0.2, 0.2};
  const auto expect = [&](BoxCode code, const BoxOffsets& expected) {
    const BoxOffsets got = Encode(code, box, prior, v);
    for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(got[k], expected[k], 1e-12) << k;
  };
  expect(BoxCode::kCorner, {2.5, 2.5, 0, 2.5});
  expect(BoxCode::kCornerSize, {5, 10, 0, 10});
  expect(BoxCode::kCenterSize, {2.5, 15, std::log(0.5) / 0.2, std::log(2) / 0.2});
}

TEST(BoxesTest, DecodeInvertsEncode) {
  const Box prior{0.1, 0.2, 0.5, 0.4};
  const Box box{0.05, 0.3, 0.7, 0.9};
  const BoxOffsets v{0.1, 0.3, 0.2, 0.5};
  for (const BoxCode code : {BoxCode::kCorner, BoxCode::kCenterSize, BoxCode::kCornerSize}) {
    const Box back = Decode(code, Encode(code, box, prior, v), prior, v);
    EXPECT_NEAR(back.xmin, box.xmin, 1e-12);
    EXPECT_NEAR(back.ymin, box.ymin, 1e-12);
    EXPECT_NEAR(back.xmax, box.xmax, 1e-12);
    EXPECT_NEAR(back.ymax, box.ymax, 1e-12);
  }
}

TEST(BoxSuppressionTest, BestFirstIsStableAndLeavesOutNan) {
  const std::vector<double> scores = {0.5, kNanCorner, 0.9, 0.5, 0.1};
  EXPECT_EQ(BestFirst(scores, 0.1, -1), (std::vector<int64_t>{2, 0, 3}));
  EXPECT_EQ(BestFirst(scores, 0.1, 2), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(BestFirst(scores, -1, 0), std::vector<int64_t>{});
}

TEST(BoxSuppressionTest, OnlyKeptBoxesSuppress) {
  // 0 suppresses 1; 1 would suppress 2, but is gone.
  const std::vector<Box> boxes = {{0, 0, 4, 1}, {1, 0, 5, 1}, {2, 0, 6, 1}};
  const std::vector<int64_t> order = {0, 1, 2};
  EXPECT_EQ(Suppress(boxes, order, {.threshold = 0.5}), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(Suppress(boxes, order, {.threshold = 0.6}), (std::vector<int64_t>{0, 1, 2}))
      << "an overlap of exactly the threshold stays";
  EXPECT_EQ(Suppress(boxes, order, {.threshold = 0.5, .most = 1}), (std::vector<int64_t>{0}));
}

TEST(BoxSuppressionTest, EtaLowersTheThresholdWhileItIsAboveOneHalf) {
  const std::vector<Box> boxes = {{10, 0, 14, 1}, {0, 0, 4, 1}, {1, 0, 5, 1}};
  const std::vector<int64_t> order = {0, 1, 2};
  // 0.7, then 0.56 < 0.6, then 0.448.
  EXPECT_EQ(Suppress(boxes, order, {.threshold = 0.7, .eta = 0.8}), (std::vector<int64_t>{0, 1}));
}

TEST(BoxSuppressionTest, NanBoxesDoNotCrash) {
  const std::vector<Box> boxes = {{kNanCorner, 0, 1, 1}, {0, 0, 1, 1}};
  const std::vector<int64_t> order = {0, 1};
  EXPECT_GE(Suppress(boxes, order, {}).size(), 1U);
}

TEST(BoxMatchingTest, EachObjectGetsItsBestBoxAndThenBoxesTheirBestObject) {
  const std::vector<Box> boxes = {{0, 0, 4, 4}, {0, 0, 4, 3}, {6, 6, 8, 8}, {9, 9, 9, 9}};
  const std::vector<Box> objects = {{0, 0, 4, 4}, {6, 6, 9, 9}};
  const BoxMatches both = MatchBoxes(boxes, objects, {.overlap_threshold = 0.5});
  EXPECT_EQ(both.object, (std::vector<int64_t>{0, 0, 1, kUnmatched}));
  EXPECT_DOUBLE_EQ(both.overlap[1], 0.75);
  EXPECT_DOUBLE_EQ(both.overlap[2], 4.0 / 9);
  const BoxMatches bipartite = MatchBoxes(boxes, objects, {.per_prediction = false});
  EXPECT_EQ(bipartite.object, (std::vector<int64_t>{0, kUnmatched, 1, kUnmatched}));
}

TEST(BoxMatchingTest, BoxesBeyondTheImageCanBeIgnored) {
  const std::vector<Box> boxes = {{-0.1, 0, 0.5, 0.5}, {0, 0, 0.4, 0.5}};
  const std::vector<Box> objects = {{0, 0, 0.5, 0.5}};
  EXPECT_EQ(MatchBoxes(boxes, objects, {.ignore_outside = true}).object,
            (std::vector<int64_t>{kIgnoredBox, 0}));
}

TEST(BoxMatchingTest, EqualOverlapsGoToTheFirstBox) {
  const std::vector<Box> boxes = {{0, 0, 1, 1}, {1, 0, 2, 1}};
  const std::vector<Box> objects = {{0.5 + 1e-9, 0, 1.5 + 1e-9, 1}};
  EXPECT_EQ(MatchBoxes(boxes, objects, {}).object, (std::vector<int64_t>{0, kUnmatched}));
}

}  // namespace
}  // namespace crema
