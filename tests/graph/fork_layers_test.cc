// Layer types of Caffe's forks: each gets an answer that says what to use.
#include "format/fork_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/fork_rewrites.h"
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

TEST(ForkLayers, EachNameIsKnownOrRewrittenOrHasAnAnswer) {
  for (const std::string& name : kNames) {
    if (TestRegistry().Find(name) != nullptr || HasForkRewrite(name)) continue;
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

TEST(ForkLayers, AFieldOfTheForkGivesTheSameAnswer) {
  const std::string plain = ErrorOfType("Resample");
  const std::string answer = plain.substr(plain.find("layer type"));
  EXPECT_EQ(PlanError("layer { name: 'c' type: 'Resample' bottom: 'a' top: 'c'\n"
                      "  resample_param { factor: 20 } other_thing: 2 }"),
            "net.prototxt:2:3: layer \"c\": " + answer);
  // The type may come after the field, and other layers keep their own errors.
  const std::string two = PlanError(
      "layer { resample_param { factor: 20 } name: 'c' type: 'Resample' bottom: 'a' top: 'c' }\n"
      "layer { name: 'd' type: 'ReLU' resample_param { factor: 20 } }");
  EXPECT_NE(two.find("net.prototxt:1:9: layer \"c\": " + answer), std::string::npos) << two;
  EXPECT_NE(two.find("net.prototxt:2:32: layer \"d\": unknown field 'resample_param'"),
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
