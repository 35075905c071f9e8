// One elementwise step of an LSTM, shared by LSTM and LSTMUnit. A row of 4 * size values holds the
// gates in Caffe's order i, f, o, g.
#pragma once

#include <cstdint>

#include "layers/recurrent/recurrent_gates.h"
#include "math/fast_exp.h"
#include "math/vectorize.h"

namespace crema {

// Elements [begin, end) of one row: `z` are the gates before activation, `gates` after (may alias
// z). `c_before` is multiplied by `cont`; null means zeros.
template <typename T>
CREMA_MULTIVERSION void LstmRowForward(int64_t size, int64_t begin, int64_t end, const T* z,
                                       const T* c_before, T cont, T* gates, T* c, T* h) {
#pragma GCC ivdep  // blobs that alias do so at equal indices
  for (int64_t d = begin; d < end; ++d) {
    const T i = FastSigmoid(z[d]);
    const T f = FastSigmoid(z[size + d]);
    const T o = FastSigmoid(z[2 * size + d]);
    const T g = FastTanh(z[3 * size + d]);
    gates[d] = i;
    gates[size + d] = f;
    gates[2 * size + d] = o;
    gates[3 * size + d] = g;
    const T before = c_before == nullptr ? T(0) : Masked(cont, c_before[d]);
    c[d] = f * before + i * g;
    h[d] = o * FastTanh(c[d]);
  }
}

// `dc` and `dh` are the gradients of c (without the part through h) and of h. Writes dz and
// dc_before, which may alias dc; null means not needed.
template <typename T>
CREMA_MULTIVERSION void LstmRowBackward(int64_t size, int64_t begin, int64_t end, const T* gates,
                                        const T* c, const T* c_before, T cont, const T* dc,
                                        const T* dh, T* dz, T* dc_before) {
#pragma GCC ivdep
  for (int64_t d = begin; d < end; ++d) {
    const T i = gates[d], f = gates[size + d], o = gates[2 * size + d], g = gates[3 * size + d];
    const T before = c_before == nullptr ? T(0) : Masked(cont, c_before[d]);
    const LstmSlopes<T> slopes = LstmBackward(i, f, o, g, before, FastTanh(c[d]), dc[d], dh[d]);
    if (dc_before != nullptr) dc_before[d] = Masked(cont, slopes.before);
    if (dz == nullptr) continue;
    dz[d] = slopes.i;
    dz[size + d] = slopes.f;
    dz[2 * size + d] = slopes.o;
    dz[3 * size + d] = slopes.g;
  }
}

}  // namespace crema
