#include <gtest/gtest.h>

#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::PlanError;
using test::PlanText;
using test::PlanWarnings;

constexpr const char* kInput =
    "layer { name: \"data\" type: \"Input\" top: \"data\"\n"
    "  input_param { shape { dim: 2 dim: 3 } } }\n";

std::string Net(const std::string& rest) { return kInput + rest; }

TEST(BuildGraph, UnknownLayerTypeNamesTheNearest) {
  EXPECT_EQ(
      PlanError(Net("layer { name: \"a\" type: \"InnerProdukt\" bottom: \"data\" top: \"a\" }")),
      "net.prototxt:3:19: layer \"a\": unknown layer type 'InnerProdukt' (did you mean "
      "'InnerProduct'?)");
}

TEST(BuildGraph, LayerTypeOfAnotherToolNamesTheOneHere) {
  EXPECT_EQ(PlanError(Net("layer { name: \"a\" type: \"Linear\" bottom: \"data\" top: \"a\" }")),
            "net.prototxt:3:19: layer \"a\": unknown layer type 'Linear'; write InnerProduct");
}

TEST(BuildGraph, UnknownBottomNamesTheNearestBlob) {
  EXPECT_EQ(PlanError(Net("layer { name: \"a\" type: \"ReLU\" bottom: \"dat\" top: \"a\" }")),
            "net.prototxt:3:32: layer \"a\": no layer before this one produces bottom 'dat' (did "
            "you mean 'data'?)");
}

TEST(BuildGraph, BottomOfALaterLayerSaysSo) {
  const std::string error =
      PlanError(Net("layer { name: \"a\" type: \"ReLU\" bottom: \"zz\" top: \"a\" }\n"
                    "layer { name: \"b\" type: \"ReLU\" bottom: \"data\" top: \"zz\" }"));
  EXPECT_NE(error.find("layer \"b\" further down does"), std::string::npos) << error;
}

TEST(BuildGraph, BottomOfALayerLeftOutByItsRulesSaysSo) {
  const std::string error = PlanError(Net(
      "layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"a\" include { phase: TEST } }\n"
      "layer { name: \"b\" type: \"ReLU\" bottom: \"a\" top: \"b\" }"));
  EXPECT_NE(error.find("layer \"a\" would, but its rules leave it out of phase TRAIN"),
            std::string::npos)
      << error;
}

TEST(BuildGraph, ATopThatOnlyTheLayerOfAnotherPhaseHasSaysSo) {
  const std::string error = PlanError(Net(
      "layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"a\" include { phase: TRAIN } }\n"
      "layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"t\" include { phase: TEST } }\n"
      "layer { name: \"b\" type: \"ReLU\" bottom: \"t\" top: \"b\" }"));
  EXPECT_NE(error.find("layer \"a\" of another phase does, but not that of phase TRAIN"),
            std::string::npos)
      << error;
}

TEST(BuildGraph, BlobProducedTwiceNamesBothLayers) {
  EXPECT_EQ(PlanError(Net("layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"x\" }\n"
                          "layer { name: \"b\" type: \"TanH\" bottom: \"data\" top: \"x\" }")),
            "net.prototxt:4:47: layer \"b\": blob 'x' is already produced by layer \"a\" (line 3); "
            "give this top another name");
}

TEST(BuildGraph, APhaseInALayerIsNoRule) {
  const std::string error = PlanError(
      "layer { name: \"data\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 } } phase: "
      "TRAIN }\n"
      "layer { name: \"data\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 } } phase: "
      "TEST }");
  EXPECT_NE(
      error.find("'phase' in a layer does not choose when it runs: write include { phase: TEST }"),
      std::string::npos)
      << error;
}

TEST(BuildGraph, APhaseInOneDataLayerIsAWarningWhereItRunsAllTheSame) {
  const auto net = [](const std::string& of_data, const std::string& of_relu) {
    return "layer { name: \"data\" type: \"Input\" top: \"data\" " + of_data +
           " input_param { shape { dim: 2 } } }\n"
           "layer { name: \"r\" type: \"ReLU\" bottom: \"data\" top: \"r\" " +
           of_relu + " }";
  };
  EXPECT_EQ(PlanWarnings(net("phase: TEST", ""), TRAIN),
            "net.prototxt:1:48: layer \"data\": 'phase' in a layer does not choose when it runs: "
            "write include { phase: TEST }\n");
  EXPECT_EQ(PlanWarnings(net("phase: TEST", ""), TEST), "");
  EXPECT_EQ(PlanWarnings(net("phase: TEST exclude { stage: \"s\" }", ""), TRAIN), "");
  EXPECT_EQ(PlanWarnings(net("phase: TRAIN", "phase: TRAIN"), TEST), "") << "as Caffe writes them";
  EXPECT_EQ(PlanWarnings(net("", "phase: TEST"), TRAIN), "") << "it chooses how others run";
}

TEST(BuildGraph, WrongNumberOfBottomsAndTops) {
  const std::string error = PlanError(
      Net("layer { name: \"a\" type: \"ReLU\" bottom: \"data\" bottom: \"data\" top: \"x\" }\n"
          "layer { name: \"l\" type: \"EuclideanLoss\" bottom: \"data\" top: \"l\" }"));
  EXPECT_NE(error.find("layer \"a\": wrong number of bottoms: ReLU takes 1, not 2"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("layer \"l\": wrong number of bottoms: EuclideanLoss takes 2, not 1"),
            std::string::npos)
      << error;
}

TEST(BuildGraph, AllProblemsAreReportedAtOnceAndOnlyCauses) {
  const std::string error = PlanError(
      Net("layer { name: \"a\" type: \"Nope\" bottom: \"data\" top: \"a\" }\n"
          "layer { name: \"b\" type: \"ReLU\" bottom: \"a\" top: \"b\" }\n"  // follows from "a"
          "layer { name: \"c\" type: \"Convolution\" bottom: \"data\" top: \"c\" }\n"
          "layer { name: \"d\" type: \"ReLU\" bottom: \"q\" top: \"d\" }"));
  EXPECT_NE(error.find("layer \"a\""), std::string::npos) << error;
  EXPECT_EQ(error.find("layer \"b\""), std::string::npos) << error;
  EXPECT_NE(error.find("layer \"c\""), std::string::npos) << error;
  EXPECT_NE(error.find("layer \"d\""), std::string::npos) << error;
}

TEST(BuildGraph, ShapesThatDoNotFitNameBothBlobsAndWhereTheyComeFrom) {
  const std::string error = PlanError(Net(
      "layer { name: \"other\" type: \"Input\" top: \"other\"\n"
      "  input_param { shape { dim: 2 dim: 4 } } }\n"
      "layer { name: \"sum\" type: \"Eltwise\" bottom: \"data\" bottom: \"other\" top: \"s\" }"));
  EXPECT_NE(error.find("layer \"sum\""), std::string::npos) << error;
  EXPECT_NE(error.find("'data' is 2x3 (from layer \"data\", line 1)"), std::string::npos) << error;
  EXPECT_NE(error.find("'other' is 2x4 (from layer \"other\", line 3)"), std::string::npos)
      << error;
}

TEST(BuildGraph, ParameterWithoutEffectWarns) {
  EXPECT_EQ(PlanWarnings(Net("layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"a\"\n"
                             "  pooling_param { kernel_size: 2 } }")),
            "net.prototxt:4:3: layer \"a\": 'pooling_param' has no effect on a layer of type ReLU "
            "(it reads relu_param)\n");
}

TEST(BuildGraph, FieldThatItsLayerDoesNotReadWarns) {
  EXPECT_EQ(PlanWarnings("layer { name: \"data\" type: \"Input\" top: \"data\"\n"
                         "  input_param { shape { dim: 1 dim: 1 dim: 4 dim: 4 } } }\n"
                         "layer { name: \"p\" type: \"Pooling\" bottom: \"data\" top: \"p\"\n"
                         "  pooling_param { kernel_size: 2\n"
                         "    kernel_depth: 2 } }"),
            "net.prototxt:5:5: layer \"p\": 'pooling_param.kernel_depth' has no effect on a layer "
            "of type Pooling\n");
}

TEST(BuildGraph, IncludeAndExcludeTogetherAreRefused) {
  const std::string error =
      PlanError(Net("layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"a\"\n"
                    "  include { phase: TRAIN } exclude { phase: TEST } }"));
  EXPECT_NE(error.find("layer \"a\": has both include and exclude rules"), std::string::npos)
      << error;
}

TEST(BuildGraph, RulesOfLevelAndStage) {
  const NetFile file =
      ParseNet(Net("layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"a\"\n"
                   "  include { min_level: 1 max_level: 2 stage: \"deep\" not_stage: \"fast\" } }"),
               "net.prototxt");
  const auto has_a = [&](int level, std::vector<std::string> stages) {
    NetState state;
    state.set_phase(TRAIN);
    state.set_level(level);
    for (const std::string& stage : stages) state.add_stage(stage);
    std::vector<Problem> warnings;
    return BuildGraph(file.net, file.source, state, test::TestRegistry(), &warnings).nodes.size() ==
           2;
  };
  EXPECT_TRUE(has_a(1, {"deep"}));
  EXPECT_TRUE(has_a(2, {"deep", "other"}));
  EXPECT_FALSE(has_a(0, {"deep"}));
  EXPECT_FALSE(has_a(3, {"deep"}));
  EXPECT_FALSE(has_a(1, {}));
  EXPECT_FALSE(has_a(1, {"deep", "fast"}));
}

TEST(BuildGraph, NetWithoutLayersForThePhaseIsAnError) {
  const std::string error =
      PlanError("layer { name: \"data\" type: \"Input\" top: \"data\" include { phase: TEST } }");
  EXPECT_NE(error.find("the net has no layer for phase TRAIN"), std::string::npos) << error;
}

TEST(BuildGraph, LossWeightAndPropagateDownCounts) {
  const std::string error = PlanError(
      Net("layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"a\" loss_weight: 1 "
          "loss_weight: 2 }\n"
          "layer { name: \"b\" type: \"ReLU\" bottom: \"data\" top: \"b\" propagate_down: true "
          "propagate_down: false }"));
  EXPECT_NE(error.find("has 2 entries for 1 tops"), std::string::npos) << error;
  EXPECT_NE(error.find("has 2 entries for 1 bottoms"), std::string::npos) << error;
}

TEST(BuildGraph, OutputsAreOrderedByName) {
  const auto plan =
      PlanText(Net("layer { name: \"1\" type: \"ReLU\" bottom: \"data\" top: \"z\" }\n"
                   "layer { name: \"2\" type: \"TanH\" bottom: \"data\" top: \"b\" }"));
  ASSERT_EQ(plan->outputs.size(), 2U);
  EXPECT_EQ(plan->values[static_cast<size_t>(plan->outputs[0])].name, "b");
  EXPECT_EQ(plan->values[static_cast<size_t>(plan->outputs[1])].name, "z");
}

TEST(BuildGraph, MoreParamEntriesThanBlobsIsAnError) {
  const std::string error =
      PlanError(Net("layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"a\" param { } }"));
  EXPECT_NE(error.find("has 1 param entries, but the layer has 0 parameter blobs"),
            std::string::npos)
      << error;
}

TEST(BuildGraph, SharedBlobsOfDifferentShapesAreRefused) {
  const std::string text =
      Net("layer { name: \"a\" type: \"InnerProduct\" bottom: \"data\" top: \"a\"\n"
          "  param { name: \"w\" } inner_product_param { num_output: 4 } }\n"
          "layer { name: \"b\" type: \"InnerProduct\" bottom: \"data\" top: \"b\"\n"
          "  param { name: \"w\" } inner_product_param { num_output: 5 } }\n");
  const std::string error = PlanError(text);
  EXPECT_NE(error.find("layer \"b\": shares 'w' with layer \"a\", but is 5x3 and not 4x3"),
            std::string::npos)
      << error;
}

// As Caffe's AutoTopBlobs, in the nets of its first years.
TEST(BuildGraph, LossWithoutTopGetsOne) {
  const auto plan = PlanText(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }\n"
      "layer { name: 't' type: 'Input' top: 't' input_param { shape { dim: 2 } } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'\n"
      "  inner_product_param { num_output: 3 } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 't' }");
  const int loss = plan->FindValue("loss");
  ASSERT_GE(loss, 0);
  EXPECT_EQ(plan->values[static_cast<size_t>(loss)].loss_weight, 1);
}

TEST(BuildGraph, NamesMayRepeatInNetsWithoutParameters) {
  const std::string input =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }\n";
  const auto plan = PlanText(input +
                             "layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'a' }\n"
                             "layer { name: 'drop' type: 'Dropout' bottom: 'a' top: 'b' }");
  EXPECT_NE(plan->layers[1].layer_id, plan->layers[2].layer_id);
  const std::string error =
      PlanError(input +
                "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'a'\n"
                "  inner_product_param { num_output: 3 } }\n"
                "layer { name: 'ip' type: 'InnerProduct' bottom: 'a' top: 'b'\n"
                "  inner_product_param { num_output: 3 } }");
  EXPECT_NE(error.find("another layer with parameter blobs has this name (line 2)"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace crema
