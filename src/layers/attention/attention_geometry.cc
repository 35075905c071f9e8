#include "layers/attention/attention_geometry.h"

#include <cmath>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

AttentionSize PackedSize(const Layer& layer, const Shape& x, AttentionSize e) {
  const int64_t parts = e.heads + 2 * e.kv_heads;
  if (x[2] == 0 || x[2] % parts != 0) {
    FailInputs(layer, StrCat("one bottom holds queries, keys and values: its last axis must divide "
                             "into ",
                             parts, " heads (", e.heads, " + ", e.kv_heads, " + ", e.kv_heads,
                             "), but it is ", ToString(x)));
  }
  e.packed = true;
  e.items = x[0];
  e.queries = e.keys = x[1];
  e.size = e.value_size = x[2] / parts;
  return e;
}

AttentionSize SeparateSize(const Layer& layer, const Shape& q, const Shape& k, const Shape& v,
                           AttentionSize e) {
  const auto shapes = [&] {
    return StrCat("queries ", ToString(q), ", keys ", ToString(k), ", values ", ToString(v));
  };
  if (q[0] != k[0] || q[0] != v[0]) {
    FailInputs(layer, StrCat("the number of items differs: ", shapes()));
  }
  if (k[1] != v[1]) FailInputs(layer, StrCat("there must be a value for each key: ", shapes()));
  if (q[2] == 0 || q[2] % e.heads != 0) {
    FailInputs(layer, StrCat("the last axis of the queries must divide into ", e.heads,
                             " heads: ", shapes()));
  }
  e.size = q[2] / e.heads;
  if (k[2] != e.kv_heads * e.size) {
    FailInputs(layer, StrCat("the last axis of the keys must be ", e.kv_heads * e.size, ", ",
                             e.kv_heads, " heads of ", e.size, ": ", shapes()));
  }
  if (v[2] == 0 || v[2] % e.kv_heads != 0) {
    FailInputs(layer, StrCat("the last axis of the values must divide into ", e.kv_heads,
                             " heads: ", shapes()));
  }
  e.items = q[0];
  e.queries = q[1];
  e.keys = k[1];
  e.value_size = v[2] / e.kv_heads;
  return e;
}

AttentionSize SizesOf(const Layer& layer, std::span<const Shape> inputs) {
  const AttentionParameter& param = layer.param().attention_param();
  AttentionSize e;
  e.heads = param.num_heads();
  e.kv_heads = param.num_kv_heads() > 0 ? param.num_kv_heads() : e.heads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].axes() == 3) continue;
    FailInputs(layer, StrCat("Attention takes bottoms of 3 axes, items x places x features, but "
                             "bottom ",
                             i, " is ", ToString(inputs[i])));
  }
  return inputs.size() == 1 ? PackedSize(layer, inputs[0], e)
                            : SeparateSize(layer, inputs[0], inputs[1], inputs[2], e);
}

const Shape& ShapeOf(const BlobSpec& spec) { return spec.shape; }
const Shape& ShapeOf(const ConstTensorView& view) { return view.shape(); }

template <typename Views>
AttentionSize SizeOfAll(const Layer& layer, const Views& inputs) {
  std::array<Shape, 3> shapes;
  const size_t count = inputs.size() < 3 ? 1 : 3;
  for (size_t i = 0; i < count; ++i) shapes[i] = ShapeOf(inputs[i]);
  return SizesOf(layer, std::span(shapes).first(count));
}

}  // namespace

AttentionSize AttentionSizeOf(const Layer& layer, std::span<const BlobSpec> inputs) {
  return SizeOfAll(layer, inputs);
}

AttentionSize AttentionSizeOf(const Layer& layer, std::span<const ConstTensorView> inputs) {
  return SizeOfAll(layer, inputs);
}

double AttentionScale(const Layer& layer, const AttentionSize& e) {
  const AttentionParameter& attention = layer.param().attention_param();
  return attention.has_scale() ? attention.scale() : 1 / std::sqrt(static_cast<double>(e.size));
}

std::array<int64_t, 4> MaskStrides(const Layer& layer, const AttentionSize& e, const Shape& mask) {
  const std::array<int64_t, 4> full = {e.items, e.heads, e.queries, e.keys};
  // Axis of `full` for each axis of the mask.
  const int axes = mask.axes();
  std::array<int, 4> axis = {0, 1, 2, 3};
  if (axes == 2) axis = {2, 3, -1, -1};
  if (axes == 3) axis = {0, 2, 3, -1};
  bool fits = axes >= 2 && axes <= 4;
  std::array<int64_t, 4> strides{};
  for (int i = 0; fits && i < axes; ++i) {
    const auto of = static_cast<size_t>(axis[static_cast<size_t>(i)]);
    fits = mask[i] == 1 || mask[i] == full[of];
    strides[of] = mask[i] == 1 ? 0 : mask.count(i + 1);
  }
  if (fits) return strides;
  FailInputs(layer,
             StrCat("the mask must be ", e.queries, "x", e.keys, ", or ", e.items, "x", e.queries,
                    "x", e.keys, ", or ", e.items, "x", e.heads, "x", e.queries, "x", e.keys,
                    ", with 1 for a size over which it is the same, but it is ", ToString(mask)));
}

}  // namespace crema
