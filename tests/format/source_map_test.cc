#include "format/source_map.h"

#include <gtest/gtest.h>

namespace crema {
namespace {

SourceMap ExampleMap() {
  SourceMap map;
  map.file = "net.prototxt";
  map.Add("layer[0]", {1, 1});
  map.Add("layer[1]", {5, 1});
  map.Add("layer[1].bottom[0]", {6, 3});
  map.Add("layer[1].bottom[1]", {6, 9});
  map.Add("layer[1].convolution_param", {7, 3});
  map.Add("layer[10]", {20, 1});
  return map;
}

TEST(SourceMap, FindsExactPath) {
  const Where where = ExampleMap().Locate("layer[1].bottom[1]");
  EXPECT_EQ(where.file, "net.prototxt");
  EXPECT_EQ(where.line, 6);
  EXPECT_EQ(where.column, 9);
}

TEST(SourceMap, FallsBackToTheNearestEnclosingField) {
  EXPECT_EQ(ExampleMap().Locate("layer[1].convolution_param.kernel_size[0]").line, 7);
  EXPECT_EQ(ExampleMap().Locate("layer[1].pooling_param.pool").line, 5);
}

TEST(SourceMap, MeansElementZeroWithoutIndex) {
  EXPECT_EQ(ExampleMap().Locate("layer[1].bottom").column, 3);
}

TEST(SourceMap, UnknownElementIsNotMistakenForAnother) {
  const Where where = ExampleMap().Locate("layer[7].name");
  EXPECT_EQ(where.file, "net.prototxt");
  EXPECT_EQ(where.line, 0);
}

TEST(SourceMap, KeepsTheFirstPosition) {
  SourceMap map = ExampleMap();
  map.Add("layer[0]", {9, 9});
  EXPECT_EQ(map.Locate("layer[0]").line, 1);
}

TEST(SourceMap, MovesAFieldWithAllBelowAndNothingElse) {
  SourceMap map = ExampleMap();
  map.Move("layer[1]", "removed");
  EXPECT_FALSE(map.Has("layer[1].bottom[0]"));
  EXPECT_TRUE(map.Has("removed.bottom[0]"));
  EXPECT_TRUE(map.Has("layer[10]"));
  map.Remove("removed");
  EXPECT_FALSE(map.Has("removed.bottom[0]"));
}

TEST(SourceMap, ShiftUpMovesEveryIndexByOne) {
  SourceMap map = ExampleMap();
  map.ShiftUp("layer");
  EXPECT_FALSE(map.Has("layer[0]"));
  EXPECT_EQ(map.Locate("layer[2].bottom[1]").column, 9);
  EXPECT_EQ(map.Locate("layer[11]").line, 20);
  EXPECT_EQ(map.size(), ExampleMap().size());
}

TEST(SourceMap, BelowAndBack) {
  SourceMap map;
  map.file = "f";
  map.Add("net_param", {1, 1});
  map.Add("net_param.layers[0].name", {2, 3});
  map.Add("net_params", {9, 9});
  SourceMap below = map.Below("net_param");
  EXPECT_EQ(below.Locate("layers[0].name").line, 2);
  EXPECT_EQ(below.file, "f");
  EXPECT_EQ(below.size(), 1u);
  below.Move("layers", "layer");
  map.SetBelow("net_param", below);
  EXPECT_EQ(map.Locate("net_param.layer[0].name").column, 3);
  EXPECT_FALSE(map.Has("net_param.layers[0].name"));
  EXPECT_EQ(map.Locate("net_param").line, 1);
  EXPECT_EQ(map.size(), 3u);
}

}  // namespace
}  // namespace crema
