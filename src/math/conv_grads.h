// Inputs and outputs of the backward pass of a convolution or an inner product.
#pragma once

namespace crema {

template <typename T>
struct ProductGrads {
  const T* x = nullptr;  // may be null where dweight is
  const T* y = nullptr;  // read where a ReLU is fused
  const T* dy = nullptr;
  const T* weight = nullptr;
  T* dx = nullptr;       // null: not needed; overwritten
  T* dweight = nullptr;  // null: not needed; added to
  T* dbias = nullptr;    // null: not needed; added to
};

using ConvGrads = ProductGrads<float>;

}  // namespace crema
