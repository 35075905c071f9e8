// Names and values of other tools: the message says what they are here, once.
#include "format/foreign_names.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;

struct NameMistake {
  const char* text;
  const char* message;
};

template <typename MessageType>
void ExpectOneProblem(const std::string& text, const std::string& message) {
  MessageType parsed;
  std::vector<Problem> problems;
  ParseText(text, "f", &parsed, nullptr, &problems);
  std::string lines;
  for (const Problem& problem : problems) lines += ToString(problem) + "\n";
  EXPECT_EQ(problems.size(), 1U) << text << "\n" << lines;
  EXPECT_TRUE(Contains(lines, message)) << text << "\n" << lines;
}

TEST(ForeignNames, FieldsOfSolvers) {
  const NameMistake kMistakes[] = {
      {"learning_rate: 0.1", "unknown field 'learning_rate' (did you mean 'base_lr'?)"},
      {"lr: 0.1", "did you mean 'base_lr'?"},
      {"epochs: 10", "did you mean 'max_epoch'?"},
      {"iterations: 10", "did you mean 'max_iter'?"},
      {"optimizer: \"Adam\"", "write type: \"Adam\""},
      {"lr_scheduler: \"cosine\"", "did you mean 'lr_policy'?"},
      {"betas: [0.9, 0.999]", "write momentum: 0.9 and momentum2: 0.999"},
      {"seed: 1", "did you mean 'random_seed'?"},
      {"batch_size: 64", "belongs in 'data_param' of the data layer"},
      {"memory_budget: 512", "(it belongs in the net)"},
      {"layer { name: \"a\" }", "(it belongs in the net)"},
  };
  for (const NameMistake& mistake : kMistakes) {
    ExpectOneProblem<SolverParameter>(mistake.text, mistake.message);
  }
}

TEST(ForeignNames, FieldsOfLayers) {
  const NameMistake kMistakes[] = {
      {"dropout_param { ratio: 0.5 }", "unknown field 'ratio' (did you mean 'dropout_ratio'?)"},
      {"dropout_param { p: 0.5 }", "did you mean 'dropout_ratio'?"},
      {"convolution_param { padding: 2 }", "did you mean 'pad'?"},
      {"convolution_param { strides: 2 }", "did you mean 'stride'?"},
      {"convolution_param { filters: 2 }", "did you mean 'num_output'?"},
      {"convolution_param { use_bias: true }", "did you mean 'bias_term'?"},
      {"pooling_param { kernel: 2 }", "did you mean 'kernel_size'?"},
      {"batch_norm_param { momentum: 0.1 }", "here it is moving_average_fraction (0.9 for"},
      {"inner_product_param { out_features: 500 }", "did you mean 'num_output'?"},
      {"inner_product_param { units: 5 }", "did you mean 'num_output'?"},
      {"maxout_param { minout: true }", "negate the bottom and the top with Power layers"},
      {"units: 5", "num_output here, a field of inner_product_param"},
      {"activation: \"relu\"", "add a layer after this one, for example of type \"ReLU\""},
      {"scale: 0.0039", "(it belongs in 'transform_param')"},
      {"transform_param { mean: 128 }", "write mean_value: 128, or mean_file"},
      {"param { lr: 2 }", "did you mean 'lr_mult'?"},
  };
  for (const NameMistake& mistake : kMistakes) {
    ExpectOneProblem<NetParameter>(StrCat("layer { name: \"c\" ", mistake.text, " }"),
                                   mistake.message);
  }
  ExpectOneProblem<NetParameter>("base_lr: 0.1", "(it belongs in the solver)");
}

TEST(ForeignNames, ValuesOfSolvers) {
  const NameMistake kMistakes[] = {
      {"solver_mode: \"GPU\"", "has no value the string \"GPU\"; write GPU, without quotes"},
      {"debug_info: yes", "expects true or false, got yes; write true"},
      {"debug_info: No", "got No; write false"},
      {"max_iter: 30_000", "'30_000' is not a number; write 30000"},
      {"max_iter: 3e1", "got 3e1; write 30"},
      {"max_iter: 20.0", "got 20.0; write 20"},
      {"max_iter: -2e1", "got -2e1; write -20"},
      {"max_iter: \"20\"", "got the string \"20\"; write 20"},
      {"base_lr: \"0.1\"", "got the string \"0.1\"; write 0.1"},
      {"max_iter: 10*3", "a value is one number, got 10*3; write 30"},
      {"base_lr: 10^-3", "got 10^-3; write 0.001"},
      {"base_lr: 10^-3 max_iter: 3", "write 0.001"},
      {"max_iter: ${MAX_ITER}", "variables such as ${MAX_ITER} are not replaced"},
      {"max_iter: $N\nbase_lr: 1", "variables such as $N are not replaced"},
      {"base_lr: 1e\u22123", "'\u2212' is no minus sign; write -"},
      {"base_lr: \u22123", "'\u2212' is no minus sign; write -"},
      {"net: /tmp/a-b/net.pt\nbase_lr: 1", "expects a string in quotes; write \"/tmp/a-b/net.pt\""},
      {"net: nets/net.pt max_iter: 3", "write \"nets/net.pt\""},
      {"net: net.pt", "write \"net.pt\""},
      {"\"max_iter\": 30", "names of fields have no quotes"},
      {"net: \"C:\\Users\\me\"", "in a path, write '/'"},
  };
  for (const NameMistake& mistake : kMistakes) {
    ExpectOneProblem<SolverParameter>(mistake.text, mistake.message);
  }
}

TEST(ForeignNames, ValuesOfLayers) {
  const NameMistake kMistakes[] = {
      {"data_param { backend: \"LMDB\" }", "write LMDB, without quotes"},
      {"pooling_param { pool: \"MAX\" }", "write MAX, without quotes"},
      {"pooling_param { pool: AVERAGE }", "did you mean 'AVE'?"},
      {"loss_param { normalization: MEAN }", "VALID is the mean over the labels that count"},
      {"convolution_param { bias_term: no }", "write false"},
      {"convolution_param { bias_term: \"false\" }", "write false"},
      {"convolution_param { kernel_size: (5, 5) pad: 1 }",
       "in brackets: write kernel_size: [5, 5]"},
      {"convolution_param { num_output: (5, 5) }", "got (5, 5)"},
      {"type: CONVOLUTION", "write \"Convolution\""},
      {"type: EUCLIDEAN_LOSS", "write \"EuclideanLoss\""},
      {"type: Pooling top: \"a\"", "write \"Pooling\""},
      {"include { phase: VAL }", "did you mean 'TEST'?"},
      {"convolution_param { pad: \"same\" }", "keeps the size: pad: 2 for 5"},
      {"data_param { source: [\"a\", \"b\"] }", "got a list: it takes one value"},
      {"convolution_param\nnum_output: 2\nkernel_size: 5\n}", "expects a block in braces"},
  };
  for (const NameMistake& mistake : kMistakes) {
    ExpectOneProblem<NetParameter>(StrCat("layer { name: \"c\" ", mistake.text, " }"),
                                   mistake.message);
  }
}

TEST(ForeignNames, TypesOfLayers) {
  const std::pair<const char*, const char*> kTypes[] = {
      {"Conv2d", "; write Convolution"},
      {"Linear", "; write InnerProduct"},
      {"Dense", "; write InnerProduct"},
      {"LeakyReLU", "; write ReLU with relu_param { negative_slope: 0.01 }"},
      {"CrossEntropyLoss", "; write SoftmaxWithLoss"},
      {"NLLLoss", "; write SoftmaxWithLoss in place of LogSoftmax and NLLLoss"},
      {"MSELoss", "; write EuclideanLoss"},
      {"MaxPooling2D", "; write Pooling with pooling_param { pool: MAX }"},
      {"BatchNorm2d", ""},
  };
  for (const auto& [type, hint] : kTypes) {
    EXPECT_TRUE(ForeignLayerHint(type).starts_with(hint)) << type << ForeignLayerHint(type);
  }
}

}  // namespace
}  // namespace crema
