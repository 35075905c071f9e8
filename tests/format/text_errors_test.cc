// Problems of a text: each is found, with its position and a remedy.
#include <gtest/gtest.h>

#include <algorithm>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;

// All problems of a net, one per line.
std::string ProblemsIn(const std::string& text) {
  NetParameter net;
  std::vector<Problem> problems;
  ParseText(text, "net.prototxt", &net, nullptr, &problems);
  std::string lines;
  for (const Problem& problem : problems) lines += ToString(problem) + "\n";
  return lines;
}

// The problem of a text that has one.
std::string ProblemIn(const std::string& text) {
  const std::string lines = ProblemsIn(text);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
  return lines.substr(0, lines.find('\n'));
}

std::string InConvolution(const std::string& text) {
  return "layer { name: \"c\"\nconvolution_param { " + text + " } }";
}

TEST(TextErrors, NameTheLayerAndTheNearestField) {
  std::string text(60, '\n');
  text += "layer { bn_param { eps: 1e-5 } name: \"bn1\" type: \"BatchNorm\" }";
  const std::string expected =
      "net.prototxt:61:12: layer \"bn1\": unknown field 'bn_param' (did you mean "
      "'batch_norm_param'?)";
  text.replace(text.find("{ bn"), 1, "{   ");
  EXPECT_EQ(ProblemIn(text), expected);
}

TEST(TextErrors, ForkFieldIsFineOnTheLayerThatHasIt) {
  EXPECT_EQ(ProblemsIn("layer { name: \"bn1\" type: \"BN\" bn_param { eps: 1e-5 } }"), "");
}

TEST(TextErrors, ThreeInOneFileAreAllReported) {
  EXPECT_EQ(ProblemsIn("name: \"n\"\n"
                       "layer {\n"
                       "  convolution_parm { kernel_size: 3 }\n"
                       "  name: \"c1\" type: \"Convolution\"\n"
                       "}\n"
                       "layer {\n"
                       "  name: \"p1\"\n"
                       "  pooling_param { pool: MXA }\n"
                       "}\n"
                       "debug_info: 7\n"),
            "net.prototxt:3:3: layer \"c1\": unknown field 'convolution_parm' (did you mean "
            "'convolution_param'?)\n"
            "net.prototxt:8:25: layer \"p1\": 'pool' has no value MXA (did you mean 'MAX'?); "
            "allowed: MAX, AVE, STOCHASTIC\n"
            "net.prototxt:10:13: 'debug_info' expects true or false, got 7\n");
}

TEST(TextErrors, UnknownFieldSaysWhereItBelongs) {
  EXPECT_EQ(ProblemIn("layer { name: \"c\" kernel_size: 3 }"),
            "net.prototxt:1:19: layer \"c\": unknown field 'kernel_size' (it belongs in "
            "'convolution_param' or 'pooling_param' or 'unpooling_param' or another block)");
  EXPECT_TRUE(Contains(ProblemIn(InConvolution("bottom: \"x\"")), "it belongs outside"));
}

TEST(TextErrors, IntegerOutOfRangeGivesTheRange) {
  EXPECT_EQ(ProblemIn(InConvolution("num_output: 4294967296")),
            "net.prototxt:2:33: layer \"c\": 'num_output' expects an integer from 0 to 4294967295, "
            "got 4294967296");
  EXPECT_TRUE(Contains(ProblemIn(InConvolution("num_output: -1")), "from 0 to 4294967295, got -1"));
  EXPECT_TRUE(Contains(ProblemIn(InConvolution("axis: 2147483648")),
                       "from -2147483648 to 2147483647, got 2147483648"));
}

TEST(TextErrors, WrongKindOfValueSaysWhatIsExpected) {
  EXPECT_TRUE(Contains(ProblemIn(InConvolution("num_output: 3.5")), "got 3.5"));
  EXPECT_TRUE(Contains(ProblemIn(InConvolution("num_output: \"3\"")), "got the string \"3\""));
  EXPECT_TRUE(Contains(ProblemIn(InConvolution("num_output { a: 1 }")), "got a block"));
  EXPECT_TRUE(
      Contains(ProblemIn("layer { name: \"c\" type: Convolution }"),
               "'type' expects a string in quotes, got Convolution; write \"Convolution\""));
  EXPECT_TRUE(
      Contains(ProblemIn("layer { name: \"c\" relu_param: 3 }"), "write relu_param { ... }"));
  EXPECT_TRUE(Contains(ProblemIn("layer { name: \"d\" data_param { batch_size: auto } }"),
                       "got auto; write AUTO in capital letters"));
}

TEST(TextErrors, MissingValueAndMissingColon) {
  EXPECT_TRUE(Contains(ProblemIn(InConvolution("num_output:\n kernel_size: 3")),
                       "3:2: layer \"c\": 'num_output' expects"));
  EXPECT_TRUE(Contains(ProblemIn(InConvolution("num_output 20")),
                       "expected ':' after 'num_output', got '20'"));
}

TEST(TextErrors, FieldGivenTwiceNamesTheFirst) {
  EXPECT_EQ(
      ProblemIn(InConvolution("num_output: 1\n num_output: 2")),
      "net.prototxt:3:2: layer \"c\": 'num_output' is given twice, first at 2:21; keep one of "
      "them");
  EXPECT_TRUE(Contains(ProblemIn("layer { name: \"r\" relu_param { negative_slope: 1 }\n"
                                 "relu_param { negative_slope: 2 } }"),
                       "2:1: layer \"r\": 'relu_param' is given twice, first at 1:19"));
}

TEST(TextErrors, MissingRequiredFieldIsReportedAtItsBlock) {
  EXPECT_EQ(ProblemIn("layer { name: \"c\"\n  clip_param { min: 0 } }"),
            "net.prototxt:2:3: layer \"c\": 'max' is missing in 'clip_param'; it takes a number");
}

TEST(TextErrors, ForgottenBraceIsFoundAtTheNextLayer) {
  EXPECT_EQ(ProblemIn("layer {\n  name: \"a\"\n  relu_param { negative_slope: 1\n}\n"
                      "layer { name: \"b\" }\n"),
            "net.prototxt:5:1: layer \"a\": 'layer' is not closed before this 'layer': a '}' is "
            "missing for the one opened at 1:7");
}

TEST(TextErrors, EndOfFileSaysWhereTheOpenBraceIs) {
  EXPECT_EQ(ProblemIn("layer {\n  name: \"a\"\n"),
            "net.prototxt:3:1: layer \"a\": the file ends, but 'layer' is not closed: a '}' is "
            "missing for the one opened at 1:7");
}

TEST(TextErrors, BraceTooManyIsReportedOnce) {
  EXPECT_EQ(ProblemIn("layer { name: \"a\" } }\nlayer { name: \"b\" }"),
            "net.prototxt:1:21: unexpected '}': nothing is open here; remove it");
}

TEST(TextErrors, WrongClosingSymbol) {
  EXPECT_TRUE(Contains(ProblemIn("layer { name: \"a\" >\nlayer { name: \"b\" }"),
                       "expected '}' to close what is opened at 1:7, got '>'"));
}

TEST(TextErrors, ForgottenQuoteIsFoundOnItsLine) {
  const std::string problem = ProblemIn(
      "layer { name: \"a\"\n  type: \"ReLU\n  bottom: \"x\"\n}\nlayer { name: \"b\" top: \"y\" "
      "}\n");
  EXPECT_TRUE(Contains(problem, "net.prototxt:2:")) << problem;
  EXPECT_TRUE(Contains(problem, "quote is missing")) << problem;
}

TEST(TextErrors, TypographicQuotesAndSpecialSpaces) {
  const std::string quotes = ProblemsIn("layer { name: \u201Ca\u201D }");
  EXPECT_TRUE(Contains(quotes, "1:15: typographic quote")) << quotes;
  EXPECT_TRUE(Contains(ProblemIn("name:\u00A0\"n\""), "1:6: an invisible special space"));
}

TEST(TextErrors, ColumnsCountCharactersNotTabStopsOrBytes) {
  EXPECT_TRUE(Contains(ProblemIn("\tnam: \"x\""), "net.prototxt:1:2:"));
  EXPECT_TRUE(Contains(ProblemIn("name: \"\u00E9\u00E9\" nam: 1"), "net.prototxt:1:12:"));
}

TEST(TextErrors, ListProblems) {
  EXPECT_TRUE(
      Contains(ProblemIn("layer { name: \"a\" loss_weight: [1 2] }"), "expected ',' or ']'"));
  EXPECT_TRUE(Contains(ProblemIn("layer { name: \"a\" loss_weight: [1, 2 }"), "a ']' is missing"));
  EXPECT_TRUE(Contains(ProblemIn("name: [\"a\", \"b\"]"), "got a list: it takes one value"));
}

TEST(TextErrors, SkippedValuesOfUnknownFieldsHideNothing) {
  const std::string lines =
      ProblemsIn("foo: \"a\" 'b'\nbar { x: [1, {}] y < z: 2 > }\nbaz: -inf\nqux: [1, 2]\nnam: 3");
  for (const char* part : {"1:1: ", "2:1: ", "3:1: ", "4:1: ", "5:1: "}) {
    EXPECT_TRUE(Contains(lines, part)) << part << "\n" << lines;
  }
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5) << lines;
}

TEST(TextErrors, FrequentTypingErrorsNameTheRemedyOnce) {
  const struct {
    const char* text;
    const char* message;
  } kMistakes[] = {
      {"layer { name: \"d\" dropout_param { dropout_ratio: 0,5 } }",
       "decimals take a point, not a comma: write 0.5"},
      {"layer { name: \"c\" convolution_param { num_output: 1,000 } }",
       "got 1,000; write it without a comma"},
      {"layer { name: \"i\" input_param { shape { dim: 1, 3, 224, 224 } } }", "write dim: [1, 3"},
      {"layer { name: \"t\" transform_param { scale: 1/256 } }",
       "a value is one number, got 1/256; write 0.00390625"},
      {"layer { name: \"d\" dropout_param { dropout_ratio: 50% } }", "50 % is 0.5"},
      {"layer { name: \"c\" convolution_param { num_output = 20 } }", "write num_output: 20"},
      {"layer { name: \"c\" convolution_param = { num_output: 20 } }",
       "write convolution_param { ... }"},
      {"layer { nam = \"c\" }", "unknown field 'nam' (did you mean 'name'?)"},
      {"// it's the name\nname: \"n\"", "1:1: comments begin with '#'"},
      {"name: \"n\" // don't { use", "1:11: comments begin with '#'"},
      {"/* two\nlines { */ name: \"n\"", "write # instead of /*"},
      {"layer { name: \"c\" convolution_param { kernel_size: 5x5 } }",
       "'5x5' is not a number; write one number, or two fields for height and width, such as "
       "kernel_h and kernel_w instead of kernel_size"},
      {"layer { name: \"c\" scale_param { axis: 0.5px } }", "'0.5px' is not a number"},
      {"layer { name: \"c\" convolution_param { num_output: 10k } }",
       "'10k' is not a number; write 10000"},
      {"layer { name: \"c\" convolution_param { num_output: 3px } }",
       "'3px' is not a number; write 3"},
      {"layer { name: \"p\" convolution_param { pool: MAX } }",
       "unknown field 'pool' (it belongs in 'pooling_param' or 'spp_param')"},
      {"layer { name: \"c\" convolution_param { lr_mult: 2 } }", "it belongs in 'param'"},
  };
  for (const auto& mistake : kMistakes) {
    EXPECT_TRUE(Contains(ProblemIn(mistake.text), mistake.message)) << ProblemIn(mistake.text);
  }
}

TEST(TextErrors, ManyCommentsOfOtherLanguagesAreReadWithoutRecursion) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "//\n";
  EXPECT_TRUE(Contains(ProblemsIn(text + "name: \"n\""), "comments begin with '#'"));
}

TEST(TextErrors, DeepNestingIsBounded) {
  SolverParameter solver;
  std::vector<Problem> problems;
  std::string text = "net_param { layer { ";
  for (int i = 0; i < 100000; ++i) text += "{ a: [ ";
  ParseText(text, "s", &solver, nullptr, &problems);
  EXPECT_FALSE(problems.empty());
}

TEST(TextErrors, FieldPathIsBelowTheLayer) {
  NetParameter net;
  std::vector<Problem> problems;
  ParseText("layer { name: \"c\" convolution_param { kernel_size: 3 kernel_size: x } }", "n", &net,
            nullptr, &problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].where.field, "convolution_param.kernel_size");
  EXPECT_EQ(problems[0].where.layer, "c");
}

}  // namespace
}  // namespace crema
