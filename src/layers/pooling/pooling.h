// Pooling: one value for each window of each plane: the first largest (MAX), the mean (AVE, which
// counts padding but not what lies beyond it), or one drawn in proportion to the values
// (STOCHASTIC, in TRAIN; in TEST the mean weighted by the values themselves).
// MAX and STOCHASTIC send a gradient to the cell that was taken, AVE to all cells of the window.
// A window may be empty, or hold NaN only: MAX then gives -FLT_MAX, from nowhere (position -1).
#pragma once

#include "crema.pb.h"
#include "graph/implementation.h"
#include "layers/pooling/pool_geometry.h"
#include "layers/pooling/pool_planes.h"

namespace crema {

class Pooling final : public Layer {
 public:
  // `read` is for the names that the type uses.
  Pooling(const LayerParameter& param, PoolSettings (*read)(const Layer&));

  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override;
  void Backward(const BackwardArgs& args) const override;
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info, int) const override;

  PoolPlanes Planes(const Shape& input, Phase phase) const {
    return Planes(MakePoolWindow(*this, settings_, input), phase);
  }
  // The first spatial axis of an input that Infer accepted.
  int FirstSpatial(const Shape& input) const { return input.CanonicalAxis(settings_.axis) + 1; }

  // For the implementation on blocked blobs.
  Support SupportsBlocks(const Shape& input) const;
  PoolWindow PlaneWindow(const Shape& input) const {
    return MakePoolWindow(*this, settings_, input).Plane();
  }
  bool IsAverage() const { return method_ == PoolingParameter::AVE; }
  bool ExcludesPad() const { return !param().pooling_param().avg_include_pad(); }

 private:
  PoolPlanes Planes(const PoolWindowNd& window, Phase phase) const;

  const PoolingParameter::PoolMethod method_;
  const PoolSettings settings_;
};

// Implementation "blocked": f32, MAX and AVE of planes of whole blocks of channels.
ImplementationPtr BlockedPoolingImplementation();
ImplementationPtr BlockedBF16PoolingImplementation();  // the same on blobs of bfloat16
// Implementations "int8" and "int8, plain output", on blobs of bytes.
ImplementationPtr Int8PoolingImplementation();
ImplementationPtr Int8PlainPoolingImplementation();
// Implementation "onednn", where the build has it: as "blocked", but for the windows that oneDNN
// lacks.
ImplementationPtr OneDnnPoolingImplementation();
ImplementationPtr OneDnnBF16PoolingImplementation();

// The method of a layer in a phase; T has MAX, AVE and STOCHASTIC.
template <typename Enum>
PoolPlanes::Method PoolMethodOf(Enum pool, Phase phase) {
  if (pool == 0) return PoolPlanes::Method::kMax;
  if (pool == 1) return PoolPlanes::Method::kAverage;
  return phase == TRAIN ? PoolPlanes::Method::kDrawn : PoolPlanes::Method::kWeighted;
}

}  // namespace crema
