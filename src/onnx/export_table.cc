// The emitters of all layer types, and the reasons why others have none.
#include <array>
#include <string>
#include <utility>

#include "onnx/export_layer.h"

namespace crema {
namespace {

constexpr std::array kLosses = {"CTCLoss",
                                "BoxAnnotatorOHEM",
                                "CenterLoss",
                                "ContrastiveLoss",
                                "EuclideanLoss",
                                "FocalLoss",
                                "HingeLoss",
                                "InfogainLoss",
                                "LabelSpecificAdd",
                                "LargeMarginInnerProduct",
                                "L1Loss",
                                "MarginInnerProduct",
                                "MultiBoxLoss",
                                "MultinomialLogisticLoss",
                                "SigmoidCrossEntropyLoss",
                                "SmoothL1Loss",
                                "SmoothL1LossOHEM",
                                "SoftmaxWithLoss",
                                "SoftmaxWithLossOHEM",
                                "TripletLoss",
                                "WeightedSoftmaxWithLoss"};
constexpr std::array kData = {"AnnotatedData",    "Data",      "HDF5Data",   "HDF5Output",
                              "HDF5SequenceData", "ImageData", "MemoryData", "VideoData",
                              "WindowData"};
constexpr std::array kNotWritten = {
    "CTCBeamSearchDecoder",   "CTCGreedyDecoder", "Correlation", "DeformableConvolution",
    "DeformablePSROIPooling", "Maxout",           "PSROIAlign",  "SReLU",
    "SpatialTransformer"};
constexpr std::array kMetrics = {"Accuracy", "DetectionEvaluate"};

void Refuse(const std::string& why, const auto& types, EmitterTable* table) {
  for (const char* type : types) {
    table->emplace(type, [why](LayerExport& e) { e.Refuse(why); });
  }
}

EmitterTable MakeTable() {
  EmitterTable table;
  AddActivationEmitters(&table);
  AddArithmeticEmitters(&table);
  AddAttentionEmitters(&table);
  AddConvolutionEmitters(&table);
  AddDetectionEmitters(&table);
  AddElementEmitters(&table);
  AddIndexingEmitters(&table);
  AddNormalizationEmitters(&table);
  AddPoolingEmitters(&table);
  AddRecurrentEmitters(&table);
  AddRegionEmitters(&table);
  AddSamplingEmitters(&table);
  AddShapeEmitters(&table);
  Refuse("a loss is for training; give the deploy net", kLosses, &table);
  Refuse("it reads or writes files; give the deploy net, which begins with an Input layer", kData,
         &table);
  Refuse("it compares with labels; give the deploy net", kMetrics, &table);
  Refuse("it has no operators of ONNX here", kNotWritten, &table);
  Refuse("it runs Python code, which is not part of the net", std::array{"Python"}, &table);
  return table;
}

}  // namespace

const EmitterTable& Emitters() {
  static const EmitterTable table = MakeTable();
  return table;
}

}  // namespace crema
