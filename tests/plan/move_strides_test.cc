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

std::string Input(const std::string& more = "") {
  return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 4 dim: 9 dim: "
         "9 } } }\n" +
         more;
}
std::string Layer(const std::string& name, const std::string& type,
                  const std::vector<std::string>& bottoms, const std::string& fields = "") {
  std::string text = StrCat("layer { name: '", name, "' type: '", type, "' ");
  for (const std::string& bottom : bottoms) text += StrCat("bottom: '", bottom, "' ");
  return text + StrCat("top: '", name, "' ", fields, " }\n");
}
std::string Conv(const std::string& name, const std::string& bottom, const std::string& fields) {
  return Layer(name, "Convolution", {bottom},
               StrCat("convolution_param { num_output: 4 ", fields, " }"));
}

TEST(MoveStrides, GoBackThroughAResidualBlockAsFarAsConvolutionsReach) {
  const auto net = [](const std::string& c, const std::string& other, const std::string& pick,
                      const std::string& last) {
    return Input() + Conv("a", "x", "kernel_size: 3 pad: 1 stride: 1") + pick +
           Conv("b", "a", "kernel_size: 1") + Conv("c", "b", c) + Layer("n", "BatchNorm", {"c"}) +
           Layer("s", "Scale", {"n"}) + Conv("d", "s", "kernel_size: 1 stride: 1") +
           Layer("e", "Eltwise", {other, "d"}) + Layer("r", "ReLU", {"e"}) + Conv("f", "r", last) +
           Conv("g", "r", last);
  };
  EXPECT_EQ(Moved(net("kernel_size: 3 pad: 1 stride: 1", "a", "", "kernel_size: 1 stride: 2")),
            TextOf(GraphOf(
                net("kernel_size: 3 pad: 1 stride: 2", "a_for_e",
                    Layer("a_for_e", "Pooling", {"a"},
                          "pooling_param { pool: AVE kernel_size: 1 stride: 2 round_mode: FLOOR }"),
                    "kernel_size: 1 stride: 1"))));
}

TEST(MoveStrides, DoNotHideWhatDoesNotFit) {
  const std::string net = Input() + Conv("a", "x", "kernel_size: 2") +
                          Conv("b", "x", "kernel_size: 3") + Layer("e", "Eltwise", {"a", "b"}) +
                          Conv("f", "e", "kernel_size: 1 stride: 2");
  try {
    Moved(net);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1x4x7x7"), std::string::npos) << error.what();
  }
}

TEST(MoveStrides, StayWhereTheyCannotBeMultiplied) {
  for (const std::string& rest :
       {Conv("a", "x", "kernel_size: 3 stride: 65536") +
            Conv("b", "a", "kernel_size: 1 stride: 65536"),
        Conv("a", "x", "kernel_size: 1 stride_h: 2 stride_w: 1200000000") +
            Conv("b", "a", "kernel_size: 1 stride: 2")}) {
    EXPECT_EQ(Moved(Input(rest)), TextOf(GraphOf(Input(rest)))) << rest;
  }
  // No places at all.
  const std::string rows =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 "
      "dim: 4 } } }\n" +
      Conv("a", "x", "kernel_size: 1") + Layer("e", "Eltwise", {"a", "x"}) +
      Conv("b", "e", "kernel_size: 1 stride: 2");
  EXPECT_EQ(Moved(rows), TextOf(GraphOf(rows)));
}

TEST(MoveStrides, TakeNoNameThatIsThere) {
  const std::string net =
      Input() + Conv("a", "x", "kernel_size: 1") + Conv("b", "a", "kernel_size: 1") +
      Conv("a_for_e", "a", "kernel_size: 1") + Layer("e", "Eltwise", {"a", "b"}) +
      Conv("f", "e", "kernel_size: 1 stride: 2") + Layer("a_for_e_", "TanH", {"x"});
  Graph graph = GraphOf(net);
  MoveStrides(&graph, test::TestRegistry());
  ASSERT_EQ(graph.nodes.size(), 8U);
  EXPECT_EQ(graph.nodes[2].name(), "a_for_e__");
  EXPECT_EQ(graph.values[static_cast<size_t>(graph.nodes[2].outputs[0])].name, "a_for_e__");
}

TEST(MoveStrides, MultiplyThoseThatAreThere) {
  EXPECT_EQ(Moved(Input() + Conv("a", "x", "kernel_size: 3 stride_h: 2 stride_w: 1") +
                  Conv("b", "a", "kernel_h: 1 kernel_w: 1 stride_h: 3 stride_w: 3")),
            TextOf(GraphOf(Input() + Conv("a", "x", "kernel_size: 3 stride_h: 6 stride_w: 3") +
                           Conv("b", "a", "kernel_h: 1 kernel_w: 1 stride_h: 1 stride_w: 1"))));
}

TEST(MoveStrides, LeaveAloneWhatSomebodyReadsWhole) {
  const std::string a = Conv("a", "x", "kernel_size: 3 stride: 1");
  const std::string strided = Conv("b", "a", "kernel_size: 1 stride: 2");
  for (const std::string& rest : {
           a + strided + Layer("t", "TanH", {"a"}),
           a + strided + Conv("c", "a", "kernel_size: 1 stride: 3"),
           a + strided + Conv("c", "a", "kernel_size: 3 stride: 2"),
           a + Conv("b", "a", "kernel_size: 1 stride: 2 pad: 1"),
           a + Conv("b", "a", "kernel_size: 1 stride_h: 2 stride_w: 1"),
           a + Layer("n", "BatchNorm", {"a"}, "batch_norm_param { use_global_stats: false }") +
               Conv("b", "n", "kernel_size: 1 stride: 2"),
           a + Layer("n", "LRN", {"a"}) + Conv("b", "n", "kernel_size: 1 stride: 2"),
           a + Layer("n", "Scale", {"a"}, "scale_param { num_axes: -1 }") +
               Conv("b", "n", "kernel_size: 1 stride: 2"),
           // Nothing would be saved.
           Layer("r", "ReLU", {"x"}) + Conv("b", "r", "kernel_size: 1 stride: 2"),
       }) {
    EXPECT_EQ(Moved(Input(rest)), TextOf(GraphOf(Input(rest)))) << rest;
  }
  const std::string weighted =
      Input() +
      Layer("a", "Convolution", {"x"},
            "loss_weight: 1 convolution_param { num_output: 4 kernel_size: 3 }") +
      strided;
  EXPECT_EQ(Moved(weighted), TextOf(GraphOf(weighted)));
}

TEST(MoveStrides, GoThroughEveryLayerThatWorksElementByElement) {
  for (const char* type : {"ReLU", "SiLU", "HSwish", "Power", "PReLU", "BatchNorm", "Scale"}) {
    const auto net = [&](const std::string& first, const std::string& last) {
      return Input() + Conv("a", "x", StrCat("kernel_size: 3 pad: 1 ", first)) +
             Layer("r", type, {"a"}) + Conv("f", "r", StrCat("kernel_size: 1 ", last));
    };
    EXPECT_EQ(Moved(net("stride: 1", "stride: 2")), TextOf(GraphOf(net("stride: 2", "stride: 1"))))
        << type;
  }
  for (const char* type : {"Softmax", "LRN", "MVN"}) {
    const std::string net = Input() + Conv("a", "x", "kernel_size: 3 pad: 1 stride: 1") +
                            Layer("r", type, {"a"}) + Conv("f", "r", "kernel_size: 1 stride: 2");
    EXPECT_EQ(Moved(net), TextOf(GraphOf(net))) << type;
  }
}

TEST(MoveStrides, StatisticsOfABatchNeedAllPlaces) {
  const std::string net = Input() + Conv("a", "x", "kernel_size: 3") +
                          Layer("n", "BatchNorm", {"a"}) +
                          Conv("b", "n", "kernel_size: 1 stride: 2");
  EXPECT_EQ(Moved(net, TRAIN), TextOf(GraphOf(net, TRAIN)));
}

}  // namespace
}  // namespace crema
