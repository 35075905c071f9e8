// Nets drawn at random, as text, and what two runs of one must agree in.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"

namespace crema::test {

// A maximum or a sign that rounding turns over changes a gradient by more than any tolerance, and
// random values depend on the place in memory.
enum class Kind { kAny, kSmooth };

// Draws nets of convolutions and what stands around them; some channels do not fill blocks.
class NetMaker {
 public:
  explicit NetMaker(uint64_t seed, Kind kind = Kind::kAny)
      : random_(seed, HashName("blocked")), smooth_(kind == Kind::kSmooth) {}

  std::string Make() {
    channels_ = Draw(2) == 0 ? 3 : 16;
    text_ = StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: ",
                   channels_, " dim: 9 dim: 8 } } }\n");
    blob_ = "x";
    Convolution();
    const uint32_t steps = 4 + Draw(8);
    for (uint32_t i = 0; i < steps; ++i) Step();
    Add("InnerProduct", {blob_}, "inner_product_param { num_output: 3 " + Filler() + " }");
    const std::string last = blob_;
    Add("Reduction", {last}, "loss_weight: 1 reduction_param { operation: SUMSQ axis: 0 }");
    return text_;
  }

 private:
  uint32_t Draw(uint32_t below) { return random_.Below(next_++, below); }
  static std::string Filler() { return "weight_filler { type: 'xavier' }"; }

  void Step() {
    switch (Draw(11)) {
      case 0:
      case 1:
        return Convolution();
      case 2:
        return Residual();
      case 3:
        return Add("Pooling", {blob_},
                   !smooth_ && Draw(2) == 0 ? "pooling_param { kernel_size: 3 pad: 1 }"
                                            : "pooling_param { pool: AVE kernel_size: 3 pad: 1 }");
      case 4:
        return Add("BatchNorm", {blob_}, "");
      case 5:
        return Add("Scale", {blob_},
                   "scale_param { bias_term: true filler { type: 'gaussian' std: 1 } bias_filler { "
                   "type: 'gaussian' std: 1 } }");
      case 6:
        return Add("LRN", {blob_}, "lrn_param { alpha: 0.5 }");
      case 7: {
        const std::string before = blob_;
        const int channels = channels_;
        Convolution();
        Add("Concat", {before, blob_}, "");
        channels_ += channels;
        return;
      }
      case 8:
        return Add(smooth_ ? "Sigmoid" : "Dropout", {blob_}, "");
      default:
        return Add(smooth_ || Draw(4) == 0 ? "TanH" : "ReLU", {blob_}, "");
    }
  }

  void Convolution() { Convolution(Draw(4) == 0 ? 20 : Draw(2) == 0 ? 16 : 32); }
  void Convolution(int outputs) {
    const int groups = channels_ % 32 == 0 && outputs % 32 == 0 && Draw(3) == 0 ? 2 : 1;
    const char* kernel = Draw(3) == 0 ? "kernel_size: 1" : "kernel_size: 3 pad: 1";
    Add("Convolution", {blob_},
        StrCat("convolution_param { num_output: ", outputs, " group: ", groups, " ", kernel,
               Draw(2) == 0 ? " bias_term: false " : " bias_filler { type: 'gaussian' std: 1 } ",
               Filler(), " }"));
    channels_ = outputs;
  }

  void Residual() {
    const std::string before = blob_;
    Convolution(channels_);
    if (Draw(2) == 0) Add("BatchNorm", {blob_}, "");
    const std::vector<std::string> bottoms = {before, blob_};
    Add("Eltwise", Draw(2) == 0 ? bottoms : std::vector<std::string>{blob_, before}, "");
    if (Draw(2) == 0) Add(smooth_ ? "TanH" : "ReLU", {blob_}, "");
  }

  void Add(const std::string& type, const std::vector<std::string>& bottoms,
           const std::string& fields) {
    const std::string top = StrCat("b", layers_);
    text_ += StrCat("layer { name: 'l", layers_++, "' type: '", type, "' top: '", top, "' ");
    for (const std::string& bottom : bottoms) text_ += StrCat("bottom: '", bottom, "' ");
    text_ += StrCat(fields, " }\n");
    blob_ = top;
  }

  RandomStream random_;
  const bool smooth_;
  uint64_t next_ = 0;
  int layers_ = 0;
  int channels_ = 3;
  std::string blob_;
  std::string text_;
};

// Fails where elements differ by more than `tolerance` times the largest of `a`.
inline void ExpectNear(const std::vector<std::vector<float>>& a,
                       const std::vector<std::vector<float>>& b, double tolerance,
                       const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  // Relative to the largest of all, as a gradient may be nothing but rounding: that of a bias
  // before BatchNorm.
  double largest = 0;
  for (const std::vector<float>& values : a) {
    for (float value : values) largest = std::max(largest, std::abs(double{value}));
  }
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(a[k].size(), b[k].size()) << what;
    for (size_t i = 0; i < a[k].size(); ++i) {
      ASSERT_NEAR(a[k][i], b[k][i], tolerance * largest + 1e-6) << what << " " << k << " at " << i;
    }
  }
}

}  // namespace crema::test
