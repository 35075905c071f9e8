// Nets before and after MoveStrides.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/passes/passes.h"
#include "support/net.h"

namespace crema {
namespace {

Graph GraphOf(const std::string& text, Phase phase = TEST) {
  const NetFile file = ParseNet(text, "net.prototxt");
  NetState state;
  state.set_phase(phase);
  std::vector<Problem> warnings;
  return BuildGraph(file.net, file.source, state, test::TestRegistry(), &warnings);
}

std::string TextOf(const Graph& graph) {
  NetParameter net = ToNetParameter(graph);
  for (LayerParameter& layer : *net.mutable_layer()) layer.clear_phase();
  return PrintText(net);
}

std::string Moved(const std::string& text, Phase phase = TEST) {
  Graph graph = GraphOf(text, phase);
  MoveStrides(&graph, test::TestRegistry());
  return TextOf(graph);
}

std::string InputOfNine(const std::string& more = "") {
  return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 4 dim: 9 dim: "
         "9 } } }\n" +
         more;
}
std::string StridesLayer(const std::string& name, const std::string& type,
                         const std::vector<std::string>& bottoms, const std::string& fields = "") {
  std::string text = StrCat("layer { name: '", name, "' type: '", type, "' ");
  for (const std::string& bottom : bottoms) text += StrCat("bottom: '", bottom, "' ");
  return text + StrCat("top: '", name, "' ", fields, " }\n");
}
std::string StridedConv(const std::string& name, const std::string& bottom,
                        const std::string& fields) {
  return StridesLayer(name, "Convolution", {bottom},
                      StrCat("convolution_param { num_output: 4 ", fields, " }"));
}

TEST(MoveStrides, GoBackThroughAResidualBlockAsFarAsConvolutionsReach) {
  const auto net = [](const std::string& c, const std::string& other, const std::string& pick,
                      const std::string& last) {
    return InputOfNine() + StridedConv("a", "x", "kernel_size: 3 pad: 1 stride: 1") + pick +
           StridedConv("b", "a", "kernel_size: 1") + StridedConv("c", "b", c) +
           StridesLayer("n", "BatchNorm", {"c"}) + StridesLayer("s", "Scale", {"n"}) +
           StridedConv("d", "s", "kernel_size: 1 stride: 1") +
           StridesLayer("e", "Eltwise", {other, "d"}) + StridesLayer("r", "ReLU", {"e"}) +
           StridedConv("f", "r", last) + StridedConv("g", "r", last);
  };
  EXPECT_EQ(
      Moved(net("kernel_size: 3 pad: 1 stride: 1", "a", "", "kernel_size: 1 stride: 2")),
      TextOf(GraphOf(net(
          "kernel_size: 3 pad: 1 stride: 2", "a_for_e",
          StridesLayer("a_for_e", "Pooling", {"a"},
                       "pooling_param { pool: AVE kernel_size: 1 stride: 2 round_mode: FLOOR }"),
          "kernel_size: 1 stride: 1"))));
}

TEST(MoveStrides, DoNotHideWhatDoesNotFit) {
  const std::string net = InputOfNine() + StridedConv("a", "x", "kernel_size: 2") +
                          StridedConv("b", "x", "kernel_size: 3") +
                          StridesLayer("e", "Eltwise", {"a", "b"}) +
                          StridedConv("f", "e", "kernel_size: 1 stride: 2");
  try {
    Moved(net);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1x4x7x7"), std::string::npos) << error.what();
  }
}

TEST(MoveStrides, StayWhereTheyCannotBeMultiplied) {
  for (const std::string& rest :
       {StridedConv("a", "x", "kernel_size: 3 stride: 65536") +
            StridedConv("b", "a", "kernel_size: 1 stride: 65536"),
        StridedConv("a", "x", "kernel_size: 1 stride_h: 2 stride_w: 1200000000") +
            StridedConv("b", "a", "kernel_size: 1 stride: 2")}) {
    EXPECT_EQ(Moved(InputOfNine(rest)), TextOf(GraphOf(InputOfNine(rest)))) << rest;
  }
  // No places at all.
  const std::string rows =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 "
      "dim: 4 } } }\n" +
      StridedConv("a", "x", "kernel_size: 1") + StridesLayer("e", "Eltwise", {"a", "x"}) +
      StridedConv("b", "e", "kernel_size: 1 stride: 2");
  EXPECT_EQ(Moved(rows), TextOf(GraphOf(rows)));
}

TEST(MoveStrides, TakeNoNameThatIsThere) {
  const std::string net =
      InputOfNine() + StridedConv("a", "x", "kernel_size: 1") +
      StridedConv("b", "a", "kernel_size: 1") + StridedConv("a_for_e", "a", "kernel_size: 1") +
      StridesLayer("e", "Eltwise", {"a", "b"}) + StridedConv("f", "e", "kernel_size: 1 stride: 2") +
      StridesLayer("a_for_e_", "TanH", {"x"});
  Graph graph = GraphOf(net);
  MoveStrides(&graph, test::TestRegistry());
  ASSERT_EQ(graph.nodes.size(), 8U);
  EXPECT_EQ(graph.nodes[2].name(), "a_for_e__");
  EXPECT_EQ(graph.values[static_cast<size_t>(graph.nodes[2].outputs[0])].name, "a_for_e__");
}

TEST(MoveStrides, MultiplyThoseThatAreThere) {
  EXPECT_EQ(Moved(InputOfNine() + StridedConv("a", "x", "kernel_size: 3 stride_h: 2 stride_w: 1") +
                  StridedConv("b", "a", "kernel_h: 1 kernel_w: 1 stride_h: 3 stride_w: 3")),
            TextOf(GraphOf(
                InputOfNine() + StridedConv("a", "x", "kernel_size: 3 stride_h: 6 stride_w: 3") +
                StridedConv("b", "a", "kernel_h: 1 kernel_w: 1 stride_h: 1 stride_w: 1"))));
}

TEST(MoveStrides, LeaveAloneWhatSomebodyReadsWhole) {
  const std::string a = StridedConv("a", "x", "kernel_size: 3 stride: 1");
  const std::string strided = StridedConv("b", "a", "kernel_size: 1 stride: 2");
  for (const std::string& rest : {
           a + strided + StridesLayer("t", "TanH", {"a"}),
           a + strided + StridedConv("c", "a", "kernel_size: 1 stride: 3"),
           a + strided + StridedConv("c", "a", "kernel_size: 3 stride: 2"),
           a + StridedConv("b", "a", "kernel_size: 1 stride: 2 pad: 1"),
           a + StridedConv("b", "a", "kernel_size: 1 stride_h: 2 stride_w: 1"),
           a +
               StridesLayer("n", "BatchNorm", {"a"},
                            "batch_norm_param { use_global_stats: false }") +
               StridedConv("b", "n", "kernel_size: 1 stride: 2"),
           a + StridesLayer("n", "LRN", {"a"}) + StridedConv("b", "n", "kernel_size: 1 stride: 2"),
           a + StridesLayer("n", "Scale", {"a"}, "scale_param { num_axes: -1 }") +
               StridedConv("b", "n", "kernel_size: 1 stride: 2"),
           // Nothing would be saved.
           StridesLayer("r", "ReLU", {"x"}) + StridedConv("b", "r", "kernel_size: 1 stride: 2"),
       }) {
    EXPECT_EQ(Moved(InputOfNine(rest)), TextOf(GraphOf(InputOfNine(rest)))) << rest;
  }
  const std::string weighted =
      InputOfNine() +
      StridesLayer("a", "Convolution", {"x"},
                   "loss_weight: 1 convolution_param { num_output: 4 kernel_size: 3 }") +
      strided;
  EXPECT_EQ(Moved(weighted), TextOf(GraphOf(weighted)));
}

TEST(MoveStrides, GoThroughEveryLayerThatWorksElementByElement) {
  for (const char* type : {"ReLU", "SiLU", "HSwish", "Power", "PReLU", "BatchNorm", "Scale"}) {
    const auto net = [&](const std::string& first, const std::string& last) {
      return InputOfNine() + StridedConv("a", "x", StrCat("kernel_size: 3 pad: 1 ", first)) +
             StridesLayer("r", type, {"a"}) +
             StridedConv("f", "r", StrCat("kernel_size: 1 ", last));
    };
    EXPECT_EQ(Moved(net("stride: 1", "stride: 2")), TextOf(GraphOf(net("stride: 2", "stride: 1"))))
        << type;
  }
  for (const char* type : {"Softmax", "LRN", "MVN"}) {
    const std::string net =
        InputOfNine() + StridedConv("a", "x", "kernel_size: 3 pad: 1 stride: 1") +
        StridesLayer("r", type, {"a"}) + StridedConv("f", "r", "kernel_size: 1 stride: 2");
    EXPECT_EQ(Moved(net), TextOf(GraphOf(net))) << type;
  }
}

TEST(MoveStrides, StatisticsOfABatchNeedAllPlaces) {
  const std::string net = InputOfNine() + StridedConv("a", "x", "kernel_size: 3") +
                          StridesLayer("n", "BatchNorm", {"a"}) +
                          StridedConv("b", "n", "kernel_size: 1 stride: 2");
  EXPECT_EQ(Moved(net, TRAIN), TextOf(GraphOf(net, TRAIN)));
}

}  // namespace
}  // namespace crema
