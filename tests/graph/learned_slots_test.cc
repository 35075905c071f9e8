#include <gtest/gtest.h>

#include "support/net.h"

namespace crema {
namespace {

std::string ErrorOf(const std::string& params) {
  return test::PlanError(
      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 3 } } }\n"
      "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"y\"\n" +
      params + "\ninner_product_param { num_output: 3 } }\n");
}

TEST(LearnedSlots, MultipliersThatAreNotFiniteAreRefusedWithTheirLine) {
  EXPECT_EQ(ErrorOf("param { lr_mult: nan }"),
            "net.prototxt:3:9: layer \"ip\": lr_mult is nan, not a finite number");
  EXPECT_EQ(ErrorOf("param { }\nparam { decay_mult: inf }"),
            "net.prototxt:4:9: layer \"ip\": decay_mult is inf, not a finite number");
  EXPECT_NE(ErrorOf("param { lr_mult: -inf decay_mult: nan }").find("decay_mult is nan"),
            std::string::npos);
}

TEST(LearnedSlots, OtherMultipliersAreKept) {
  EXPECT_EQ(ErrorOf("param { lr_mult: -1 decay_mult: 0 }"), "");
}

// One problem, not also that the two do not agree.
TEST(LearnedSlots, AMultiplierOfASharedBlobThatIsNotFiniteIsReportedOnce) {
  EXPECT_EQ(ErrorOf("param { name: \"w\" lr_mult: 1 } inner_product_param { num_output: 3 } }\n"
                    "layer { name: \"other\" type: \"InnerProduct\" bottom: \"x\" top: \"z\"\n"
                    "param { name: \"w\" lr_mult: nan }"),
            "net.prototxt:5:19: layer \"other\": lr_mult is nan, not a finite number");
}

}  // namespace
}  // namespace crema
