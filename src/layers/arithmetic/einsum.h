// Einsum: sums of products over labelled axes. See einsum.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/host_device.h"
#include "core/shape.h"
#include "graph/layer.h"

namespace crema {

// y[outer labels] = sum over the inner labels of the product of all operands.
struct Contraction {
  static constexpr int kMostLabels = Shape::kMaxAxes;
  static constexpr int kMostOperands = 8;

  // Returns the number of outer elements, or of products in each.
  CREMA_HOST_DEVICE int64_t Outer() const {
    int64_t product = 1;
    for (int l = 0; l < outer; ++l) product *= size[l];
    return product;
  }
  CREMA_HOST_DEVICE int64_t Inner() const {
    int64_t product = 1;
    for (int l = outer; l < labels; ++l) product *= size[l];
    return product;
  }

  int labels = 0;
  int outer = 0;  // of these, the first
  int operands = 0;
  int64_t size[kMostLabels]{};
  int64_t to[kMostLabels]{};                   // strides of y
  int64_t from[kMostLabels][kMostOperands]{};  // strides of the operands; 0 repeats
};

template <typename T>
struct EinsumOperands {
  const T* data[Contraction::kMostOperands];
};

// Returns outer element i, computed as Number, and sets its place in y. Value converts an element.
template <typename Number, typename T, typename Value>
CREMA_HOST_DEVICE Number Contract(const Contraction& c, const EinsumOperands<T>& operands,
                                  int64_t i, const Value& value, int64_t* place) {
  int64_t start[Contraction::kMostOperands] = {};
  *place = 0;
  for (int l = c.outer - 1; l >= 0; --l) {
    const int64_t at = i % c.size[l];
    i /= c.size[l];
    *place += at * c.to[l];
    for (int o = 0; o < c.operands; ++o) start[o] += at * c.from[l][o];
  }
  Number sum = 0;
  const int64_t products = c.Inner();
  for (int64_t k = 0; k < products; ++k) {
    int64_t offset[Contraction::kMostOperands];
    for (int o = 0; o < c.operands; ++o) offset[o] = start[o];
    int64_t rest = k;
    for (int l = c.labels - 1; l >= c.outer; --l) {
      const int64_t at = l == c.outer ? rest : rest % c.size[l];
      rest /= c.size[l];
      for (int o = 0; o < c.operands; ++o) offset[o] += at * c.from[l][o];
    }
    Number product = 1;
    for (int o = 0; o < c.operands; ++o) product *= value(operands.data[o][offset[o]]);
    sum += product;
  }
  return sum;
}

// A label of an axis: a letter, or above 255 an axis of an ellipsis, counted from the last one.
using Label = int;

// The labels of each axis of the inputs and the output.
struct EinsumTerms {
  std::vector<std::vector<Label>> inputs;
  std::vector<Label> output;
  std::vector<Label> labels;   // each once, those of the output first
  std::vector<int64_t> sizes;  // of these
};

// Returns the labels for inputs of these shapes. Throws like FailField or FailInputs.
EinsumTerms EinsumTermsOf(const Layer& layer, const std::vector<Shape>& inputs);

// Returns the contraction that gives the output, or the gradient of input `wanted`, whose operands
// are the other inputs in their order and the gradient of the output.
Contraction ForwardContraction(const EinsumTerms& terms, const std::vector<Shape>& inputs);
Contraction GradientContraction(const EinsumTerms& terms, const std::vector<Shape>& inputs,
                                size_t wanted);

}  // namespace crema
