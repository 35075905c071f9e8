// Inputs and outputs of the backward pass of a convolution in single precision.
#pragma once

namespace crema {

struct ConvGrads {
  const float* x = nullptr;  // may be null where dweight is
  const float* y = nullptr;  // read where a ReLU is fused
  const float* dy = nullptr;
  const float* weight = nullptr;
  float* dx = nullptr;       // null: not needed; overwritten
  float* dweight = nullptr;  // null: not needed; added to
  float* dbias = nullptr;    // null: not needed; added to
};

}  // namespace crema
