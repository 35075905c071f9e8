// Writes a small model with three classes, one that detects, one that segments, a picture, and a
// detector of regions, its net and its weights, and a folder with a cascade:
// make_test_model MODEL DETECTOR SEGMENTER PICTURE REGIONS_NET REGIONS_WEIGHTS CASCADE_FOLDER
#include <cstdio>
#include <fstream>

#include "format/caffemodel.h"
#include "inference/crema_export.h"
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

void Export(const char* net, const crema::ModelCard& card, const char* path) {
  crema::ExportModel(crema::Model::Make(crema::ParseNet(net, "net.prototxt"), {}, card, {},
                                        crema::test::TestRegistry(), crema::NullSink()),
                     path);
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
                 "REGIONS_WEIGHTS CASCADE_FOLDER\n");
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
  std::ofstream(std::string(argv[7]) + "/square.ppm") << crema::test::SquarePicture();
  std::ofstream picture(argv[4], std::ios::binary);
  picture << "P6\n7 5\n255\n";
  for (int i = 0; i < 7 * 5 * 3; ++i) picture << static_cast<char>(i * 2);
  return picture.good() ? 0 : 1;
}
