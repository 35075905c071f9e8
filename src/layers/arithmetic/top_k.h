// TopK: the lines that it searches, and their order. See top_k.cc.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "crema.pb.h"
#include "layers/layer_axis.h"

namespace crema {

// Lines along one axis of a blob; `inner` is the distance of their elements.
struct TopKLines {
  TopKLines(const Layer& layer, const Shape& x) {
    const TopKParameter& top = layer.param().top_k_param();
    axis = LayerAxis(layer, x, top.axis(), "top_k_param.axis");
    searched = x[axis];
    inner = x.count(axis + 1);
    count = x.count(0, axis) * inner;
    k = top.k();
    largest = top.largest();
    sorted = top.sorted();
  }

  // Return the place of element i of a line in x, or of its result i in the output.
  CREMA_HOST_DEVICE int64_t InX(int64_t line, int64_t i) const {
    return (line / inner * searched + i) * inner + line % inner;
  }
  CREMA_HOST_DEVICE int64_t InY(int64_t line, int64_t i) const {
    return (line / inner * k + i) * inner + line % inner;
  }

  // Returns true if value x at position a ranks before value y at position b. NaN ranks last.
  template <typename T>
  CREMA_HOST_DEVICE bool Before(T x, int64_t a, T y, int64_t b) const {
    if (largest ? x > y : x < y) return true;
    if (largest ? x < y : x > y) return false;
    if ((x != x) != (y != y)) return y != y;
    return a < b;
  }

  int axis;
  int64_t searched, inner, count, k;
  bool largest, sorted;
};

}  // namespace crema
