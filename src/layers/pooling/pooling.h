// Pooling: one value for each window of each plane: the first largest (MAX), the mean (AVE, which
// counts padding but not cells beyond it), or one drawn in proportion to the values (STOCHASTIC, in
// TRAIN; in TEST the mean weighted by the values themselves).
// MAX and STOCHASTIC send the gradient to the cell that was taken, AVE to all cells of the window.
// For a window that is empty or holds only NaN, MAX gives -FLT_MAX and position -1.
#pragma once

#include "crema.pb.h"
#include "graph/implementation.h"
#include "layers/pooling/pool_geometry.h"
#include "layers/pooling/pool_planes.h"

namespace crema {

class Pooling final : public Layer {
 public:
  // `read` reads the fields that the type uses.
  Pooling(const LayerParameter& param, PoolSettings (*read)(const Layer&));

  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override;
  void Backward(const BackwardArgs& args) const override;
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info, int) const override;

  PoolPlanes Planes(const Shape& input, Phase phase) const {
    return Planes(MakePoolWindow(*this, settings_, input), phase);
  }
  // Returns the first spatial axis of an input that Infer accepted.
  int FirstSpatial(const Shape& input) const { return input.CanonicalAxis(settings_.axis) + 1; }

  // Returns No if the implementations on blocked blobs cannot serve.
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

// Returns implementation "blocked": f32, MAX and AVE of planes of whole blocks of channels.
ImplementationPtr BlockedPoolingImplementation();
ImplementationPtr BlockedBF16PoolingImplementation();       // the same on bfloat16 blobs
ImplementationPtr ChannelsLastBF16PoolingImplementation();  // only forward
// Return implementations "int8" and "int8, plain output", on blobs of bytes.
ImplementationPtr Int8PoolingImplementation();
ImplementationPtr Int8PlainPoolingImplementation();
// Return implementation "onednn": as "blocked", except for windows that oneDNN lacks. Only in
// builds with oneDNN.
ImplementationPtr OneDnnPoolingImplementation();
ImplementationPtr OneDnnBF16PoolingImplementation();

// Returns the method of a layer in a phase. `Enum` has MAX, AVE and STOCHASTIC.
template <typename Enum>
PoolPlanes::Method PoolMethodOf(Enum pool, Phase phase) {
  if (pool == 0) return PoolPlanes::Method::kMax;
  if (pool == 1) return PoolPlanes::Method::kAverage;
  return phase == TRAIN ? PoolPlanes::Method::kDrawn : PoolPlanes::Method::kWeighted;
}

}  // namespace crema
