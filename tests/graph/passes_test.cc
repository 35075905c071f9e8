// Each pass as a pair of nets: before and after.
#include "graph/passes/passes.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::ExpectSameNet;
using test::GraphOf;

constexpr const char* kData =
    "layer { name: \"data\" type: \"Input\" top: \"data\" input_param { shape { dim: 2 dim: 3 } } "
    "}\n";

TEST(InsertSplits, NamesAsCaffeDoes) {
  Graph graph = GraphOf(std::string(kData) +
                        "layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"a\" }\n"
                        "layer { name: \"b\" type: \"TanH\" bottom: \"data\" top: \"b\" }\n");
  InsertSplits(&graph, test::TestRegistry());
  ExpectSameNet(
      graph,
      std::string(kData) +
          "layer { name: \"data_data_0_split\" type: \"Split\" bottom: \"data\"\n"
          "  top: \"data_data_0_split_0\" top: \"data_data_0_split_1\" }\n"
          "layer { name: \"a\" type: \"ReLU\" bottom: \"data_data_0_split_0\" top: \"a\" }\n"
          "layer { name: \"b\" type: \"TanH\" bottom: \"data_data_0_split_1\" top: \"b\" }\n");
}

TEST(InsertSplits, LossWeightTakesTheFirstOutput) {
  Graph graph =
      GraphOf(std::string(kData) +
              "layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"a\" loss_weight: 2 }\n"
              "layer { name: \"b\" type: \"TanH\" bottom: \"a\" top: \"b\" }\n");
  InsertSplits(&graph, test::TestRegistry());
  ASSERT_EQ(graph.nodes.size(), 4U);
  EXPECT_EQ(graph.nodes[2].name(), "a_a_0_split");
  const auto value = [&](int v) { return graph.values[static_cast<size_t>(v)]; };
  EXPECT_EQ(value(graph.nodes[1].outputs[0]).loss_weight, 0);
  EXPECT_EQ(value(graph.nodes[2].outputs[0]).loss_weight, 2);
  EXPECT_TRUE(value(graph.nodes[2].outputs[0]).readers.empty());
  EXPECT_EQ(value(graph.nodes[3].inputs[0]).name, "a_a_0_split_1");
}

TEST(InsertSplits, ALayerThatReadsABlobTwiceGetsTwoOutputs) {
  Graph graph = GraphOf(
      std::string(kData) +
      "layer { name: \"s\" type: \"Eltwise\" bottom: \"data\" bottom: \"data\" top: \"s\" }\n");
  InsertSplits(&graph, test::TestRegistry());
  ASSERT_EQ(graph.nodes.size(), 3U);
  EXPECT_NE(graph.nodes[2].inputs[0], graph.nodes[2].inputs[1]);
}

TEST(InsertSplits, InPlaceChainsStayWhole) {
  Graph graph = GraphOf(std::string(kData) +
                        "layer { name: \"a\" type: \"ReLU\" bottom: \"data\" top: \"data\" }\n"
                        "layer { name: \"b\" type: \"TanH\" bottom: \"data\" top: \"data\" }\n");
  InsertSplits(&graph, test::TestRegistry());
  EXPECT_EQ(graph.nodes.size(), 3U);
}

}  // namespace
}  // namespace crema
