// Sizes and sinusoids of PositionEmbedding; see position_embedding.cc.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/host_device.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "layers/layer_axis.h"

namespace crema {

struct PositionSize {
  int64_t outer, positions, middle, features;
};

inline PositionSize PositionSizeOf(const Layer& layer, const Shape& x) {
  const std::string_view field = "position_embedding_param.axis";
  const int axis = LayerAxis(layer, x, layer.param().position_embedding_param().axis(), field);
  const int last = x.axes() - 1;
  if (axis == last) {
    FailField(
        layer, std::string(field),
        StrCat("axis is ", axis, ", the last one of ", ToString(x), ", which holds the features"));
  }
  return {x.count(0, axis), x[axis], x.count(axis + 1, last), x[last]};
}

CREMA_HOST_DEVICE inline double SinusoidFrequency(int64_t feature, int64_t features) {
  const int64_t even = feature - feature % 2;
  return std::pow(10000.0, -static_cast<double>(even) / static_cast<double>(features));
}

CREMA_HOST_DEVICE inline double Sinusoid(int64_t position, int64_t feature, double frequency) {
  const double angle = static_cast<double>(position) * frequency;
  return feature % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

}  // namespace crema
