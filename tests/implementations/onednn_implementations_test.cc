// Cases that oneDNN implementations refuse, and NaN and infinity, which they treat as native code
// does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/memory_format.h"
#include "support/layer_run.h"
#include "support/net.h"

namespace crema::test {
namespace {

const Implementation* ImplementationOf(const LayerType& type, const std::string& name) {
  const auto implementation = std::ranges::find(type.implementations, name, &Implementation::name);
  return implementation == type.implementations.end() ? nullptr : implementation->get();
}

class OneDnnImplementations : public testing::Test {
 protected:
  void SetUp() override {
    if (ImplementationOf(*TestRegistry().Find("Softmax"), "onednn") == nullptr) {
      GTEST_SKIP() << "this build has no oneDNN";
    }
    if (ChannelBlock() == 0) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  }
};

struct Question {
  std::string type;
  std::string prototxt;
  std::vector<int64_t> shape;
  std::string reason;  // a part of it; empty: the implementation says yes
  bool backward = false;
  bool deterministic = false;
  int outputs = 1;
  DType dtype = DType::kF32;
};

std::string ReasonOf(const Question& question) {
  const LayerType& type = *TestRegistry().Find(question.type);
  LayerSample sample;
  sample.prototxt = question.prototxt;
  sample.inputs = {{.shape = question.shape}};
  sample.outputs = question.outputs;
  const LayerCase layer_case(type, sample, question.dtype);
  const Support support = ImplementationOf(type, "onednn")
                              ->Supports({.layer = layer_case.layer(),
                                          .context = layer_case.infer_context(),
                                          .info = layer_case.info(),
                                          .backward = question.backward,
                                          .to_input = question.backward,
                                          .deterministic = question.deterministic});
  return support.yes ? "" : support.reason;
}

TEST_F(OneDnnImplementations, SayWhyNot) {
  const std::string max = "pooling_param { kernel_size: 3 stride: 2 }";
  const std::string global = "pooling_param { pool: AVE global_pooling: true }";
  const std::string mean = "pooling_param { pool: AVE kernel_size: 3 stride: 2 ";
  const std::string large = "pooling_param { kernel_size: 16 stride: 3 }";
  const std::vector<Question> questions = {
      {"Pooling", max, {2, 32, 7, 6}, ""},
      {"Pooling", max, {2, 32, 7, 6}, "", true},
      {"Pooling", max, {2, 32, 7, 6}, "number of threads", false, true},
      {"Pooling", max, {2, 7, 7, 6}, "whole blocks"},
      {"Pooling", max, {0, 16, 7, 6}, "nothing to pool"},
      {"Pooling", max, {2, 32, 7, 6}, "no positions", false, false, 2},
      {"Pooling", max, {2, 32, 7, 6}, "is for f32", false, false, 1, DType::kF64},
      {"Pooling", "pooling_param { kernel_size: 1 stride: 2 }", {1, 16, 4, 4}, "window is empty"},
      {"Pooling",
       "pooling_param { pool: STOCHASTIC kernel_size: 2 }",
       {1, 16, 4, 4},
       "MAX and AVE"},
      {"Pooling", large, {1, 16, 20, 17}, ""},
      {"Pooling", large, {1, 16, 20, 17}, "", true},
      {"Pooling", global, {2, 48, 5, 3}, "no longer"},
      {"Pooling", global, {2, 48, 5, 3}, "no longer", true},
      // The last window ends with the padding, beyond it, or beyond an image without padding.
      {"Pooling", mean + "pad: 1 }", {1, 16, 5, 5}, ""},
      {"Pooling", mean + "pad: 1 }", {1, 16, 5, 6}, "Caffe does not count"},
      {"Pooling", mean + "pad: 1 avg_include_pad: false }", {1, 16, 5, 6}, ""},
      {"Pooling", mean + "}", {1, 16, 6, 8}, ""},
      {"LRN", "", {2, 32, 5, 5}, ""},
      {"LRN", "", {2, 32, 5, 5}, "", true},
      {"LRN", "", {2, 32, 5, 5}, "number of threads", false, true},
      {"LRN", "", {0, 32, 5, 5}, "nothing to do"},
      {"LRN", "lrn_param { norm_region: WITHIN_CHANNEL }", {2, 32, 5, 5}, "ACROSS_CHANNELS"},
      {"LRN", "lrn_param { beta: 0.6 }", {2, 32, 5, 5}, "slow reference"},
      {"Softmax", "", {64, 100}, ""},
      {"Softmax", "", {64, 100}, "number of threads", false, true},
      {"Softmax", "", {64, 100}, "is for f32", false, false, 1, DType::kF64},
      {"Softmax", "", {64, 100, 2}, "classes are apart"},
      {"Softmax", "", {64, 10}, "so few"},
      {"Softmax", "", {1, 10000}, "so few"},
      {"Softmax", "softmax_param { axis: -1 }", {2, 50, 100}, ""},
  };
  for (const Question& question : questions) {
    const std::string reason = ReasonOf(question);
    const bool as_expected = question.reason.empty()
                                 ? reason.empty()
                                 : reason.find(question.reason) != std::string::npos;
    EXPECT_TRUE(as_expected) << question.type << " " << question.prototxt << " says '" << reason
                             << "', expected '" << question.reason << "'";
  }
}

bool Same(const Values& a, const Values& b, double tolerance) {
  return std::ranges::equal(a, b, [&](double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || x == y || std::abs(x - y) <= tolerance;
  });
}

// Runs our own code and the implementation on values of which some are `odd`, and all of the first
// tenth. Our own is that on blocked blobs: the native LRN adds to a running sum, in which NaN
// stays.
void ExpectSameOf(const std::string& name, const std::string& prototxt, std::vector<int64_t> shape,
                  double odd) {
  SCOPED_TRACE(name + " " + prototxt + " of " + std::to_string(odd));
  const LayerType& type = *TestRegistry().Find(name);
  LayerSample sample;
  sample.prototxt = prototxt;
  sample.inputs = {{.shape = std::move(shape)}};
  const LayerCase layer_case(type, sample, DType::kF32);
  CaseValues values = DrawValues(layer_case);
  Values& x = values.inputs[0];
  for (size_t i = 0; i < x.size(); ++i) {
    if (i < x.size() / 10 || i % 37 == 5) x[i] = odd;
  }
  RunOptions options;
  options.implementation = ImplementationOf(type, "blocked");
  const RunResult own = RunLayer(layer_case, values, options);
  options.backward = true;  // the places of the gradients matter here, not their values
  options.implementation = ImplementationOf(type, "onednn");
  const RunResult implementation = RunLayer(layer_case, values, options);
  EXPECT_EQ(implementation.failures, std::vector<std::string>{});
  EXPECT_TRUE(Same(own.outputs[0], implementation.outputs[0], 1e-6));
}

TEST_F(OneDnnImplementations, WhatIsNoNumberStaysSo) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double odd : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
    const std::string max = "pooling_param { kernel_size: 3 stride: 2 pad: 1 }";
    const std::string mean = "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }";
    ExpectSameOf("Pooling", max, {2, 32, 7, 7}, odd);
    ExpectSameOf("Pooling", mean, {2, 32, 7, 7}, odd);
    ExpectSameOf("LRN", "", {2, 32, 5, 5}, odd);
    ExpectSameOf("Softmax", "", {60, 100}, odd);
    ExpectSameOf("Softmax", "", {200, 31}, odd);
  }
}

}  // namespace
}  // namespace crema::test
