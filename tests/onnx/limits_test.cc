// Models that become large, or whose strings are no text, end in short errors.
#include <gtest/gtest.h>

#include "model_builder.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;
using test::ImportError;
using test::ModelBuilder;

// A Loop of 1024 steps that adds v to itself, or has such a loop inside.
void AddLoop(onnx::GraphProto* graph, const std::string& in, const std::string& out, int depth) {
  onnx::NodeProto& loop = ModelBuilder::AddNode(graph, "Loop", {"steps", "", in}, {out});
  onnx::GraphProto& body = ModelBuilder::SetGraph(loop, "body");
  for (const char* name : {"i", "on", "v"}) body.add_input()->set_name(name);
  if (depth == 0) ModelBuilder::AddNode(&body, "Add", {"v", "v"}, {"w"});
  if (depth > 0) AddLoop(&body, "v", "w", depth - 1);
  for (const char* name : {"on", "w"}) body.add_output()->set_name(name);
}

TEST(OnnxLimits, NestedLoopsAreRefusedByName) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  builder.Ints("steps", {}, {1024});
  AddLoop(&builder.graph(), "x", "y", 4);
  EXPECT_LT(builder.Bytes().size(), 1000U);
  const std::string error = ImportError(builder);
  EXPECT_TRUE(Contains(error, "(Loop) has 1024 steps")) << error;
  EXPECT_LT(error.size(), 1000U);
}

TEST(OnnxLimits, LoopsOverLargeTensorsAreRefused) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  builder.Ints("steps", {}, {1024});
  AddLoop(&builder.graph(), "x", "y", 0);
  onnx::GraphProto* body = builder.graph().mutable_node(0)->mutable_attribute(0)->mutable_g();
  onnx::TensorProto* tensor = body->add_initializer();
  tensor->set_name("big");
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->add_dims(1 << 20);
  tensor->set_raw_data(std::string(4 << 20, 0));
  EXPECT_TRUE(Contains(ImportError(builder), "1024 MiB"));
}

TEST(OnnxLimits, DoublingConcatsStopBeforeTheyAreLarge) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  builder.Ints("v0", {1}, {1});
  for (int i = 0; i < 60; ++i) {
    const std::string from = "v" + std::to_string(i);
    ModelBuilder::SetInt(builder.Node("Concat", {from, from}, {"v" + std::to_string(i + 1)}),
                         "axis", 0);
  }
  builder.Node("Add", {"x", "v60"}, {"y"});
  const std::string error = ImportError(builder);
  EXPECT_TRUE(Contains(error, "(Concat)")) << error;
}

// Functions that call one another ten times each, and in the end do nothing.
TEST(OnnxLimits, FunctionsOfFunctionsAreRefused) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  builder.Node("F0", {"x"}, {"y"}).set_domain("local");
  for (int i = 0; i < 15; ++i) {
    onnx::FunctionProto* function = builder.proto().add_functions();
    function->set_name("F" + std::to_string(i));
    function->set_domain("local");
    for (int k = 0; k < 10 && i < 14; ++k) {
      ModelBuilder::AddNode(function, "F" + std::to_string(i + 1), {}, {std::to_string(k)})
          .set_domain("local");
    }
  }
  EXPECT_TRUE(Contains(ImportError(builder), "nodes once they are inlined"));
}

TEST(OnnxLimits, SparseTensorsThatStandForMuchAreRefused) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("x");
  for (int i = 0; i < 5; ++i) {
    onnx::SparseTensorProto* sparse = builder.graph().add_sparse_initializer();
    sparse->mutable_values()->set_name(std::to_string(i));
    sparse->mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
    sparse->mutable_values()->add_dims(0);
    *sparse->mutable_indices() = sparse->values();
    sparse->mutable_indices()->set_data_type(onnx::TensorProto::INT64);
    sparse->add_dims(1 << 24);
  }
  EXPECT_TRUE(Contains(ImportError(builder), "stand for more than 67108864 elements"));
  builder.graph().mutable_sparse_initializer(0)->set_dims(0, 1 << 25);
  EXPECT_TRUE(Contains(ImportError(builder), "stands for 33554432 values"));
}

// Each SequenceInsert makes a sequence of all elements.
TEST(OnnxLimits, SequencesThatGrowAreRefused) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  builder.Node("SequenceEmpty", {}, {"s0"});
  const int most = 2000;
  for (int i = 0; i < most; ++i) {
    builder.Node("SequenceInsert", {"s" + std::to_string(i), "x"}, {"s" + std::to_string(i + 1)});
  }
  ModelBuilder::SetInt(builder.Node("ConcatFromSequence", {"s" + std::to_string(most)}, {"y"}),
                       "axis", 0);
  EXPECT_TRUE(Contains(ImportError(builder), "more than 1048576 elements together"))
      << ImportError(builder);
}

TEST(OnnxLimits, ErrorsAreShortText) {
  ModelBuilder builder;
  builder.Input("x", {1, 1, 4, 4}).Output("y");
  builder.Node("Pad\n\x1b[31m", {"x"}, {"y"}).set_domain(std::string(4000, 'd'));
  const std::string error = ImportError(builder);
  EXPECT_TRUE(Contains(error, "...")) << error;
  EXPECT_LT(error.size(), 2200U);
  builder.graph().mutable_node(0)->clear_domain();
  EXPECT_TRUE(Contains(ImportError(builder), "Pad\\x0a\\x1b[31m")) << ImportError(builder);
}

TEST(OnnxLimits, ErrorsListManyNodesAndCountTheRest) {
  ModelBuilder builder;
  builder.Input("x", {1});
  for (int i = 0; i < 5000; ++i) {
    builder.Output(std::to_string(i)).Node("Unknown", {"x"}, {std::to_string(i)});
  }
  EXPECT_TRUE(Contains(ImportError(builder), "and 904 more"));
}

}  // namespace
}  // namespace crema
