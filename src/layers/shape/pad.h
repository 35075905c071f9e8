// Geometry of Pad; see pad.cc.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/host_device.h"
#include "crema.pb.h"
#include "layers/layer_axis.h"

namespace crema {

inline int PadAxis(const Layer& layer, const Shape& shape) {
  return LayerAxis(layer, shape, layer.param().pad_param().axis(), "pad_param.axis");
}

inline int64_t PadEntry(const google::protobuf::RepeatedField<int32_t>& entries, int index) {
  if (entries.empty()) return 0;
  return entries.Get(entries.size() == 1 ? 0 : index);
}

// Return the number of elements added before and after axis `index`, counted from the first padded
// axis; negative: elements that are cut off.
inline int64_t PadBefore(const Layer& layer, int index) {
  const PadParameter& pad = layer.param().pad_param();
  return PadEntry(pad.pad_size() > 0 ? pad.pad() : pad.pad_before(), index);
}
inline int64_t PadAfter(const Layer& layer, int index) {
  const PadParameter& pad = layer.param().pad_param();
  return PadEntry(pad.pad_size() > 0 ? pad.pad() : pad.pad_after(), index);
}

// Axes of a padded blob. Adjacent axes that do not change are merged.
struct PadAxes {
  PadAxes(const Layer& layer, const Shape& x) : mode(layer.param().pad_param().mode()) {
    const int first = PadAxis(layer, x);
    bool last_changed = true;
    for (int a = 0; a < x.axes(); ++a) {
      const int64_t ahead = a < first ? 0 : PadBefore(layer, a - first);
      const int64_t behind = a < first ? 0 : PadAfter(layer, a - first);
      const bool changed = ahead != 0 || behind != 0;
      if (changed || last_changed) {
        in[size] = kept[size] = out[size] = 1;
        cut[size] = std::max<int64_t>(0, -ahead);
        before[size++] = std::max<int64_t>(0, ahead);
      }
      in[size - 1] *= x[a];
      kept[size - 1] *= x[a] + std::min<int64_t>(0, ahead) + std::min<int64_t>(0, behind);
      out[size - 1] *= x[a] + ahead + behind;
      last_changed = changed;
    }
  }

  CREMA_HOST_DEVICE int64_t InRow() const { return in[size - 1]; }
  CREMA_HOST_DEVICE int64_t OutRow() const { return out[size - 1]; }
  CREMA_HOST_DEVICE bool Changes(int a) const { return in[a] != kept[a] || in[a] != out[a]; }

  // Returns the element of axis a that is copied to position `place` of the output; -1 for the
  // constant.
  CREMA_HOST_DEVICE int64_t Source(int a, int64_t place) const {
    const int64_t last = kept[a] - 1, element = place - before[a];
    if (element >= 0 && element <= last) return cut[a] + element;
    if (mode == PadParameter::CONSTANT) return -1;
    if (mode == PadParameter::REPLICATE) return cut[a] + (element < 0 ? 0 : last);
    if (mode == PadParameter::WRAP) return cut[a] + (place + kept[a] - First(a, 0)) % kept[a];
    return cut[a] + (element < 0 ? -element : 2 * last - element);
  }

  // Returns the first element of the input row (along the last axis) of an output row; -1 if there
  // is none.
  CREMA_HOST_DEVICE int64_t RowSource(int64_t row) const {
    int64_t source = 0, step = InRow();
    for (int a = size - 2; a >= 0; --a) {
      const int64_t element = Source(a, row % out[a]);
      if (element < 0) return -1;
      source += element * step;
      step *= in[a];
      row /= out[a];
    }
    return source;
  }

  // Return the number of output positions of element i of axis a, and the position of one of them.
  CREMA_HOST_DEVICE int64_t Copies(int a, int64_t i) const {
    const int64_t last = kept[a] - 1;
    i -= cut[a];
    if (i < 0 || i > last) return 0;
    if (mode == PadParameter::REPLICATE) {
      return 1 + (i == 0 ? before[a] : 0) + (i == last ? out[a] - kept[a] - before[a] : 0);
    }
    if (mode == PadParameter::CONSTANT) return 1;
    if (mode == PadParameter::WRAP) return (out[a] - First(a, i) + last) / kept[a];
    return 1 + (MirroredBefore(a, i) ? 1 : 0) + (2 * last - i + before[a] < out[a] && i < last);
  }
  CREMA_HOST_DEVICE int64_t Copy(int a, int64_t i, int64_t copy) const {
    i -= cut[a];
    if (mode == PadParameter::WRAP) return First(a, i) + copy * kept[a];
    if (mode == PadParameter::REPLICATE && i == 0) return copy;
    if (mode == PadParameter::REFLECT) {
      if (MirroredBefore(a, i) && copy-- == 0) return before[a] - i;
      if (copy > 0) return before[a] + 2 * (kept[a] - 1) - i;
    }
    return before[a] + i + copy;
  }

  PadParameter::PadMode mode;
  int size = 0;
  int64_t in[Shape::kMaxAxes]{}, out[Shape::kMaxAxes]{};
  int64_t cut[Shape::kMaxAxes]{}, kept[Shape::kMaxAxes]{};  // elements cut off before, and left
  int64_t before[Shape::kMaxAxes]{};                        // elements added before

 private:
  CREMA_HOST_DEVICE bool MirroredBefore(int a, int64_t i) const { return i > 0 && i <= before[a]; }
  // Returns the first position of kept element i in WRAP.
  CREMA_HOST_DEVICE int64_t First(int a, int64_t i) const { return (before[a] + i) % kept[a]; }
};

}  // namespace crema
