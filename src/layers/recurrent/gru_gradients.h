// Scratch memory of the backward pass of GRU, on any device.
#pragma once

#include "layers/recurrent/sequence_pass.h"

namespace crema {

template <typename T>
struct GruGradients {
  explicit GruGradients(const BackwardPass<T>& pass)
      : dz(pass.scratch),
        dproduct(dz + pass.extent.rows() * 3 * pass.extent.hidden),
        before(dproduct + pass.extent.rows() * pass.extent.hidden),
        factor(before + pass.extent.rows() * pass.extent.hidden),
        dh(factor + pass.extent.rows() * pass.extent.hidden),
        dreset(dh + pass.extent.state()) {}

  T* dz;        // gradients of the gates before activation
  T* dproduct;  // gradient of the product of W_hn and `factor`
  T* before;    // h'
  T* factor;    // without reset_after: r h'
  T* dh;        // for one step
  T* dreset;    // gradient of r h', for one step
};

}  // namespace crema
