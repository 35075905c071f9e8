// Passes of an implementation "cudnn" in one session.
#pragma once

#if __has_include(<cudnn.h>)
#include <memory>
#include <span>
#include <vector>

#include "layers/convolution/conv_cuda.h"
#include "layers/convolution/conv_cudnn.h"
#include "layers/convolution/conv_cudnn_fold.h"
#include "layers/convolution/convolution.h"
#include "math/scratch.h"

namespace crema {

// Chooses engines in the first pass and tries them on the memory of that pass. Thread safety: one
// thread at a time.
class CudnnConvState final : public ImplementationState, public TunesEngines {
 public:
  // `fused` means that cuDNN also does the work after the products.
  CudnnConvState(const CudnnConvLayer& layer, bool fused);

  void UseTimer(std::shared_ptr<ImplementationTimer> timer) override { timer_ = std::move(timer); }
  void Forward(const ForwardArgs& args);
  void Backward(const BackwardArgs& args);

 private:
  // One pass, built for each alignment of its memory. There is only one alignment, except with
  // sub-views of blobs.
  struct Pass {
    CudnnConvSpec spec;
    std::vector<std::unique_ptr<CudnnConvPass>> made = {};
  };

  // Returns the planes of one output of the layer, for our kernels.
  CudaPlanes OutputPlanes() const;
  // Returns the weights as cuDNN takes them; in scratch if they are transposed and may change.
  const void* Filters(const ExecContext& context, const void* weight, bool fixed,
                      ScratchCutter* cutter);
  void Run(const CudaQueue& queue, const CudnnConvMemory& memory, Pass* pass);
  struct GradientScratch {
    void* workspace;
    void* dweight;
    double* sums;  // of the bias gradient
  };
  void AddBiasGradient(const CudaQueue& queue, const void* dy, double* sums,
                       const TensorView& dbias) const;
  void AddParameterGradients(const BackwardArgs& args, size_t i, const void* dy,
                             const GradientScratch& scratch);

  const CudnnConvLayer layer_;
  const bool fused_;
  ConvFold fold_;
  Tensor transposed_;  // filters of fixed weights
  Pass forward_, to_input_, to_weights_;
  std::shared_ptr<ImplementationTimer> timer_;
};

}  // namespace crema
#endif
