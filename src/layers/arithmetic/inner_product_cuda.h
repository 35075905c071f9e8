// GPU implementations of InnerProduct.
#pragma once

#include <span>

#include "graph/implementation.h"
#include "layers/fused_relu.h"

namespace crema {

// Matrices of a layer: the input is rows x depth, the output rows x columns.
struct InnerProductSizes {
  InnerProductSizes(const Layer& layer, const Shape& input, std::span<const Layer* const> fused);

  // Returns the columns of the product that is computed instead: in 16 bits, cuBLAS computes large
  // products several times as fast if their rows begin at multiples of 16 bytes. 0: `columns`.
  int64_t PaddedColumns(DType dtype) const;

  bool transpose, bias;
  FusedRelu relu;
  int64_t rows, depth, columns;
};

// Implementation "cublas".
void CudaInnerProductForward(const Layer& layer, const ForwardArgs& args);
// Returns the bytes of its scratch memory: padded copies of weights and output.
size_t CudaInnerProductForwardScratch(const OpDesc& query);
void CudaInnerProductBackward(const Layer& layer, const BackwardArgs& args);
// Returns the bytes of its scratch memory: the gradient masked by the fused ReLU, padded copies of
// gradient and weights, and sums.
size_t CudaInnerProductBackwardScratch(const OpDesc& query);

// Returns implementation "cublaslt": forward in one launch, with bias and ReLU; all else as
// "cublas". Only in builds with nvcc.
ImplementationPtr CublasLtInnerProductImplementation();

}  // namespace crema
