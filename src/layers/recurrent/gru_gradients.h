// Scratch memory of the backward pass of GRU, on any device.
#pragma once

#include "layers/recurrent/sequence_pass.h"

namespace crema {

template <typename T>
struct GruGradients {
  explicit GruGradients(const BackwardPass<T>& pass)
      : dz(pass.scratch),
        dproduct(dz + pass.sizes.rows() * 3 * pass.sizes.hidden),
        before(dproduct + pass.sizes.rows() * pass.sizes.hidden),
        factor(before + pass.sizes.rows() * pass.sizes.hidden),
        dh(factor + pass.sizes.rows() * pass.sizes.hidden),
        dreset(dh + pass.sizes.state()) {}

  T* dz;        // gradients of the gates before activation
  T* dproduct;  // gradient of the product of W_hn and `factor`
  T* before;    // h'
  T* factor;    // without reset_after: r h'
  T* dh;        // for one step
  T* dreset;    // gradient of r h', for one step
};

}  // namespace crema
