// ONNX files, as targets and whole.
#include <algorithm>
#include <vector>

#include "core/strings.h"
#include "onnx/import.h"
#include "onnx/import_graph.h"
#include "onnx/model_builder.h"
#include "onnx/model_file.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "support/fuzz_corpus.h"
#include "support/fuzz_limits.h"
#include "support/fuzz_targets.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

void PlanAndRun(const NetParameter& net) {
  NetState state;
  state.set_phase(TEST);
  std::vector<Problem> warnings;
  const auto plan = MakePlan(net, {}, state, TestRegistry(), {.backward = false}, &warnings);
  if (!IsQuick(*plan) || plan->ParameterCount() > kMostRunBytes / 4) return;
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 1);
  weights->Load(*plan, net, "m.onnx", MissingLayers::kKeep);
  Session session(plan, weights, ExecContext(1));
  session.Forward();
}

using FillBuilder = void (*)(ModelBuilder& m);

void FillConvolutions(ModelBuilder& m) {
  m.Input("x", {-1, 2, 6, 6}).Output("y");
  m.Floats("w", {2, 2, 3, 3}, std::vector<float>(36, 0.5F));
  m.Floats("v", {2}, {1, 2});
  m.Floats("m", {2, 3}, std::vector<float>(6, 1));
  ModelBuilder::SetInts(m.Node("Conv", {"x", "w", "v"}, {"c"}), "pads", {1, 1, 1, 1});
  m.Node("BatchNormalization", {"c", "v", "v", "v", "v"}, {"b"});
  m.Node("Relu", {"b"}, {"r"});
  onnx::NodeProto& pool = m.Node("MaxPool", {"r"}, {"p"});
  ModelBuilder::SetInts(pool, "kernel_shape", {2, 2});
  ModelBuilder::SetInts(pool, "strides", {2, 2});
  m.Node("ConvTranspose", {"p", "w"}, {"t"});
  m.Node("GlobalAveragePool", {"t"}, {"g"});
  m.Node("Flatten", {"g"}, {"f"});
  m.Node("Gemm", {"f", "m"}, {"e"});
  m.Node("Softmax", {"e"}, {"y"});
}

void FillShapes(ModelBuilder& m) {
  m.Input("x", {-1, 4, 3}).Output("y");
  for (int i = -1; i < 4; ++i) m.Ints(StrCat("i", i), {1}, {i});
  m.Node("Shape", {"x"}, {"s"});
  m.Node("Gather", {"s", "i0"}, {"n"});
  ModelBuilder::SetInt(m.Node("Concat", {"n", "i-1"}, {"to"}), "axis", 0);
  m.Node("Reshape", {"x", "to"}, {"flat"});
  m.Node("Slice", {"flat", "i1", "i3", "i1"}, {"cut"});
  m.Node("Unsqueeze", {"cut", "i0"}, {"u"});
  ModelBuilder::SetInts(m.Node("Transpose", {"u"}, {"t"}), "perm", {0, 2, 1});
  m.Node("Tile", {"t", "s"}, {"l"});
  m.Node("Expand", {"l", "s"}, {"e"});
  m.Node("Split", {"t"}, {"p", "q"});
  m.Node("ReduceSum", {"p"}, {"r"});
  m.Node("Add", {"q", "r"}, {"y"});
}

void FillControlFlow(ModelBuilder& m) {
  m.Input("x", {2, 2}).Output("y").Output("all");
  m.Ints("steps", {}, {3});
  m.Node("Constant", {}, {"c"});
  auto* value = m.graph().mutable_node(0)->add_attribute();
  value->set_name("value");
  value->mutable_t()->set_data_type(onnx::TensorProto::BOOL);
  value->mutable_t()->add_int32_data(1);
  onnx::NodeProto& loop = m.Node("Loop", {"steps", "", "x"}, {"l", "all"});
  onnx::GraphProto& body = ModelBuilder::SetGraph(loop, "body");
  for (const char* name : {"i", "on", "v"}) body.add_input()->set_name(name);
  ModelBuilder::AddNode(&body, "Add", {"v", "v"}, {"w"});
  for (const char* name : {"on", "w", "w"}) body.add_output()->set_name(name);
  onnx::NodeProto& branch = m.Node("If", {"c"}, {"b"});
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::GraphProto& graph = ModelBuilder::SetGraph(branch, name);
    ModelBuilder::AddNode(&graph, "Neg", {"l"}, {"o"});
    graph.add_output()->set_name("o");
  }
  m.Node("SplitToSequence", {"b"}, {"q"});
  m.Node("ConcatFromSequence", {"q"}, {"z"});
  m.Node("Twice", {"z"}, {"y"}).set_domain("local");
  onnx::FunctionProto* function = m.proto().add_functions();
  function->set_name("Twice");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  function->add_opset_import()->set_version(17);
  ModelBuilder::AddNode(function, "Add", {"a", "a"}, {"b"});
}

void FillSequences(ModelBuilder& m) {
  m.Input("x", {2, 1, 2}).Output("y").Output("h").Output("d");
  m.Floats("w", {1, 8, 2}, std::vector<float>(16, 0.5F));
  m.Floats("k", {1}, {0.1F});
  onnx::TensorProto& zero = m.Ints("z", {}, {});
  zero.set_data_type(onnx::TensorProto::INT8);
  zero.add_int32_data(1);
  m.Floats("s", {}, {0.5F});
  ModelBuilder::SetInt(m.Node("LSTM", {"x", "w", "w"}, {"y", "h"}), "hidden_size", 2);
  m.Node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  m.Node("DequantizeLinear", {"q", "s", "z"}, {"e"});
  m.Node("Mul", {"e", "sp"}, {"d"});
  onnx::SparseTensorProto* sparse = m.graph().add_sparse_initializer();
  sparse->mutable_values()->set_name("sp");
  sparse->mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  sparse->mutable_values()->add_dims(1);
  sparse->mutable_values()->add_float_data(3);
  sparse->mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  sparse->mutable_indices()->add_dims(1);
  sparse->mutable_indices()->add_int64_data(1);
  sparse->add_dims(2);
}

void FillIndices(ModelBuilder& m) {
  m.Input("x", {1, 2, 4, 4}).Output("y").Output("t").Output("o");
  m.Ints("k", {1}, {2});
  m.Ints("pads", {8}, {0, 0, 1, 1, 0, 0, 1, 1});
  m.Floats("scales", {4}, {1, 1, 2, 2});
  m.Floats("low", {}, {0});
  m.Ints("axis", {}, {2});
  m.Node("Pad", {"x", "pads"}, {"p"});
  m.Node("Resize", {"p", "", "scales"}, {"r"});
  m.Node("Clip", {"r", "low"}, {"c"});
  m.Node("TopK", {"c", "k"}, {"t", "i"});
  ModelBuilder::SetInt(m.Node("GatherElements", {"c", "i"}, {"g"}), "axis", 3);
  ModelBuilder::SetInt(m.Node("ArgMax", {"g"}, {"a"}), "axis", 1);
  m.Node("CumSum", {"a", "axis"}, {"o"});
  ModelBuilder::SetInt(m.Node("LRN", {"x"}, {"n"}), "size", 3);
  ModelBuilder::SetInt(m.Node("SpaceToDepth", {"n"}, {"y"}), "blocksize", 2);
}

void FillLayers(ModelBuilder& m) {
  m.Input("x", {1, 3, 4}).Output("y");
  m.Floats("g", {4}, {1, 1, 1, 1});
  m.Floats("two", {}, {2});
  m.Floats("half", {}, {0.5F});
  m.Floats("one", {}, {1});
  m.Floats("root", {}, {1.4142135F});
  m.Floats("w", {4, 4}, std::vector<float>(16, 0.25F));
  m.Node("LayerNormalization", {"x", "g", "g"}, {"n"});
  m.Node("MatMul", {"n", "w"}, {"q"});
  ModelBuilder::SetInts(m.Node("Transpose", {"n"}, {"k"}), "perm", {0, 2, 1});
  m.Node("MatMul", {"q", "k"}, {"s"});
  m.Node("Softmax", {"s"}, {"p"});
  m.Node("MatMul", {"p", "n"}, {"o"});
  m.Node("Div", {"o", "root"}, {"d"});
  m.Node("Erf", {"d"}, {"e"});
  m.Node("Add", {"e", "one"}, {"f"});
  m.Node("Mul", {"o", "f"}, {"h"});
  m.Node("Mul", {"h", "half"}, {"i"});
  m.Node("Pow", {"i", "two"}, {"j"});
  m.Node("Where", {"c", "j", "i"}, {"y"});
  m.Node("Greater", {"j", "i"}, {"c"});
}

}  // namespace

std::string TryOnnx(std::string_view bytes) {
  return ErrorOf([&] { MakeOnnxGraph(ParseOnnxModel(std::string(bytes), "m.onnx"), "m.onnx"); });
}

std::string TryOnnxNet(std::string_view bytes) {
  const TempDir folder;
  const std::string path = folder.Write("m.onnx", std::string(bytes));
  const std::string stock = ErrorOf([&] { ImportOnnx(path, {.dialect = "caffe"}); });
  return ErrorOf([&] { PlanAndRun(ImportOnnx(path, {}).net); });
}

void AddWholeOnnx(std::vector<CorpusFile>* files) {
  for (const auto& [name, fill] :
       {std::pair<const char*, FillBuilder>{"convolutions", FillConvolutions},
        {"shapes", FillShapes},
        {"control flow", FillControlFlow},
        {"sequences", FillSequences},
        {"indices", FillIndices},
        {"transformer", FillLayers}}) {
    ModelBuilder builder;
    fill(builder);
    files->push_back({StrCat("ONNX of ", name), "onnx", builder.Bytes(), ""});
    files->push_back({StrCat("ONNX net of ", name), "onnxnet", builder.Bytes(), ""});
  }
}

}  // namespace crema::test
