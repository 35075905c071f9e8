#include "core/strings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace crema {
namespace {

const std::vector<std::string> kFields = {"batch_norm_param", "convolution_param", "pooling_param",
                                          "inner_product_param", "relu_param"};

TEST(StringsTest, NearestFindsTypos) {
  EXPECT_EQ(Nearest("convolution_parm", kFields), "convolution_param");
  EXPECT_EQ(Nearest("Pooling_Param", kFields), "pooling_param");
  EXPECT_EQ(Nearest("ReLu", std::vector<std::string>{"ReLU", "ELU"}), "ReLU");
}

TEST(StringsTest, NearestPrefersNamesThatBeginSo) {
  const std::vector<std::string> models = {"lenet", "resnet18", "resnet50"};
  EXPECT_EQ(Nearest("resnet", models), "resnet18");
  EXPECT_EQ(Nearest("lenett", models), "lenet");
}

TEST(StringsTest, NearestFindsInitials) {
  EXPECT_EQ(Nearest("bn_param", kFields), "batch_norm_param");
  EXPECT_EQ(Nearest("ip_param", kFields), "inner_product_param");
}

TEST(StringsTest, NearestIsEmptyWhenNothingIsNear) {
  EXPECT_EQ(Nearest("zebra", kFields), "");
  EXPECT_EQ(Nearest("x", {}), "");
  EXPECT_EQ(DidYouMean("zebra", kFields), "");
}

TEST(StringsTest, NearestWithinSoManyEdits) {
  const std::vector<std::string> names = {"train_lmdb", "test_lmdb"};
  EXPECT_EQ(Nearest("trian_lmdb", names, 2), "train_lmdb");
  EXPECT_EQ(Nearest("trian_lmdb", names, 1), "");
}

TEST(StringsTest, NearestSurvivesVeryLongWords) {
  EXPECT_EQ(Nearest(std::string(100000, 'q'), kFields), "");
}

TEST(StringsTest, DidYouMeanIsReadyToAppend) {
  EXPECT_EQ(DidYouMean("relu_parm", kFields), " (did you mean 'relu_param'?)");
}

TEST(StringsTest, SplitKeepsEmptyParts) {
  EXPECT_EQ(Split("a,,b,", ','), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_EQ(Split("", ','), (std::vector<std::string>{""}));
}

TEST(StringsTest, JoinUndoesSplit) {
  const std::vector<std::string> parts = {"a", "", "b"};
  EXPECT_EQ(Join(parts, ", "), "a, , b");
  EXPECT_EQ(Join({}, ","), "");
}

TEST(StringsTest, TrimTakesBlanksFromBothEnds) {
  EXPECT_EQ(Trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(StringsTest, StrCatStreamsItsArguments) { EXPECT_EQ(StrCat("a", 1, 2.5, 'c'), "a12.5c"); }

}  // namespace
}  // namespace crema
