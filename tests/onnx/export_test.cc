// Structure of exported models, and what is refused.
#include "onnx/export.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "onnx/export_layer.h"
#include "onnx/import_metadata.h"
#include "support/exported_net.h"
#include "support/net.h"

namespace crema {
namespace {

using test::ExportOf;
using test::ModelWithCard;

// Expects each value to be made once, before it is read, and each name to be one node's.
void ExpectSound(const OnnxExport& exported) {
  const onnx::GraphProto& graph = exported.model.graph();
  std::set<std::string> made, names;
  for (const onnx::ValueInfoProto& input : graph.input()) made.insert(input.name());
  for (const OnnxConstant& constant : exported.constants) {
    EXPECT_TRUE(made.insert(constant.name).second) << constant.name;
    int64_t count = 1;
    for (const int64_t dim : constant.dims) count *= dim;
    if (constant.bytes.empty() && !constant.weight.empty()) {
      EXPECT_EQ(constant.weight.count(), count) << constant.name;
    }
  }
  for (const onnx::NodeProto& node : graph.node()) {
    EXPECT_TRUE(names.insert(node.name()).second) << node.name();
    for (const std::string& input : node.input()) {
      EXPECT_TRUE(input.empty() || made.contains(input)) << node.name() << " reads " << input;
    }
    for (const std::string& output : node.output()) {
      EXPECT_TRUE(made.insert(output).second) << output << " is made twice";
    }
  }
  EXPECT_GT(graph.output_size(), 0);
  for (const onnx::ValueInfoProto& output : graph.output()) {
    EXPECT_TRUE(made.contains(output.name())) << output.name();
  }
}

std::vector<std::string> TypesOf(const OnnxExport& exported) {
  std::vector<std::string> types;
  for (const onnx::NodeProto& node : exported.model.graph().node()) types.push_back(node.op_type());
  return types;
}

const onnx::AttributeProto* Find(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

std::vector<int64_t> Ints(const onnx::NodeProto& node, const std::string& name) {
  const onnx::AttributeProto* found = Find(node, name);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}

// The error of exporting a net; empty: it can be exported.
std::string ExportError(const std::string& text, const OnnxExportOptions& options = {}) {
  try {
    ExportOf(text, options);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string Input(const std::string& name, const std::vector<int64_t>& dims) {
  std::string text =
      StrCat("layer { name: '", name, "' type: 'Input' top: '", name, "' input_param { shape {");
  for (const int64_t dim : dims) text += StrCat(" dim: ", dim);
  return text + " } } }\n";
}

// A net of one layer that reads "x" and makes "y".
std::string OneLayer(const std::vector<int64_t>& dims, const std::string& fields) {
  return Input("x", dims) + "layer { name: 'l' bottom: 'x' top: 'y' " + fields + " }\n";
}

TEST(OnnxTable, NamesEveryBuiltinType) {
  for (const std::string& name : test::TestRegistry().Names()) {
    const LayerType& type = *test::TestRegistry().Find(name);
    if (type.name == "Input" || !type.alias_of.empty()) continue;
    EXPECT_TRUE(Emitters().contains(name)) << name;
  }
}

// Each sample of each type is written soundly, or refused with its name.
TEST(OnnxExport, WritesOrRefusesEachSample) {
  int written = 0;
  for (const test::SampleNet& sample : test::SampleNets()) {
    SCOPED_TRACE(sample.name);
    const std::shared_ptr<const Model> model = test::ModelOfSample(sample);
    if (model == nullptr) continue;
    for (const int opset : {13, 17, 23}) {
      try {
        ExpectSound(ToOnnx(*model, {.opset = opset}));
        ++written;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
        EXPECT_NE(std::string(error.what()).find("cannot be written as ONNX: "), std::string::npos)
            << error.what();
      }
    }
  }
  EXPECT_GT(written, 900);
}

TEST(OnnxExport, KeepsNamesOfBlobsAndLayers) {
  const auto model = ModelWithCard(Input("data", {1, 3, 8, 8}) + R"(
      layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
              convolution_param { num_output: 2 kernel_size: 3 } }
      layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' })");
  const OnnxExport exported = ToOnnx(*model, {});
  const onnx::GraphProto& graph = exported.model.graph();
  ASSERT_EQ(graph.node_size(), 2);
  EXPECT_EQ(graph.node(0).name(), "conv1");
  EXPECT_EQ(graph.node(0).output(0), "conv1/conv1");
  EXPECT_EQ(graph.node(1).name(), "relu1");
  EXPECT_EQ(graph.node(1).output(0), "conv1");
  EXPECT_EQ(graph.output(0).name(), "conv1");
  EXPECT_EQ(graph.node(0).input(1), "conv1/weight");
}

// Blobs that have the names which nodes, constants and weights would get.
TEST(OnnxExport, KeepsNamesOfBlobsFromNodesAndConstants) {
  const std::string power = "power_param { scale: 2 shift: 1 power: 3 } }";
  for (const std::string blob : {"a/Mul", "a/Add", "a/const", "a/const_1"}) {
    ExpectSound(ExportOf(Input(blob, {2, 4}) + "layer { name: 'a' type: 'Power' bottom: '" + blob +
                         "' top: 'b' " + power));
    ExpectSound(ExportOf(Input("x", {2, 4}) + "layer { name: 'a' type: 'Power' bottom: 'x' top: '" +
                         blob + "' " + power + "layer { name: 'r' type: 'ReLU' bottom: '" + blob +
                         "' top: 'y' }"));
  }
  ExpectSound(ExportOf(Input("x", {2, 4}) +
                       "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a/weight'"
                       " inner_product_param { num_output: 5 } }"
                       "layer { name: 'b' type: 'ReLU' bottom: 'a/weight' top: 'a/bias' }"));
}

TEST(OnnxExport, LeavesTheBatchOpenWhereTheNetAllowsIt) {
  const OnnxExport open = ExportOf(OneLayer({4, 6},
                                            "type: 'Reshape' reshape_param { shape { dim: "
                                            "0 dim: 2 dim: 3 } }"));
  EXPECT_TRUE(open.batches);
  EXPECT_EQ(open.model.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "N");
  EXPECT_EQ(open.model.graph().output(0).type().tensor_type().shape().dim(0).dim_param(), "N");
  const OnnxExport fixed = ExportOf(OneLayer({4, 6}, "type: 'Softmax' softmax_param { axis: 0 }"));
  EXPECT_FALSE(fixed.batches);
  EXPECT_EQ(fixed.model.graph().input(0).type().tensor_type().shape().dim(0).dim_value(), 4);
}

TEST(OnnxExport, WritesPadsOfRoundedUpPooling) {
  const OnnxExport exported = ExportOf(OneLayer(
      {1, 2, 6, 6}, "type: 'Pooling' pooling_param { pool: MAX kernel_size: 3 stride: 2 }"));
  const onnx::NodeProto& node = exported.model.graph().node(0);
  EXPECT_EQ(node.op_type(), "MaxPool");
  EXPECT_EQ(Ints(node, "pads"), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(Find(node, "ceil_mode"), nullptr);
}

TEST(OnnxExport, LeavesMeansOverTheImageToTheRuntime) {
  const OnnxExport exported = ExportOf(OneLayer(
      {1, 2, 6, 6}, "type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 }"));
  EXPECT_EQ(TypesOf(exported), std::vector<std::string>{"AveragePool"});
  const onnx::NodeProto& node = exported.model.graph().node(0);
  EXPECT_EQ(Ints(node, "pads"), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(Find(node, "count_include_pad"), nullptr);
}

TEST(OnnxExport, CorrectsMeansOfWindowsBeyondThePadding) {
  const OnnxExport exported = ExportOf(OneLayer(
      {1, 2, 7, 7}, "type: 'Pooling' pooling_param { pool: AVE kernel_size: 4 stride: 2 pad: 1 }"));
  EXPECT_EQ(TypesOf(exported), (std::vector<std::string>{"AveragePool", "Mul", "Mul"}));
}

TEST(OnnxExport, ListsAllLayersThatCannotGo) {
  const std::string error = ExportError(Input("x", {2, 3}) + Input("label", {2}) + R"(
      layer { name: 'first' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'label' top: 'a' }
      layer { name: 'second' type: 'HingeLoss' bottom: 'x' bottom: 'label' top: 'b' })");
  EXPECT_NE(error.find("first"), std::string::npos) << error;
  EXPECT_NE(error.find("second"), std::string::npos) << error;
  EXPECT_NE(error.find("a loss is for training"), std::string::npos) << error;
}

TEST(OnnxExport, RefusesOtherOpsets) {
  const std::string net = OneLayer({1, 2}, "type: 'ReLU'");
  EXPECT_NE(ExportError(net, {.opset = 12}).find("opset 12"), std::string::npos);
  EXPECT_NE(ExportError(net, {.opset = 24}).find("from 13 to 23"), std::string::npos);
}

TEST(OnnxExport, HalvesMatricesOnly) {
  const OnnxExport exported =
      ExportOf(OneLayer({1, 4},
                        "type: 'InnerProduct' inner_product_param { num_output: 2 weight_filler { "
                        "type: 'gaussian' } }"),
               {.half_weights = true});
  EXPECT_EQ(TypesOf(exported), (std::vector<std::string>{"Cast", "Gemm"}));
  for (const OnnxConstant& constant : exported.constants) {
    EXPECT_EQ(constant.type == onnx::TensorProto::FLOAT16, constant.dims.size() == 2);
  }
  ExpectSound(exported);
}

TEST(OnnxExport, RefusesWeightsThatFloat16CannotHold) {
  const std::string net =
      OneLayer({1, 4},
               "type: 'InnerProduct' inner_product_param { num_output: 2 weight_filler { "
               "value: 70000 } }");
  EXPECT_EQ(ExportError(net), "");
  EXPECT_NE(ExportError(net, {.half_weights = true}).find("float16 cannot hold"),
            std::string::npos);
}

TEST(OnnxExport, RefusesAdaptiveSuppression) {
  const std::string error =
      ExportError(Input("loc", {1, 8}) + Input("conf", {1, 6}) + Input("prior", {1, 2, 8}) + R"(
      layer { name: 'd' type: 'DetectionOutput' bottom: 'loc' bottom: 'conf' bottom: 'prior'
              top: 'y' detection_output_param { num_classes: 3 nms_param { eta: 0.9 } } })");
  EXPECT_NE(error.find("nms_param.eta"), std::string::npos) << error;
}

TEST(OnnxExport, RoundsInt8LayersByTheirRanges) {
  const OnnxExport exported = ExportOf(R"(precision: INT8
      layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 4 } }
              int8 { top { max: 2.55 non_negative: true } } }
      layer { name: 'l' type: 'InnerProduct' bottom: 'x' top: 'y'
              inner_product_param { num_output: 2 }
              int8 { bottom { max: 2.55 non_negative: true } top { max: 1.27 } } })");
  EXPECT_EQ(TypesOf(exported), (std::vector<std::string>{"QuantizeLinear", "DequantizeLinear",
                                                         "DequantizeLinear", "Gemm"}));
  ExpectSound(exported);
}

TEST(OnnxExport, PutsPreprocessingBeforeTheNet) {
  ModelCard card;
  card.labels = {"a", "b"};
  card.preprocessing = {.scale = 0.5F, .mean = {1, 2, 3}};
  const auto model = ModelWithCard(OneLayer({1, 3, 2, 2}, "type: 'ReLU'"), card);
  const OnnxExport exported = ToOnnx(*model, {.preprocessing = true});
  EXPECT_EQ(TypesOf(exported), (std::vector<std::string>{"Gather", "Sub", "Mul", "Relu"}));
  EXPECT_EQ(exported.model.metadata_props(0).key(), "labels");
  EXPECT_EQ(exported.model.metadata_props(0).value(), R"(["a", "b"])");
  ExpectSound(exported);
}

TEST(OnnxExport, ItsMetadataIsReadBack) {
  ModelCard card;
  card.task = "classify";
  card.labels = {"a \"b\"", "c"};
  card.preprocessing = {.invert = true, .scale = 0.5F, .mean = {1, 2, 3}};
  const auto model = ModelWithCard(OneLayer({1, 3, 2, 2}, "type: 'ReLU'"), card);
  std::vector<std::string> notes;
  const ModelCard outside = ReadMetadata(ToOnnx(*model, {}).model, &notes);
  EXPECT_EQ(outside.task, "classify");
  EXPECT_EQ(outside.labels, card.labels);
  EXPECT_EQ(outside.preprocessing.mean, card.preprocessing.mean);
  EXPECT_EQ(outside.preprocessing.scale, 0.5F);
  EXPECT_TRUE(outside.preprocessing.invert);
  EXPECT_FALSE(outside.preprocessing.rgb);
  onnx::ModelProto inside = ToOnnx(*model, {.preprocessing = true}).model;
  const Preprocessing rest = ReadMetadata(inside, &notes).preprocessing;
  EXPECT_TRUE(rest.rgb && rest.mean.empty() && rest.scale == 1 && !rest.invert);
  EXPECT_TRUE(notes.empty());
  for (const char* broken : {"", "{", "[1]", "{\"mean\": \"image\", \"scale\": 1}"}) {
    notes.clear();
    for (auto& entry : *inside.mutable_metadata_props()) {
      if (entry.key() != "task") entry.set_value(broken);
    }
    EXPECT_TRUE(ReadMetadata(inside, &notes).labels.empty());
    EXPECT_EQ(notes.size(), 2U) << broken;
  }
  inside.set_producer_name("another");
  EXPECT_TRUE(ReadMetadata(inside, &notes).task.empty());
}

TEST(OnnxExport, MetadataSayHowImagesAreResized) {
  const Preprocessing every[] = {
      {.range = 1, .deviation = {1, 2, 4}},
      {.fit = ImageFit::kCrop, .short_side = 20, .interpolation = Interpolation::kAntialias},
      {.fit = ImageFit::kCrop, .resize_height = 20, .resize_width = 30, .ten_crops = true},
      {.fit = ImageFit::kLetterbox, .pad = 0}};
  for (const Preprocessing& one : every) {
    ModelCard card;
    card.preprocessing = one;
    const auto model = ModelWithCard(OneLayer({1, 3, 2, 2}, "type: 'ReLU'"), card);
    std::vector<std::string> notes;
    EXPECT_TRUE(ReadMetadata(ToOnnx(*model, {}).model, &notes).preprocessing == one);
    const OnnxExport exported = ToOnnx(*model, {.preprocessing = true});
    ExpectSound(exported);
    // The graph computes the values, and the size of images is left.
    Preprocessing rest = one;
    rest.range = 255;
    rest.deviation.clear();
    rest.rgb = true;
    EXPECT_TRUE(ReadMetadata(exported.model, &notes).preprocessing == rest);
    EXPECT_TRUE(notes.empty());
  }
}

TEST(OnnxExport, RefusesPreprocessingOfOtherInputs) {
  const std::string error = ExportError(OneLayer({1, 3}, "type: 'ReLU'"), {.preprocessing = true});
  EXPECT_NE(error.find("preprocessing is for nets with one input"), std::string::npos) << error;
}

}  // namespace
}  // namespace crema
