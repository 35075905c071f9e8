// Products of rows with a weight matrix, with bias and ReLU, and their gradients, on the CPU: those
// of InnerProduct, and of convolutions with few outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "math/bias_activation.h"
#include "math/conv_grads.h"

namespace crema {

// All matrices are row-major, without gaps: X is rows x inputs, Y is rows x outputs.
struct InnerProductSize {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  bool transposed = false;  // the weights are inputs x outputs, otherwise outputs x inputs
};

// Y = relu(X W^T + bias); `bias` may be null. T is float or double. Thread safety: any.
template <typename T>
void InnerProductForward(int threads, const InnerProductSize& size, const T* x, const T* weight,
                         const T* bias, FusedRelu relu, T* y);

// Returns the bytes of scratch of InnerProductBackward.
template <typename T>
size_t InnerProductBackwardScratch(const InnerProductSize& size, FusedRelu relu);

// Computes dX = dY W, adds dY^T X to dW, and the column sums of dY to db. Thread safety: any, with
// scratch of its own.
template <typename T>
void InnerProductBackward(int threads, const InnerProductSize& size, FusedRelu relu,
                          const ProductGrads<T>& grads, std::span<std::byte> scratch);

}  // namespace crema
