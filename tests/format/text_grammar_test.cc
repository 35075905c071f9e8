// Accepts everything that protobuf's own parser accepts, with the same result.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "support/error_text.h"

namespace crema {
namespace {

class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override {}
  void AddWarning(int, int, const std::string&) override {}
};

bool ParseWithProtobuf(const std::string& text, google::protobuf::Message* message) {
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  return parser.ParseFromString(text, message);
}

std::string Problems(const std::vector<Problem>& problems) {
  return problems.empty() ? "" : ToString(problems.front());
}

void ExpectSameAsProtobuf(const std::string& text) {
  NetParameter expected;
  NetParameter got;
  std::vector<Problem> problems;
  ASSERT_TRUE(ParseWithProtobuf(text, &expected)) << text;
  ParseText(text, "net", &got, nullptr, &problems);
  EXPECT_TRUE(problems.empty()) << text << "\n" << Problems(problems);
  EXPECT_EQ(got.SerializeAsString(), expected.SerializeAsString()) << text;
}

TEST(TextGrammar, ReadsWhatProtobufReads) {
  const char* texts[] = {
      "",
      "name: \"a\"",
      "name: 'a' \"b\"\n'c'",
      "name: 'it\\'s \\x41\\101\\n\\t\\\\ \\u00e9'",
      "name: \"a\", debug_info: true; force_backward: f",
      "debug_info: 1 force_backward: 0",
      "debug_info: True force_backward: False",
      "debug_info: t # a comment { with braces\nname: 'x'",
      "layer { name: 'a' } layer: { name: 'b' } layer < name: 'c' > layer: < name: 'd' >",
      "layer [{ name: 'a' }, < name: 'b' >]",
      "layer { bottom: ['a', \"b\" 'c'] top: [] loss_weight: [1, -2.5, .5] }",
      "layer { loss_weight: 1e3 loss_weight: -1.5E-3 loss_weight: 2f loss_weight: 1.f }",
      "layer { loss_weight: inf loss_weight: -inf loss_weight: Infinity loss_weight: - 1 }",
      "layer { loss_weight: 123456789123456789 loss_weight: 1e39 loss_weight: -1e39 }",
      "input_dim: 0x10 input_dim: 010 input_dim: -0x1 input_dim: -2147483648 input_dim: 2147483647",
      "input_shape { dim: [1, 2] dim: 3 dim: 9223372036854775807 dim: -9223372036854775808 }",
      "layer { phase: TEST include { phase: 0 } include { phase: 1 } }",
      "layer{convolution_param{num_output:20 stride:1,pad:2}}",
      "layers { type: CONVOLUTION layer { name: 'x' type: 'conv' } }",
      "layer { python_param { param_str: '{\"a\": 1}' } } ;",
      "state { phase: TRAIN, level: 3, stage: 'a'; stage: 'b' }",
      "layer { blobs { data: [1, 2, 3] double_data: [0.1, nan] shape { dim: 3 } } }",
      "  \t\r\n name \r : \r 'x' ",
  };
  for (const char* text : texts) ExpectSameAsProtobuf(text);
}

TEST(TextGrammar, NotANumberIsRead) {
  NetParameter net;
  std::vector<Problem> problems;
  ParseText("layer { loss_weight: nan loss_weight: -NaN }", "n", &net, nullptr, &problems);
  ASSERT_TRUE(problems.empty());
  EXPECT_TRUE(std::isnan(net.layer(0).loss_weight(0)) && std::isnan(net.layer(0).loss_weight(1)));
}

TEST(TextGrammar, ByteOrderMarkAndCarriageReturnsAreTolerated) {
  const NetFile file =
      ParseNet("\xEF\xBB\xBFname: \"x\"\r\nlayer {\r\n  name: \"a\" type: \"ReLU\"\r\n}\r\n", "n");
  EXPECT_EQ(file.net.layer(0).name(), "a");
  EXPECT_EQ(file.source.Locate("layer[0].name").line, 3);
}

TEST(TextGrammar, RecordsPositions) {
  const NetFile file = ParseNet(
      "name: \"n\"\n"
      "layer {\n"
      "  name: \"c\" type: \"Convolution\"\n"
      "  convolution_param { kernel_size: 3 kernel_size: 5\n"
      "    pad: [1, 2] }\n"
      "}\n",
      "net.prototxt");
  const auto at = [&](const char* path) {
    const Where where = file.source.Locate(path);
    return std::pair(where.line, where.column);
  };
  EXPECT_EQ(at("layer[0]"), std::pair(2, 1));
  EXPECT_EQ(at("layer[0].type"), std::pair(3, 13));
  EXPECT_EQ(at("layer[0].convolution_param.kernel_size[1]"), std::pair(4, 38));
  EXPECT_EQ(at("layer[0].convolution_param.pad[1]"), std::pair(5, 14));
  EXPECT_EQ(at("layer[0].convolution_param.num_output"), std::pair(4, 3));
  EXPECT_TRUE(file.source.Has("layer[0].convolution_param"));
  EXPECT_FALSE(file.source.Has("layer[0].convolution_param.num_output"));
}

TEST(TextGrammar, PrintedTextReadsBack) {
  const NetFile file = ParseNet("layer { name: 'a\\n\u00E9' loss_weight: 0.1 phase: TEST }", "n");
  const NetFile again = ParseNet(PrintText(file.net), "printed");
  EXPECT_EQ(again.net.SerializeAsString(), file.net.SerializeAsString());
}

// Random damage: nothing crashes, and texts that protobuf still accepts give the same result.
TEST(TextGrammar, DamagedTextsNeverCrash) {
  const std::string whole =
      "name: \"n\" # c\nlayer { name: 'c' type: \"Convolution\" bottom: [\"a\", 'b']\n"
      "  convolution_param { num_output: 20, kernel_size: 0x3; weight_filler < std: -1.5e-3f > }\n"
      "  include { phase: TRAIN stage: 'x' } loss_weight: inf }\nlayer: { top: \"t\" }\n";
  const std::string pieces = "{}<>[]:;,#'\"\\-.0x9eaf \n\t\xC3\x01";
  std::mt19937 random(1);
  int read_by_both = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string text = whole;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int edit = 0; edit < edits; ++edit) {
      if (text.empty()) break;
      const size_t at = random() % text.size();
      const char piece = pieces[random() % pieces.size()];
      switch (random() % 4) {
        case 0:
          text[at] = piece;
          break;
        case 1:
          text.insert(at, 1, piece);
          break;
        case 2:
          text.erase(at, 1 + random() % 5);
          break;
        default:
          text.resize(at + 1);
          break;
      }
    }
    NetParameter expected;
    NetParameter got;
    std::vector<Problem> problems;
    const bool valid = ParseWithProtobuf(text, &expected);
    ParseText(text, "n", &got, nullptr, &problems);
    if (!valid) continue;
    ++read_by_both;
    ASSERT_TRUE(problems.empty()) << text << "\n" << Problems(problems);
    ASSERT_TRUE(google::protobuf::util::MessageDifferencer::Equals(got, expected)) << text;
  }
  EXPECT_GT(read_by_both, 100);
}

}  // namespace
}  // namespace crema
