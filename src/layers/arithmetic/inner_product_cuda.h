// GPU implementations of InnerProduct.
#pragma once

#include <span>

#include "graph/implementation.h"
#include "layers/fused_relu.h"

namespace crema {

// Matrices of a layer: the input is rows x depth, the output rows x columns.
struct InnerProductSizes {
  InnerProductSizes(const Layer& layer, const Shape& input, std::span<const Layer* const> fused);

  bool transpose, bias;
  FusedRelu relu;
  int64_t rows, depth, columns;
};

// Implementation "cublas".
void CudaInnerProductForward(const Layer& layer, const ForwardArgs& args);
void CudaInnerProductBackward(const Layer& layer, const BackwardArgs& args);
// Returns the bytes of the gradient masked by the fused ReLU.
size_t CudaInnerProductBackwardScratch(const OpDesc& query);

// Returns implementation "cublaslt": forward in one launch, with bias and ReLU; all else as
// "cublas". Only in builds with nvcc.
ImplementationPtr CublasLtInnerProductImplementation();

}  // namespace crema
