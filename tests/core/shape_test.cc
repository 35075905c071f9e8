#include "core/shape.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace crema {
namespace {

template <typename Body>
std::string MessageOf(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ShapeTest, ScalarHasOneElement) {
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape().axes(), 0);
  EXPECT_EQ(ToString(Shape()), "scalar");
}

TEST(ShapeTest, CountsRangesOfAxes) {
  const Shape shape{2, 3, 4, 5};
  EXPECT_EQ(shape.count(), 120);
  EXPECT_EQ(shape.count(1), 60);
  EXPECT_EQ(shape.count(1, 3), 12);
  EXPECT_EQ(shape.count(2, 2), 1);
  EXPECT_EQ(shape.count(4), 1);
  EXPECT_EQ(ToString(shape), "2x3x4x5");
}

TEST(ShapeTest, ZeroDimensionsAreLegal) { EXPECT_EQ(Shape({0, 3}).count(), 0); }

// Layers multiply dimensions without the batch, which must not overflow.
TEST(ShapeTest, DimensionsNextToAZeroAreLimited) {
  EXPECT_NE(MessageOf([] { Shape({0, int64_t{1} << 40}); }).find("more than"), std::string::npos);
  EXPECT_NE(MessageOf([] { Shape({1 << 20, 0, 1 << 20}); }).find("more than"), std::string::npos);
}

TEST(ShapeTest, RefusesMoreElementsThanCaffesBlobs) {
  EXPECT_EQ(Shape({2147483647}).count(), 2147483647);
  EXPECT_NE(MessageOf([] { Shape({2147483648}); }).find("more than 2147483647"), std::string::npos);
  EXPECT_NE(MessageOf([] { Shape({65536, 32768}); }).find("more than"), std::string::npos);
  EXPECT_NE(MessageOf([] {
              Shape({int64_t{1} << 62, int64_t{1} << 62});
            }).find("more than"),
            std::string::npos);
}

TEST(ShapeTest, RefusesNegativeDimensions) {
  EXPECT_NE(MessageOf([] { Shape({2, -1}); }).find("negative dimension -1"), std::string::npos);
  EXPECT_NE(MessageOf([] { Shape({0, -1}); }).find("negative dimension -1"), std::string::npos);
}

TEST(ShapeTest, RefusesMoreThan32Axes) {
  EXPECT_EQ(Shape(std::span<const int64_t>(std::vector<int64_t>(32, 1))).axes(), 32);
  const std::vector<int64_t> many(33, 1);
  EXPECT_NE(MessageOf([&] { Shape(std::span<const int64_t>(many)); }).find("33 axes"),
            std::string::npos);
}

TEST(ShapeTest, CanonicalAxisCountsFromTheEnd) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.CanonicalAxis(0), 0);
  EXPECT_EQ(shape.CanonicalAxis(-1), 2);
  EXPECT_EQ(shape.CanonicalAxis(-3), 0);
  EXPECT_NE(MessageOf([&] { shape.CanonicalAxis(3); }).find("allowed: -3 to 2"), std::string::npos);
  EXPECT_NE(MessageOf([&] { shape.CanonicalAxis(-4); }).find("axis -4"), std::string::npos);
  EXPECT_NE(MessageOf([&] { shape.CanonicalAxis(int64_t{1} << 40); }).find("outside"),
            std::string::npos);
}

TEST(ShapeTest, ComparesByDimensions) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({2, 3}), Shape({2, 3, 1}));
  EXPECT_NE(Shape(), Shape({1}));
}

TEST(ShapeTest, WithReplacesOneSize) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.With(1, 9), Shape({2, 9, 4}));
  EXPECT_EQ(shape.With(1, 9).count(), 72);
  EXPECT_EQ(shape, Shape({2, 3, 4}));
}

}  // namespace
}  // namespace crema
