// Writes a small model with three classes, one that detects, one that segments, a picture, and a
// detector of regions, its net and its weights, and a folder with a cascade, in which other forms
// of the first model are, and a detector with a confidence of its own:
// make_test_model MODEL DETECTOR SEGMENTER PICTURE REGIONS_NET REGIONS_WEIGHTS FOLDER
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "format/caffemodel.h"
#include "inference/crema_export.h"
#include "inference/model_parts.h"
#include "onnx/export.h"
#include "runtime/weights.h"
#include "support/cascade_files.h"
#include "support/net.h"
#include "support/region_net.h"
#include "support/serving_nets.h"

namespace {

const char* const kNet = R"(
name: "three"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 12 dim: 12 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool" type: "Pooling" bottom: "conv1" top: "pool"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
)";

// 300 rows of corners, score, class and a point: all numbers are 3.
const char* const kDetector = R"(
name: "threes"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 12 dim: 12 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 2700 bias_filler { type: "constant" value: 3 } } }
layer { name: "rows" type: "Reshape" bottom: "ip" top: "rows"
  reshape_param { shape { dim: 0 dim: 300 dim: 9 } } }
)";

// The colour of each pixel: 0 blue, 1 green, 2 red.
const char* const kSegmenter = R"(
name: "colours"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 12 dim: 12 } } }
layer { name: "score" type: "Power" bottom: "data" top: "score" power_param { scale: 2 } }
)";

// One box with a score of 0.95; none are found below 0.9.
const char* const kConfident = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 12 dim: 12 } } }
layer { name: "half" type: "Pooling" bottom: "data" top: "half"
  pooling_param { pool: AVE kernel_size: 12 stride: 12 } }
layer { name: "ip" type: "Convolution" bottom: "half" top: "ip"
  convolution_param { num_output: 6 kernel_size: 1 bias_filler { type: "constant" value: 3 } } }
layer { name: "out" type: "YoloDetectionOutput" bottom: "ip" top: "out" yolo_detection_output_param {
  num_classes: 1 num_box: 1 confidence_threshold: 0.9 biases: 0.05 biases: 0.05 } }
)";

std::shared_ptr<const crema::Model> ModelOf(const char* net, const crema::ModelCard& card) {
  return crema::Model::Make(crema::ParseNet(net, "net.prototxt"), {}, card, {},
                            crema::test::TestRegistry(), crema::NullSink());
}

void Export(const char* net, const crema::ModelCard& card, const char* path) {
  crema::ExportModel(ModelOf(net, card), path);
}

// The same net as ONNX, and as text with weights in two files.
void WriteOtherForms(const crema::ModelCard& card, const std::string& folder) {
  const auto model = ModelOf(kNet, card);
  crema::WriteOnnx(crema::ToOnnx(*model, {}), folder + "/m.onnx", false, [](const auto&) {});
  std::ofstream(folder + "/m.prototxt") << kNet;
  const crema::NetParameter all = model->weights()->Export(*model->parts().plan);
  for (const char* layer : {"conv1", "ip"}) {
    crema::NetParameter part;
    for (const auto& one : all.layer()) {
      if (one.name() == layer) *part.add_layer() = one;
    }
    crema::WriteCaffemodel(part, folder + "/" + layer + ".caffemodel");
  }
}

// Reads the pixels through a layer that has a weight.
void WriteRegionNet(const char* net_path, const char* weights_path) {
  std::string net = crema::test::kRegionNet;
  const size_t at = net.find(R"(layer { name: "map")");
  net.replace(net.find("bottom: \"data\"", at), 14, "bottom: \"same\"");
  net.insert(at, R"(layer { name: "same" type: "Scale" bottom: "data" top: "same" })"
                 "\n");
  std::ofstream(net_path) << net;
  const auto plan = crema::test::PlanText(net, crema::TEST);
  crema::WriteCaffemodel(crema::Weights::Make(*plan, 1)->Export(*plan), weights_path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr,
                 "usage: make_test_model MODEL DETECTOR SEGMENTER PICTURE REGIONS_NET "
                 "REGIONS_WEIGHTS FOLDER\n");
    return 2;
  }
  const crema::ModelCard card{.name = "three",
                              .task = "classify",
                              .preprocessing = {.scale = 1.0F / 255, .mean = {}},
                              .labels = {"ant", "bee"}};
  Export(kNet, card, argv[1]);
  Export(kDetector,
         {.name = "threes",
          .task = "detect",
          .preprocessing = {},
          .labels = {"ant", "bee", "cat", "dog"}},
         argv[2]);
  Export(kSegmenter, {.name = "colours", .task = "segment", .preprocessing = {}, .labels = {}},
         argv[3]);
  WriteRegionNet(argv[5], argv[6]);
  crema::test::WriteCascade(argv[7]);
  WriteOtherForms(card, argv[7]);
  Export(kConfident, {.name = "sure", .task = "detect", .preprocessing = {}, .labels = {}},
         (std::string(argv[7]) + "/c.crema").c_str());
  std::ofstream(std::string(argv[7]) + "/square.ppm") << crema::test::SquarePicture();
  std::ofstream picture(argv[4], std::ios::binary);
  picture << "P6\n7 5\n255\n";
  for (int i = 0; i < 7 * 5 * 3; ++i) picture << static_cast<char>(i * 2);
  return picture.good() ? 0 : 1;
}
