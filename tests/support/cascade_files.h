// A small cascade of nets for tests.
#pragma once

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "runtime/weights.h"
#include "support/net.h"

namespace crema::test {

// A first net that looks for a bright window of 12 x 12, and a second one that checks the box and
// moves it. The score is the mean of the pixels.
inline constexpr const char* kCascadeFirst = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 12 dim: 12 } } }
layer { name: "score" type: "Convolution" bottom: "data" top: "score" convolution_param { num_output: 2 kernel_size: 12 stride: 2 } }
layer { name: "shift" type: "Convolution" bottom: "data" top: "shift" convolution_param { num_output: 4 kernel_size: 12 stride: 2 } }
)";
inline constexpr const char* kCascadeSecond = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 24 dim: 24 } } }
layer { name: "score" type: "InnerProduct" bottom: "data" top: "score" inner_product_param { num_output: 2 } }
layer { name: "shift" type: "InnerProduct" bottom: "data" top: "shift" inner_product_param { num_output: 4 } }
layer { name: "points" type: "InnerProduct" bottom: "data" top: "points" inner_product_param { num_output: 10 } }
)";
inline constexpr const char* kCascade = R"(
stage { net: "first.prototxt" weights: "first.caffemodel" threshold: 0.95 }
stage { net: "second.prototxt" weights: "second.caffemodel" threshold: 0.9 nms_by: SMALLER }
min_size: 12 mean: 0 scale: 0.0038
)";

inline void WriteCascadeNet(const std::string& path, const std::string& net,
                            std::array<float, 4> shifts) {
  std::ofstream(path + ".prototxt") << net;
  const auto plan = PlanText(net, TEST);
  const auto weights = Weights::Make(*plan, 1);
  for (size_t b = 0; b < plan->parameters.size(); ++b) {
    std::ranges::fill(weights->blob(b).span<float>(), 0.0F);
  }
  const std::span<float> score = weights->blob(0).span<float>();
  const size_t half = score.size() / 2;
  std::ranges::fill(score.subspan(half), 1.0F / static_cast<float>(half));
  std::ranges::copy(shifts, weights->blob(3).span<float>().begin());
  if (plan->parameters.size() > 4) std::ranges::fill(weights->blob(5).span<float>(), 0.5F);
  WriteCaffemodel(weights->Export(*plan), path + ".caffemodel");
}

// Writes cascade.txt and its nets. In a picture of SquarePicture it finds one box, 6 5 23 22, with
// the score 0.969 and five points 14 10.
inline void WriteCascade(const std::string& folder) {
  WriteCascadeNet(folder + "/first", kCascadeFirst, {0, 0, 0, 0});
  WriteCascadeNet(folder + "/second", kCascadeSecond, {-0.25F, 0, 0.25F, 0.5F});
  std::ofstream(folder + "/cascade.txt") << kCascade;
}

// Black, with a white square of 12 x 12 pixels.
inline std::string SquarePicture(int width = 36, int height = 30, int left = 8, int top = 4) {
  std::string file = StrCat("P6\n", width, " ", height, "\n255\n");
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const bool inside = x >= left && x < left + 12 && y >= top && y < top + 12;
      file += std::string(3, inside ? '\xff' : '\0');
    }
  }
  return file;
}

}  // namespace crema::test
