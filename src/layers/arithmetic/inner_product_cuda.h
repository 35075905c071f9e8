// The implementations of InnerProduct on GPUs.
#pragma once

#include "graph/implementation.h"

namespace crema {

// The matrices of a layer: the input is rows x depth, the output rows x columns.
struct InnerProductSizes {
  InnerProductSizes(const Layer& layer, const Shape& input);

  bool transpose, bias, relu;
  float slope;  // of the fused ReLU
  int64_t rows, depth, columns;
};

// Implementation "cublas".
void CudaInnerProductForward(const Layer& layer, const ForwardArgs& args);
void CudaInnerProductBackward(const Layer& layer, const BackwardArgs& args);
// Room for the gradient behind the fused ReLU, in bytes.
size_t CudaInnerProductBackwardScratch(const OpDesc& query);

// Implementation "cublaslt": forward in one launch, with bias and ReLU; all else as "cublas". Only
// there where nvcc compiles.
ImplementationPtr CublasLtInnerProductImplementation();

}  // namespace crema
