// One step of an LSTM, element by element; shared by LSTM and LSTMUnit. Gates lie in Caffe's order
// i, f, o, g in a row of 4 * size.
#pragma once

#include <cstdint>

#include "math/fast_exp.h"
#include "math/vectorize.h"

namespace crema {

// a * b, and 0 where the factor a is 0, whatever b is.
template <typename T>
inline T Masked(T a, T b) {
  return a == T(0) ? T(0) : a * b;
}

// Elements [begin, end) of one row: `z` are the gates before their activations, `gates` after
// (may be z). `c_before` null: zeros; it counts `cont` times.
template <typename T>
CREMA_MULTIVERSION void LstmRowForward(int64_t size, int64_t begin, int64_t end, const T* z,
                                       const T* c_before, T cont, T* gates, T* c, T* h) {
#pragma GCC ivdep  // what overlaps does so at one index
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

// `dc` and `dh` are the gradients of c (but for what comes through h) and of h. Writes dz and
// dc_before, which may be dc; null: not wanted.
template <typename T>
CREMA_MULTIVERSION void LstmRowBackward(int64_t size, int64_t begin, int64_t end, const T* gates,
                                        const T* c, const T* c_before, T cont, const T* dc,
                                        const T* dh, T* dz, T* dc_before) {
#pragma GCC ivdep
  for (int64_t d = begin; d < end; ++d) {
    const T i = gates[d], f = gates[size + d], o = gates[2 * size + d], g = gates[3 * size + d];
    const T before = c_before == nullptr ? T(0) : Masked(cont, c_before[d]);
    const T squashed = FastTanh(c[d]);
    const T cell = dc[d] + dh[d] * o * (T(1) - squashed * squashed);
    if (dc_before != nullptr) dc_before[d] = Masked(cont, cell * f);
    if (dz == nullptr) continue;
    dz[d] = cell * g * i * (T(1) - i);
    dz[size + d] = cell * before * f * (T(1) - f);
    dz[2 * size + d] = dh[d] * squashed * o * (T(1) - o);
    dz[3 * size + d] = cell * i * (T(1) - g * g);
  }
}

}  // namespace crema
