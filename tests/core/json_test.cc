#include "core/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace crema {
namespace {

TEST(JsonNumber, FloatsHaveTheDigitsThatTellThemFromOthers) {
  EXPECT_EQ(JsonNumber(double{0.1F}), "0.1");
  EXPECT_EQ(JsonNumber(double{0.33333334F}), "0.33333334");
  EXPECT_EQ(JsonNumber(100000), "100000");
  EXPECT_EQ(JsonNumber(16777215), "16777215");
}

TEST(JsonNumber, WhatIsNoFloatHasNineDigits) {
  EXPECT_EQ(JsonNumber(0.1), "0.1");
  EXPECT_EQ(JsonNumber(0.12345678912), "0.123456789");
}

TEST(JsonNumber, WhatJsonCannotSayIsNull) {
  EXPECT_EQ(JsonNumber(NAN), "null");
  EXPECT_EQ(JsonNumber(-INFINITY), "null");
}

}  // namespace
}  // namespace crema
