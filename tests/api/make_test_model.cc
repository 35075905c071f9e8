// Writes a small model with three classes, and a picture for it: make_test_model MODEL PICTURE
#include <cstdio>
#include <fstream>

#include "inference/crema_export.h"
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

}  // namespace

int main(int, char** argv) {
  const crema::ModelCard card{.name = "three",
                              .task = "classify",
                              .preprocessing = {.scale = 1.0F / 255, .mean = {}},
                              .labels = {"ant", "bee"}};
  crema::ExportModel(crema::Model::Make(crema::ParseNet(kNet, "net.prototxt"), {}, card, {},
                                        crema::test::TestRegistry(), crema::NullSink()),
                     argv[1]);
  std::ofstream picture(argv[2], std::ios::binary);
  picture << "P6\n7 5\n255\n";
  for (int i = 0; i < 7 * 5 * 3; ++i) picture << static_cast<char>(i * 2);
  return picture.good() ? 0 : 1;
}
