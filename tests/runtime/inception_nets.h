// Texts of nets whose Concats join branches, as in GoogLeNet.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/strings.h"

namespace crema::test {

inline std::string Input(int batch, int channels = 16, int size = 9) {
  return StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: ", batch,
                " dim: ", channels, " dim: ", size, " dim: ", size, " } } }\n");
}

inline std::string Conv(const std::string& name, const std::string& bottom, int outputs, int kernel,
                        const std::string& fields = "") {
  return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                name, "' ", fields, " convolution_param { num_output: ", outputs,
                " kernel_size: ", kernel, " pad: ", kernel / 2,
                " weight_filler { type: 'xavier' } bias_filler { type: 'uniform' min: -0.2 max: "
                "0.2 } } }\n");
}

inline std::string Relu(const std::string& blob) {
  return StrCat("layer { name: 'relu_", blob, "' type: 'ReLU' bottom: '", blob, "' top: '", blob,
                "' relu_param { negative_slope: 0.1 } }\n");
}

inline std::string Pool(const std::string& name, const std::string& bottom,
                        const std::string& kind) {
  return StrCat("layer { name: '", name, "' type: 'Pooling' bottom: '", bottom, "' top: '", name,
                "' pooling_param { pool: ", kind, " kernel_size: 3 stride: 1 pad: 1 } }\n");
}

inline std::string Concat(const std::string& name, const std::vector<std::string>& bottoms,
                          const std::string& fields = "") {
  std::string text = StrCat("layer { name: '", name, "' type: 'Concat' top: '", name, "' ", fields);
  for (const std::string& bottom : bottoms) text += StrCat(" bottom: '", bottom, "'");
  return text + " }\n";
}

inline std::string Loss(const std::string& bottom) {
  return Conv("last", bottom, 16, 1) +
         "layer { name: 'loss' type: 'Reduction' bottom: 'last' top: 'loss' loss_weight: 0.01 "
         "reduction_param { operation: SUMSQ } }\n";
}

// 1 x 1, 3 x 3 and 5 x 5 filters and a pooling, all with their ReLU.
inline std::string Inception(int batch) {
  return Input(batch) + Conv("stem", "x", 32, 3) + Relu("stem") + Conv("a", "stem", 16, 1) +
         Relu("a") + Conv("b", "stem", 48, 3) + Relu("b") + Conv("c", "stem", 32, 5) + Relu("c") +
         Pool("d", "stem", "MAX") + Concat("y", {"a", "b", "c", "d"}) + Loss("y");
}

// Makes sequences of inception modules with various contents.
class InceptionMaker {
 public:
  explicit InceptionMaker(uint32_t seed) : random_(seed) {}

  std::string Make() {
    text_ = Input(1 + Draw(5), 16, 5 + Draw(6)) + Conv("stem", "x", 32, 3);
    std::string blob = "stem";
    for (int i = 0, count = 1 + Draw(3); i < count; ++i) blob = Module(blob, 0);
    return text_ + Loss(blob);
  }

 private:
  int Draw(uint32_t count) { return static_cast<int>(random_() % count); }
  std::string Name() { return StrCat("n", names_++); }

  std::string Module(const std::string& from, int depth) {
    std::vector<std::string> parts;
    for (int i = 0, count = 2 + Draw(3); i < count; ++i) parts.push_back(Branch(from, depth));
    std::string name = Name();
    text_ += Concat(name, parts);
    if (Draw(4) == 0) text_ += Relu(name);
    return name;
  }

  std::string Branch(const std::string& from, int depth) {
    if (depth == 0 && Draw(6) == 0) return Module(from, 1);
    std::string name = Name();
    if (Draw(8) == 0) {  // a Concat of one blob is another name for it
      text_ += Concat(name, {Branch(from, 1)});
      return name;
    }
    if (Draw(4) == 0) {
      text_ += Pool(name, from, Draw(2) == 0 ? "MAX" : "AVE");
      return name;
    }
    if (Draw(3) == 0) {
      text_ += Conv(name, from, 16, 1) + Relu(name);
      return Branch(name, 1);
    }
    text_ += Conv(name, from, Draw(12) == 0 ? 10 : 16 * (1 + Draw(3)), 1 + 2 * Draw(3));
    if (Draw(3) > 0) text_ += Relu(name);
    if (Draw(8) == 0) text_ += Pool(name + "_other", name, "MAX");
    return name;
  }

  std::mt19937 random_;
  std::string text_;
  int names_ = 0;
};

}  // namespace crema::test
