#include "quantization/byte_weights.h"

#include "crema.pb.h"
#include "math/int8_weights.h"

namespace crema {

ByteWeights RoundWeights(const PlannedLayer& layer, const ConstTensorView& weight, int largest) {
  const LayerParameter& param = layer.layer->param();
  const bool transposed = param.type() == "InnerProduct" && param.inner_product_param().transpose();
  const Shape& shape = weight.shape();
  ByteWeights rounded;
  rounded.axis = transposed ? shape.axes() - 1 : 0;
  const int64_t rows = shape[rounded.axis];
  const int64_t columns = rows == 0 ? 0 : weight.count() / rows;
  rounded.bytes.resize(static_cast<size_t>(weight.count()));
  rounded.steps.resize(static_cast<size_t>(rows));
  const float* w = weight.data<float>();
  if (!transposed) {
    QuantizeRows(1, rows, columns, w, nullptr, rounded.bytes.data(), rounded.steps.data(), largest);
    return rounded;
  }
  std::vector<float> row(static_cast<size_t>(columns));
  std::vector<int8_t> bytes(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) row[static_cast<size_t>(c)] = w[c * rows + r];
    QuantizeRows(1, 1, columns, row.data(), nullptr, bytes.data(),
                 &rounded.steps[static_cast<size_t>(r)], largest);
    for (int64_t c = 0; c < columns; ++c) {
      rounded.bytes[static_cast<size_t>(c * rows + r)] = bytes[static_cast<size_t>(c)];
    }
  }
  return rounded;
}

void WeightsFromBytes(const Shape& shape, int axis, const int8_t* bytes,
                      std::span<const float> steps, float* floats) {
  const int64_t inner = shape.count(axis + 1);
  const int64_t outer = shape.count(0, axis);
  for (int64_t o = 0; o < outer; ++o) {
    for (const float step : steps) {
      for (int64_t i = 0; i < inner; ++i) *floats++ = static_cast<float>(*bytes++) * step;
    }
  }
}

}  // namespace crema
