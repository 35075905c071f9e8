// PixelsToFloat: y[n][c][h][w] = (x[n][h][w'][c] - mean) * scale, for the bytes that a data layer
// outputs with pipeline_param { output: U8 } (batch x H x W x C). This is the last step of
// transform_param, with the same values bit for bit. mean is mean_value (one, or one per channel),
// or mean_file at (c, h, w). No gradient, since bytes have none.
// The planner may add the placements of the samples as a second input (graph/byte_source.h): with
// them, w' is W - 1 - w if a sample is mirrored, and a mean image is read at (c, top + h, left +
// w').
#pragma once

#include <optional>

#include "crema.pb.h"
#include "data/transform/placement_bytes.h"
#include "data/transform/transformer.h"
#include "graph/input_types.h"
#include "graph/layer.h"

namespace crema {

class PixelsToFloat final : public Layer, public InputTypes {
 public:
  // Most mean_value on a GPU, where they are arguments of a kernel.
  static constexpr int kMostMeansOnGpu = 16;

  explicit PixelsToFloat(const LayerParameter& param);

  DType InputType(size_t, DType, DType) const override { return DType::kU8; }
  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override;

  // Returns the mean image; null without one.
  const MeanImage* mean() const { return mean_ ? &*mean_ : nullptr; }

 private:
  struct Row;

  void CheckFields(const TransformationParameter& transform) const;
  void CheckMean(const Shape& image, bool placed) const;
  void CheckPlacement(const PixelPlacement& placement, const Shape& pixels, int64_t sample) const;
  template <typename T>
  void Convert(const ForwardArgs& args) const;
  template <typename T>
  void ConvertRow(const Row& row, T* image) const;
  template <typename T>
  T MeanValue(int64_t channel) const;

  std::optional<MeanImage> mean_;
};

}  // namespace crema
