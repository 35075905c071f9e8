// Geometry of Pad; see pad.cc.
#pragma once

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
// axis.
inline int64_t PadBefore(const Layer& layer, int index) {
  const PadParameter& pad = layer.param().pad_param();
  return PadEntry(pad.pad_size() > 0 ? pad.pad() : pad.pad_before(), index);
}
inline int64_t PadAfter(const Layer& layer, int index) {
  const PadParameter& pad = layer.param().pad_param();
  return PadEntry(pad.pad_size() > 0 ? pad.pad() : pad.pad_after(), index);
}

// Axes of a padded blob. Adjacent axes without padding are merged.
struct PadAxes {
  PadAxes(const Layer& layer, const Shape& x, const Shape& y)
      : mode(layer.param().pad_param().mode()) {
    const int first = PadAxis(layer, x);
    bool last_padded = true;
    for (int a = 0; a < x.axes(); ++a) {
      const bool padded = x[a] != y[a];
      if (padded || last_padded) {
        in[size] = out[size] = 1;
        before[size++] = padded ? PadBefore(layer, a - first) : 0;
      }
      in[size - 1] *= x[a];
      out[size - 1] *= y[a];
      last_padded = padded;
    }
  }

  CREMA_HOST_DEVICE int64_t InRow() const { return in[size - 1]; }
  CREMA_HOST_DEVICE int64_t OutRow() const { return out[size - 1]; }

  // Returns the element of axis a that is copied to position `place` of the output; -1 for the
  // constant.
  CREMA_HOST_DEVICE int64_t Source(int a, int64_t place) const {
    const int64_t last = in[a] - 1, element = place - before[a];
    if (element >= 0 && element <= last) return element;
    if (mode == PadParameter::CONSTANT) return -1;
    if (mode == PadParameter::REPLICATE) return element < 0 ? 0 : last;
    return element < 0 ? -element : 2 * last - element;
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
    const int64_t last = in[a] - 1;
    if (mode == PadParameter::REPLICATE) {
      return 1 + (i == 0 ? before[a] : 0) + (i == last ? out[a] - in[a] - before[a] : 0);
    }
    if (mode == PadParameter::CONSTANT) return 1;
    return 1 + (MirroredBefore(a, i) ? 1 : 0) + (2 * last - i + before[a] < out[a] && i < last);
  }
  CREMA_HOST_DEVICE int64_t Copy(int a, int64_t i, int64_t copy) const {
    if (mode == PadParameter::REPLICATE && i == 0) return copy;
    if (mode == PadParameter::REFLECT) {
      if (MirroredBefore(a, i) && copy-- == 0) return before[a] - i;
      if (copy > 0) return before[a] + 2 * (in[a] - 1) - i;
    }
    return before[a] + i + copy;
  }

  PadParameter::PadMode mode;
  int size = 0;
  int64_t in[Shape::kMaxAxes]{}, out[Shape::kMaxAxes]{}, before[Shape::kMaxAxes]{};

 private:
  CREMA_HOST_DEVICE bool MirroredBefore(int a, int64_t i) const { return i > 0 && i <= before[a]; }
};

}  // namespace crema
