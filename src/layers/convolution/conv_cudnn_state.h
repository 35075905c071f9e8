// The passes of an implementation "cudnn" in one session.
#pragma once

#if __has_include(<cudnn.h>)
#include <memory>
#include <span>
#include <vector>

#include "layers/convolution/conv_cuda.h"
#include "layers/convolution/conv_cudnn.h"
#include "layers/convolution/conv_cudnn_fold.h"
#include "layers/convolution/conv_cudnn_norm_fusion.h"
#include "layers/convolution/convolution.h"
#include "math/scratch.h"

namespace crema {

// Engines are chosen in the first pass, whose memory they are tried on. Thread safety: one thread
// at a time.
class CudnnConvState final : public ImplementationState, public TunesEngines {
 public:
  // `fused`: cuDNN does what is behind the sums too.
  CudnnConvState(const CudnnConvLayer& layer, bool fused, const CudnnNormFusionPasses& does);

  void UseTimer(std::shared_ptr<ImplementationTimer> timer) override { timer_ = std::move(timer); }
  void Forward(const ForwardArgs& args);
  void Backward(const BackwardArgs& args);

 private:
  // A pass for each alignment that memory is met with, which is one but for ranges of blobs.
  struct Pass {
    CudnnConvSpec spec;
    std::vector<std::unique_ptr<CudnnConvPass>> made = {};
  };

  // The layer's planes of outputs, for own code.
  CudaPlanes OutputPlanes() const;
  // Weights as cuDNN takes them, in scratch where they are turned and may change.
  const void* Filters(const ExecContext& context, const void* weight, bool fixed,
                      ScratchCutter* cutter);
  void Run(const CudaQueue& queue, const CudnnConvMemory& memory, Pass* pass);
  struct GradientScratch {
    void* workspace;
    void* dweight;
    double* sums;      // of the bias
    void* normalized;  // input, where cuDNN does not do it
    void* fused_sums;  // the same
  };
  void AddBiasGradient(const CudaQueue& queue, const void* dy, double* sums,
                       const TensorView& dbias) const;
  void AddLearnedGradients(const BackwardArgs& args, size_t i, const void* dy,
                           const GradientScratch& scratch);
  void GiveToInput(const BackwardArgs& args, size_t i, const void* weight, const void* dy,
                   const GradientScratch& scratch);
  // Where factors are taken: tells `spec` how to normalise x, or puts it normalised into `scratch`.
  void NormalizeFor(const CudaQueue& queue, std::span<const ConstTensorView> inputs,
                    const CudnnConvSpec& spec, void* scratch, CudnnConvMemory* memory) const;
  void* TakeNormalized(bool wanted, ScratchCutter* cutter) const;

  const CudnnConvLayer layer_;
  const bool fused_;
  ConvFold fold_;
  Tensor transposed_;  // of fixed weights
  Pass forward_, to_input_, to_weights_;
  std::shared_ptr<ImplementationTimer> timer_;
};

}  // namespace crema
#endif
