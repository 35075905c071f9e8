#include "runtime/interactive_net.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/prototxt.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TestRegistry;

// `relu` runs in place, and `ip` has two readers.
const char* kInteractiveNet = R"(
name: "small" force_backward: true
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "constant" value: 1 } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "sum" type: "Reduction" bottom: "ip" top: "sum" loss_weight: 1 }
layer { name: "ip2" type: "InnerProduct" bottom: "ip" top: "out"
  inner_product_param { num_output: 1 weight_filler { type: "constant" value: 2 } } }
)";

InteractiveNet Open(InteractiveOptions options = {}, const char* text = kInteractiveNet) {
  options.threads = 1;
  return {ParseNet(text, "small.prototxt"), TestRegistry(), std::move(options)};
}

std::span<float> Floats(const HeldView& held) { return held.view.span<float>(); }
void Fill(const HeldView& held, float value) { std::ranges::fill(Floats(held), value); }
std::vector<float> ValuesIn(const HeldView& held) {
  return {Floats(held).begin(), Floats(held).end()};
}

TEST(InteractiveNet, NamesLayersAndBlobsAsCaffe) {
  const InteractiveNet net = Open();
  std::vector<std::string> layers;
  for (const PlannedLayer& layer : net.layers()) layers.push_back(layer.name());
  EXPECT_EQ(layers,
            (std::vector<std::string>{"data", "ip", "relu", "ip_relu_0_split", "sum", "ip2"}));
  EXPECT_EQ(net.blobs(), (std::vector<std::string>{"data", "ip", "ip_relu_0_split_0",
                                                   "ip_relu_0_split_1", "sum", "out"}));
  EXPECT_EQ(net.inputs(), std::vector<std::string>{"data"});
  EXPECT_EQ(net.outputs(), (std::vector<std::string>{"out", "sum"}));
  EXPECT_EQ(net.BottomsOf(4), std::vector<std::string>{"ip_relu_0_split_0"});
  EXPECT_EQ(net.TopsOf(5), std::vector<std::string>{"out"});
  EXPECT_EQ(net.LossWeight("sum"), 1);
  EXPECT_EQ(net.LossWeight("out"), 0);
}

TEST(InteractiveNet, RunsPartsOfTheNetOnWhatTheProgramHasSet) {
  InteractiveNet net = Open();
  Fill(net.Data("data"), 1);
  EXPECT_EQ(net.Forward(0, 5), 24);
  EXPECT_EQ(ValuesIn(net.Data("out")), (std::vector<float>{24, 24}));
  Fill(net.Data("ip"), -1);
  net.Forward(2, 4);
  EXPECT_EQ(ValuesIn(net.Data("sum")), std::vector<float>{0});  // ReLU ran, InnerProduct did not
  EXPECT_EQ(ValuesIn(net.Data("out")), (std::vector<float>{24, 24}));
  Fill(net.Data("ip"), 2);
  net.Forward(5, 5);
  EXPECT_EQ(ValuesIn(net.Data("out")), (std::vector<float>{16, 16}));
}

TEST(InteractiveNet, StartsBackwardFromTheGradientsThatTheProgramHasSet) {
  InteractiveNet net = Open();
  Fill(net.Data("data"), 1);
  net.Forward(0, 5);
  EXPECT_EQ(ValuesIn(net.Gradient("sum")), std::vector<float>{1});  // the loss weight
  net.Backward(0, 5);
  EXPECT_EQ(ValuesIn(net.Gradient("data")), std::vector<float>(6, 4));
  EXPECT_EQ(ValuesIn(net.ParameterGradient(1)), std::vector<float>(4, 2));
  net.ZeroParameterGradients();
  Fill(net.Gradient("sum"), 0);
  Fill(net.Gradient("out"), 1);
  net.Backward(0, 5);
  EXPECT_EQ(ValuesIn(net.Gradient("data")), std::vector<float>(6, 8));
  net.Backward(0, 5);
  EXPECT_EQ(ValuesIn(net.ParameterGradient(1)), std::vector<float>(4, 8));  // added to
  Fill(net.Gradient("ip"), 3);
  net.Backward(0, 1);
  EXPECT_EQ(ValuesIn(net.Gradient("data")), std::vector<float>(6, 12));
}

TEST(InteractiveNet, GivesZerosForGradientsThatNothingComputes) {
  InteractiveNet net = Open({}, R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 } } }
layer { name: "abs" type: "AbsVal" bottom: "data" top: "abs" })");
  Fill(net.Data("data"), 1);
  net.Forward(0, 1);
  net.Backward(0, 1);
  EXPECT_EQ(ValuesIn(net.Gradient("data")), std::vector<float>(2, 0));
}

TEST(InteractiveNet, TakesOtherShapesAndKeepsParametersAndOtherInputs) {
  InteractiveNet net = Open({}, R"(
layer { name: "in" type: "Input" top: "a" top: "b" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "a" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } })");
  const std::vector<float> weights = ValuesIn(net.Parameter(0));
  Fill(net.Data("b"), 7);
  const HeldView before = net.Data("a");
  Fill(before, 5);
  net.Reshape("a", {1000, 3});
  EXPECT_EQ(net.ShapeOf("a"), (Shape{1000, 3}));
  EXPECT_EQ(net.ShapeOf("ip"), (Shape{1, 4}));
  net.UpdateShapes();
  EXPECT_EQ(net.ShapeOf("ip"), (Shape{1000, 4}));
  EXPECT_EQ(ValuesIn(net.Data("b")), std::vector<float>(3, 7));
  EXPECT_EQ(ValuesIn(net.Parameter(0)), weights);
  EXPECT_EQ(ValuesIn(before), std::vector<float>(3, 5));  // the view keeps the old memory
  net.Forward(0, 1);
}

TEST(InteractiveNet, KeepsItsShapesIfALayerRefusesOthers) {
  InteractiveNet net = Open();
  EXPECT_THROW(net.Reshape("out", {1}), Error);
  EXPECT_THROW(net.Reshape("nothing", {1}), Error);
  net.Reshape("data", {2, 5});  // the weights are for 3
  try {
    net.UpdateShapes();
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "layer \"ip\": weight is 4x3, and would have to be 4x5 for this shape of the "
                 "inputs");
  }
  EXPECT_EQ(net.ShapeOf("data"), (Shape{2, 3}));
  net.Forward(0, 5);
}

TEST(InteractiveNet, SavesLoadsAndSharesParameters) {
  const test::TempDir folder;
  InteractiveNet net = Open();
  Fill(net.Parameter(0), 3);
  WriteCaffemodel(net.Export(), folder.File("a.caffemodel"));
  InteractiveNet loaded = Open({.weights = {folder.File("a.caffemodel")}});
  EXPECT_EQ(ValuesIn(loaded.Parameter(0)), std::vector<float>(12, 3));
  InteractiveNet other = Open({}, R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 4 } }
layer { name: "own" type: "InnerProduct" bottom: "ip" top: "own"
  inner_product_param { num_output: 1 weight_filler { type: "xavier" } } })");
  const std::vector<float> own = ValuesIn(other.Parameter(2));
  other.ShareWeightsWith(net);
  EXPECT_EQ(ValuesIn(other.Parameter(2)), own);
  Fill(net.Parameter(0), 9);
  EXPECT_EQ(ValuesIn(other.Parameter(0)), std::vector<float>(12, 9));
  EXPECT_THROW(net.LoadWeights({"/nothing.caffemodel"}), Error);
}

TEST(InteractiveNet, RejectsLayersThatTheNetLacks) {
  InteractiveNet net = Open();
  EXPECT_THROW(net.Forward(0, 6), Error);
  EXPECT_THROW(net.Forward(3, 2), Error);
  EXPECT_THROW(net.Parameter(4), Error);
  EXPECT_THROW(net.Data("nothing"), Error);
}

TEST(InteractiveNet, ReadsPhaseLevelAndStages) {
  const char* text = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 } } }
layer { name: "a" type: "AbsVal" bottom: "data" top: "a" include { phase: TEST } }
layer { name: "b" type: "AbsVal" bottom: "data" top: "b" include { min_level: 1 } }
layer { name: "c" type: "AbsVal" bottom: "data" top: "c" include { stage: "s" } })";
  EXPECT_EQ(Open({.phase = TEST, .level = 1, .stages = {"s"}}, text).outputs(),
            (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(Open({.phase = TRAIN}, text).outputs(), std::vector<std::string>{"data"});
}

// A net over the session of another one stands for a net of a solver.
TEST(InteractiveNet, LoadsAndTakesWeightsInTheMemoryOfASession) {
  InteractiveNet owner = Open();
  InteractiveNet net(std::shared_ptr<Session>(owner.memory(), &owner.session()));
  EXPECT_TRUE(owner.OwnsWeights());
  EXPECT_FALSE(net.OwnsWeights());

  InteractiveNet other = Open();
  Fill(other.Parameter(0), 5);
  const test::TempDir dir;
  const std::string path = dir.path() + "/w.caffemodel";
  WriteCaffemodel(other.Export(), path);
  net.LoadWeights({path});
  EXPECT_EQ(ValuesIn(owner.Parameter(0)), std::vector<float>(12, 5));

  Fill(other.Parameter(0), 6);
  net.TakeWeightsOf(&other);
  EXPECT_EQ(ValuesIn(owner.Parameter(0)), std::vector<float>(12, 6));
  Fill(owner.Parameter(0), 7);
  EXPECT_EQ(ValuesIn(other.Parameter(0)), std::vector<float>(12, 7));
}

}  // namespace
}  // namespace crema
