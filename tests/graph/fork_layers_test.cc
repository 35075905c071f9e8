// Layer types of Caffe's forks: each gets an answer that says what to use.
#include "format/fork_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::PlanError;
using test::TestRegistry;

// The types of forks that people meet in prototxt files and that Crema once did not know.
const std::vector<std::string> kNames = {
    "DetectNetTransformation", "TRT",
    // IntelCaffe
    "BoxAnnotatorOHEM", "SmoothL1LossOHEM", "SoftmaxWithLossOHEM", "BoxData", "RegionLoss",
    "EvalDetection", "MKLBatchNorm", "MnActivation", "SpatialDropout",
    // YOLO
    "YoloDetectionOutput", "Yolov3DetectionOutput", "YoloV3Loss", "Region",
    // Segmentation
    "ImageSegData", "DenseImageData", "SegAccuracy", "UniqueLabel", "DenseCRF",
    "MultiStageMeanfield", "MatRead", "MatWrite",
    // R-FCN, deformable convolution, MS-CNN
    "PSROIAlign", "DeformableConvolution", "DeformablePSROIPooling", "BoxOutput", "SimplerNMS",
    "PriorBoxClustered",
    // Faces and similar features
    "LargeMarginInnerProduct", "MarginInnerProduct", "LabelSpecificAdd", "CoupledClusterLoss",
    "TripletData",
    // Text and sequences
    "WarpCTC", "ContinuationIndicator", "CTCBeamSearchDecoder", "CTCDecoder", "CTCGreedyDecoder",
    "Reverse", "Lstm", "DLSTM",
    // FlowNet
    "Correlation", "Correlation1D", "FlowWarp", "ChannelNorm", "DataAugmentation",
    "GenerateAugmentationParameters", "CustomData", "Accum", "Mean", "LpqLoss", "Resample",
    "Downsample", "FloReader", "FloWriter", "ImgReader", "ImgWriter", "Reader", "Writer",
    // Activations, norms, shapes
    "SReLU", "CReLU", "Maxout", "SyncBN", "BatchReNorm", "GRN", "NormalizeBBox",
    "SpatialTransformer", "BilinearInterpolation", "Padding", "PadChannel", "RingPad",
    "BatchReduction", "MultiLabelImageData",
    // Research
    "ConvolutionRistretto", "DeconvolutionRistretto", "FcRistretto", "LRNRistretto",
    "SqueezeConvolution", "SqueezeInnerProduct"};

std::string ErrorOfType(const std::string& type) {
  return PlanError(
      StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 "
             "dim: 6 } } }\nlayer { name: 'a' type: '",
             type, "' bottom: 'x' top: 'a' }"));
}

TEST(ForkLayers, EachNameIsKnownOrHasAnAnswer) {
  for (const std::string& name : kNames) {
    if (TestRegistry().Find(name) != nullptr) continue;
    const std::string error = ErrorOfType(name);
    EXPECT_EQ(error.rfind(
                  StrCat("net.prototxt:2:19: layer \"a\": layer type '", name, "' comes from "), 0),
              0U)
        << name << ": " << error;
  }
}

TEST(ForkLayers, AreNoRegisteredTypesAndAreListedOnce) {
  std::set<std::string_view> seen;
  for (const ForkLayer& layer : ForkLayers()) {
    EXPECT_EQ(TestRegistry().Find(layer.type), nullptr) << layer.type;
    EXPECT_TRUE(seen.insert(layer.type).second) << layer.type;
    EXPECT_FALSE(layer.fork.empty() || layer.instead.empty()) << layer.type;
  }
}

// Returns the words of `text` that look like the name of a layer type or of its parameters.
std::set<std::string> NamesIn(std::string_view text) {
  std::set<std::string> names;
  std::string word;
  for (const char c : StrCat(text, " ")) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
      continue;
    }
    if (word.ends_with("_param")) names.insert(word);
    word.clear();
  }
  return names;
}

TEST(ForkLayers, NameMessagesThatExist) {
  for (const ForkLayer& layer : ForkLayers()) {
    for (const std::string& name : NamesIn(layer.instead)) {
      const bool of_data = TransformationParameter::descriptor()->FindFieldByName(name) != nullptr;
      EXPECT_TRUE(of_data || LayerParameter::descriptor()->FindFieldByName(name) != nullptr)
          << layer.type << ": " << name;
    }
  }
}

// The layers that are given as a replacement can be written as they are.
TEST(ForkLayers, ReplacementsAreNets) {
  const std::map<std::string_view, std::string> expected = {
      {"SpatialDropout", "4x6"},  {"ChannelNorm", "4x1"}, {"CReLU", "4x12"},        {"GRN", "4x6"},
      {"PadChannel", "4x14x3x3"}, {"RingPad", "4x6x3x5"}, {"BatchReduction", "2x6"}};
  size_t tried = 0;
  for (const ForkLayer& layer : ForkLayers()) {
    if (layer.layers.empty()) continue;
    const bool pixels = layer.type == "PadChannel" || layer.type == "RingPad";
    const auto plan = test::PlanText(StrCat(
        "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 6 ",
        pixels ? "dim: 3 dim: 3 " : "",
        "} } } layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 4 } } }",
        layer.layers));
    const int y = plan->FindValue("y");
    ASSERT_GE(y, 0) << layer.type;
    ASSERT_TRUE(expected.contains(layer.type)) << layer.type;
    EXPECT_EQ(ToString(plan->values[static_cast<size_t>(y)].spec.shape), expected.at(layer.type))
        << layer.type;
    ++tried;
  }
  EXPECT_EQ(tried, expected.size());
}

TEST(ForkLayers, AFieldOfTheForkGivesTheSameAnswer) {
  const std::string plain = ErrorOfType("LpqLoss");
  const std::string answer = plain.substr(plain.find("layer type"));
  EXPECT_EQ(PlanError("layer { name: 'c' type: 'LpqLoss' bottom: 'a' top: 'c'\n"
                      "  lpq_loss_param { p: 20 q: 1 } other_thing: 2 }"),
            "net.prototxt:2:3: layer \"c\": " + answer);
  // The type may come after the field, and other layers keep their own errors.
  const std::string two = PlanError(
      "layer { lpq_loss_param { p: 20 } name: 'c' type: 'LpqLoss' bottom: 'a' top: 'c' }\n"
      "layer { name: 'd' type: 'ReLU' lpq_loss_param { p: 20 } }");
  EXPECT_NE(two.find("net.prototxt:1:9: layer \"c\": " + answer), std::string::npos) << two;
  EXPECT_NE(two.find("net.prototxt:2:32: layer \"d\": unknown field 'lpq_loss_param'"),
            std::string::npos)
      << two;
}

TEST(ForkLayers, NormalizeBBoxIsNormalize) {
  const LayerType* type = TestRegistry().Find("NormalizeBBox");
  ASSERT_NE(type, nullptr);
  EXPECT_EQ(type->alias_of, "Normalize");
}

}  // namespace
}  // namespace crema
