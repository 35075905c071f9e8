// Sessions of blocked nets whose inputs change: the results of a plain net, or an error; and
// weights that change before they are fixed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillInput;
using test::PlanText;
using test::ValuesOf;

std::string Input(const std::string& name, const std::vector<int>& dims) {
  std::string text =
      StrCat("layer { name: '", name, "' type: 'Input' top: '", name, "' input_param { shape {");
  for (int dim : dims) text += StrCat(" dim: ", dim);
  return text + " } } }\n";
}

std::string XavierConv(const std::string& name, const std::string& bottom, int outputs,
                       int kernel = 3) {
  return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                name, "' convolution_param { num_output: ", outputs, " kernel_size: ", kernel,
                " pad: ", kernel / 2, " weight_filler { type: 'xavier' } } }\n");
}

std::string LayerText(const std::string& type, const std::string& name,
                      const std::string& bottoms) {
  std::string text = StrCat("layer { name: '", name, "' type: '", type, "' top: '", name, "' ");
  for (const std::string& bottom : Split(bottoms, ' ')) text += StrCat("bottom: '", bottom, "' ");
  return text + "}\n";
}

struct ReshapedNet {
  ReshapedNet(const std::string& text, bool optimize)
      : plan(PlanText(text, TEST, {.backward = false, .optimize = optimize})),
        weights(Weights::Make(*plan, 3)),
        session(plan, std::shared_ptr<const Weights>(weights), ExecContext(1, 3)) {}

  void Fill(uint64_t seed) {
    for (const PlannedLayer& layer : plan->layers) {
      if (layer.inputs.empty()) FillInput(&session, layer.name(), seed);
    }
  }
  std::vector<float> Run(uint64_t seed) {
    Fill(seed);
    session.Forward();
    return ValuesOf(session.DataOf(plan->outputs[0]));
  }

  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Weights> weights;
  Session session;
};

// The error of a pass after `input` has got another shape; empty when there is none.
std::string ErrorAfter(const std::string& text, bool optimize, const std::string& input,
                       const Shape& shape) {
  ReshapedNet net(text, optimize);
  net.Run(1);
  try {
    net.session.Reshape(input, shape);
    net.Run(2);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 1;
  for (float value : a) largest = std::max(largest, std::abs(double{value}));
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4 * largest) << i;
}

TEST(BlockedReshape, BatchOfSinglePixelsBecomesOneLargerImage) {
  const auto text = [](const std::vector<int>& dims) {
    return Input("x", dims) + XavierConv("c", "x", 64);
  };
  for (bool optimize : {false, true}) {
    ReshapedNet net(text({4, 32, 1, 1}), optimize);
    net.Run(1);
    net.session.Reshape("x", Shape{1, 32, 2, 2});
    ExpectNear(net.Run(2), ReshapedNet(text({1, 32, 2, 2}), false).Run(2));
  }
}

// The sum of three is blocked, as it takes fewer reorders, and so is the small input.
std::string NetOfConcats() {
  std::string text = Input("x", {1, 64, 8, 8}) + Input("z", {1, 16, 8, 8});
  for (const char* i : {"1", "2", "3"}) {
    text += XavierConv(StrCat("c", i), "x", 512) +
            LayerText("Concat", StrCat("k", i), StrCat("z c", i));
  }
  return text + LayerText("Eltwise", "e", "k1 k2 k3");
}

TEST(BlockedReshape, ChannelsThatDoNotFillBlocksAreNotTakenForSome) {
  ReshapedNet plain(NetOfConcats(), false);
  ReshapedNet blocked(NetOfConcats(), true);
  ExpectNear(plain.Run(1), blocked.Run(1));
  for (ReshapedNet* net : {&plain, &blocked}) net->session.Reshape("z", Shape{1, 15, 8, 8});
  const std::vector<float> expected = plain.Run(2);
  try {
    ExpectNear(expected, blocked.Run(2));
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("these inputs in the format"), std::string::npos)
        << error.what();
  }
}

TEST(BlockedReshape, RoomForChannelsThatFillBlocksUpIsLookedAt) {
  // 1000 elements fit where 1024 were; 25 x 40 blocks do not.
  EXPECT_NE(ErrorAfter(NetOfConcats(), false, "z", Shape{1, 1, 25, 40}), "");
  EXPECT_NE(ErrorAfter(NetOfConcats(), true, "z", Shape{1, 1, 25, 40}), "");
}

TEST(BlockedReshape, FusedSumsRequireEqualShapes) {
  const std::string text = Input("x", {2, 64, 8, 8}) + Input("z", {2, 64, 8, 8}) +
                           XavierConv("w", "z", 64) + XavierConv("y", "x", 64) +
                           LayerText("Eltwise", "e", "y w");
  for (const Shape& shape : {Shape{2, 64, 4, 4}, Shape{1, 64, 8, 8}}) {
    for (const char* input : {"x", "z"}) {
      const std::string plain = ErrorAfter(text, false, input, shape);
      EXPECT_NE(plain.find("\"e\""), std::string::npos) << plain;
      EXPECT_EQ(ErrorAfter(text, true, input, shape), plain);
    }
  }
}

TEST(BlockedNets, WeightsThatChangedBeforeTheyWereFixedAreTaken) {
  for (int kernel : {3, 5}) {
    const std::string text = Input("x", {1, 64, 6, 6}) + XavierConv("c", "x", 64, kernel) +
                             LayerText("BatchNorm", "n", "c");
    std::vector<std::vector<float>> outputs;
    for (bool optimize : {false, true}) {
      ReshapedNet net(text, optimize);
      net.Run(1);
      const TensorView weight = net.weights->blob(0);
      for (int64_t i = 0; i < weight.count(); ++i) weight.data<float>()[i] *= 2;
      net.session.FixWeights();
      net.Run(1);
      outputs.push_back(net.Run(2));
    }
    ExpectNear(outputs[0], outputs[1]);
  }
}

}  // namespace
}  // namespace crema
