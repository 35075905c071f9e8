#include "core/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

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

TEST(JsonString, WhatIsNoUtf8IsReplaced) {
  for (const char* good : {"\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(JsonString(good), std::string("\"") + good + "\"");
  }
  const std::string mark = "\\ufffd";
  // Overlong, surrogates, beyond U+10FFFF, truncated.
  EXPECT_EQ(JsonString("\xC1\xBF"), "\"" + mark + mark + "\"");
  for (const char* bad : {"\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF"}) {
    EXPECT_EQ(JsonString(bad), "\"" + mark + mark + mark + "\"") << bad;
  }
  for (const char* bad :
       {"\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_EQ(JsonString(bad), "\"" + mark + mark + mark + mark + "\"") << bad;
  }
  EXPECT_EQ(JsonString("\xE2\x82"), "\"" + mark + mark + "\"");
}

TEST(JsonNumber, WhatJsonCannotSayIsNull) {
  EXPECT_EQ(JsonNumber(NAN), "null");
  EXPECT_EQ(JsonNumber(-INFINITY), "null");
}

}  // namespace
}  // namespace crema
