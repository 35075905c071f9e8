// Small nets with their weights in files, for tests of `deploy`.
#pragma once

#include <algorithm>
#include <string>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "runtime/weights.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema::test {

// Scores of each pixel: 1 where it is red, 2 green, 3 blue, 0 where it is dark or gray.
inline constexpr const char* kColours = R"(name: "colours"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 12 } } }
layer { name: "score" type: "Convolution" bottom: "data" top: "score" convolution_param { num_output: 4 kernel_size: 1 } }
)";

// The mean of each channel, as scores: 0 blue, 1 green, 2 red.
inline constexpr const char* kMeans = R"(name: "means"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "mean" type: "Convolution" bottom: "data" top: "mean" convolution_param { num_output: 3 kernel_size: 4 } }
layer { name: "relu" type: "ReLU" bottom: "mean" top: "mean" }
layer { name: "prob" type: "Softmax" bottom: "mean" top: "prob" }
)";

// colours.prototxt and colours.caffemodel, means.prototxt and means.caffemodel.
inline void WriteDeployNets(const TempDir& temp) {
  temp.Write("colours.prototxt", kColours);
  const auto colours = PlanText(kColours, TEST);
  const auto scores = Weights::Make(*colours, 1);
  const float weights[] = {0, 0, 0, -1, -1, 1, -1, 1, -1, 1, -1, -1};  // of blue, green, red
  std::ranges::copy(weights, scores->blob(0).span<float>().begin());
  const float biases[] = {50, 0, 0, 0};
  std::ranges::copy(biases, scores->blob(1).span<float>().begin());
  WriteCaffemodel(scores->Export(*colours), temp.File("colours.caffemodel"));

  temp.Write("means.prototxt", kMeans);
  const auto means = PlanText(kMeans, TEST);
  const auto filters = Weights::Make(*means, 1);
  const std::span<float> filter = filters->blob(0).span<float>();
  for (size_t i = 0; i < filter.size(); ++i) {
    filter[i] = i / 48 == i % 48 / 16 ? 1.0F / 16 : 0.0F;
  }
  std::ranges::fill(filters->blob(1).span<float>(), 0.0F);
  WriteCaffemodel(filters->Export(*means), temp.File("means.caffemodel"));
}

// A portable pixmap: `width` pixels of each color, side by side.
inline std::string Stripes(int height, int width, const std::string& colors) {
  std::string pixels;
  for (int y = 0; y < height; ++y) {
    for (const char color : colors) {
      for (int x = 0; x < width; ++x) {
        pixels += color == 'r' ? '\xF0' : '\0';
        pixels += color == 'g' ? '\xF0' : '\0';
        pixels += color == 'b' ? '\xF0' : '\0';
      }
    }
  }
  return "P6\n" + std::to_string(static_cast<size_t>(width) * colors.size()) + " " +
         std::to_string(height) + "\n255\n" + pixels;
}

}  // namespace crema::test
