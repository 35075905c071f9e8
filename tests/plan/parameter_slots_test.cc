#include <gtest/gtest.h>

#include "core/strings.h"
#include "support/net.h"

namespace crema {
namespace {

// `fields` of the InnerProduct begin in the third line.
std::string SlotError(const std::string& params, const std::string& fields = "") {
  return test::PlanError(
      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 3 } } }\n"
      "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"y\"\n" +
      params + "\ninner_product_param { num_output: 3 " + fields + "} }\n");
}

TEST(ParameterSlots, MultipliersThatAreNotFiniteAreRefusedWithTheirLine) {
  EXPECT_EQ(SlotError("param { lr_mult: nan }"),
            "net.prototxt:3:9: layer \"ip\": lr_mult is nan, not a finite number");
  EXPECT_EQ(SlotError("param { }\nparam { decay_mult: inf }"),
            "net.prototxt:4:9: layer \"ip\": decay_mult is inf, not a finite number");
  EXPECT_NE(SlotError("param { lr_mult: -inf decay_mult: nan }").find("decay_mult is nan"),
            std::string::npos);
}

TEST(ParameterSlots, RatesBelowZeroAreRefused) {
  EXPECT_EQ(SlotError("param { lr_mult: -1 }"),
            "net.prototxt:3:9: layer \"ip\": lr_mult is -1; use 0 or more");
}

TEST(ParameterSlots, OtherMultipliersAreKept) {
  EXPECT_EQ(SlotError("param { lr_mult: 0 decay_mult: -1 }"), "");
}

TEST(ParameterSlots, FillersThatCannotFillAreRefusedWithTheirLine) {
  const std::string rest = "\nbias_filler { type: 'constant' }\nweight_filler { ";
  EXPECT_EQ(SlotError("", rest + "type: 'xaviar' } ")
                .find("net.prototxt:6:17: layer \"ip\": unknown filler type 'xaviar' (did you mean "
                      "'xavier'?); the types are"),
            0U)
      << SlotError("", rest + "type: 'xaviar' } ");
  for (const auto& [foreign, here] : {std::pair{"kaiming", "msra"},
                                      {"he_normal", "msra"},
                                      {"glorot_uniform", "xavier"},
                                      {"zeros", "constant"},
                                      {"normal", "gaussian"}}) {
    const std::string error = SlotError("", StrCat(rest, "type: '", foreign, "' } "));
    EXPECT_NE(error.find(StrCat("(did you mean '", here, "'?)")), std::string::npos) << error;
  }
  EXPECT_EQ(SlotError("", rest + "type: 'gaussian' sparse: 9 } ")
                .find("net.prototxt:6:34: layer \"ip\": sparse is 9"),
            0U)
      << SlotError("", rest + "type: 'gaussian' sparse: 9 } ");
}

TEST(ParameterSlots, ErrorNamesTheFillerOfTheBlob) {
  const std::string both = "\nweight_filler { type: 'xaviar' }\nbias_filler { type: 'xaviar' } ";
  EXPECT_NE(SlotError("", both).find("net.prototxt:5:17"), std::string::npos)
      << SlotError("", both);
  EXPECT_NE(SlotError("", both).find("net.prototxt:6:15"), std::string::npos)
      << SlotError("", both);
}

TEST(ParameterSlots, FillersOfGivenBlobsDoNotMatter) {
  EXPECT_EQ(SlotError("blobs { shape { dim: 3 dim: 3 } data: [1, 2, 3, 4, 5, 6, 7, 8, 9] }\n",
                      "weight_filler { type: 'none_of_ours' } bias_term: false "),
            "");
}

// One problem, not also that the two do not agree.
TEST(ParameterSlots, AMultiplierOfASharedBlobThatIsNotFiniteIsReportedOnce) {
  EXPECT_EQ(SlotError("param { name: \"w\" lr_mult: 1 } inner_product_param { num_output: 3 } }\n"
                      "layer { name: \"other\" type: \"InnerProduct\" bottom: \"x\" top: \"z\"\n"
                      "param { name: \"w\" lr_mult: nan }"),
            "net.prototxt:5:19: layer \"other\": lr_mult is nan, not a finite number");
}

}  // namespace
}  // namespace crema
