// What Pad puts where; see pad.cc.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "layers/layer_axis.h"

namespace crema {

inline int PadAxis(const Layer& layer, const Shape& shape) {
  return LayerAxis(layer, shape, layer.param().pad_param().axis(), "pad_param.axis");
}

inline int64_t PadEntry(const google::protobuf::RepeatedField<uint32_t>& entries, int index) {
  if (entries.empty()) return 0;
  return entries.Get(entries.size() == 1 ? 0 : index);
}

// Elements in front of and behind axis number `index` from the first padded one on.
inline int64_t PadBefore(const Layer& layer, int index) {
  const PadParameter& pad = layer.param().pad_param();
  return PadEntry(pad.pad_size() > 0 ? pad.pad() : pad.pad_before(), index);
}
inline int64_t PadAfter(const Layer& layer, int index) {
  const PadParameter& pad = layer.param().pad_param();
  return PadEntry(pad.pad_size() > 0 ? pad.pad() : pad.pad_after(), index);
}

// Which element of an axis stands at a place that may lie outside; -1: none, the constant.
CREMA_HOST_DEVICE inline int64_t PadSource(PadParameter::PadMode mode, int64_t extent,
                                           int64_t place) {
  const int64_t last = extent - 1;
  if (place >= 0 && place <= last) return place;
  if (mode == PadParameter::CONSTANT) return -1;
  if (mode == PadParameter::REPLICATE) return place < 0 ? 0 : last;
  return place < 0 ? -place : 2 * last - place;
}

}  // namespace crema
