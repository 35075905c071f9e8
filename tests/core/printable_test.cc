#include "core/printable.h"

#include <gtest/gtest.h>

namespace crema {
namespace {

TEST(Printable, ControlsAndInvalidUtf8AreEscaped) {
  EXPECT_EQ(Printable("conv1/relu \xC3\xA9"), "conv1/relu \xC3\xA9");
  EXPECT_EQ(Printable("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(Printable("\xC2\x9b"), "\\xc2\\x9b");  // U+009B begins commands, too
  EXPECT_EQ(Printable("\xC2\xA0"), "\xC2\xA0");
  EXPECT_EQ(Printable("\xFF\xC3"), "\\xff\\xc3");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, LongTextsLoseTheirMiddle) {
  EXPECT_EQ(Printable("0123456789", 10), "0123456789");
  EXPECT_EQ(Printable("0123456789", 4), "01...89");
  EXPECT_EQ(Printable("0\xC3\xA9"
                      "23456789",
                      4),
            "0\xC3\xA9...89");
  EXPECT_EQ(Printable(std::string(100, '\x80'), 4).size(), 5 * 4 + 3 + 2 * 4U - 8);
}

}  // namespace
}  // namespace crema
