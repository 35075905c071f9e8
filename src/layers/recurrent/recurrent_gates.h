// Elementwise gates of recurrent cells; R is float or double.
#pragma once

#include "core/host_device.h"

namespace crema {

// Returns a * b, or 0 if the factor a is 0, even if b is infinite or NaN.
template <typename R>
CREMA_HOST_DEVICE inline R Masked(R a, R b) {
  return a == R(0) ? R(0) : a * b;
}

// Gradients of the gates before activation, and of the previous cell without its factor.
template <typename R>
struct LstmSlopes {
  R i, f, o, g, before;
};

// `squashed` is tanh(c). `dc` and `dh` are the gradients of c (without the part through h) and of
// h.
template <typename R>
CREMA_HOST_DEVICE inline LstmSlopes<R> LstmBackward(R i, R f, R o, R g, R before, R squashed, R dc,
                                                    R dh) {
  const R cell = dc + dh * o * (R(1) - squashed * squashed);
  return {cell * g * i * (R(1) - i), cell * before * f * (R(1) - f), dh * squashed * o * (R(1) - o),
          cell * i * (R(1) - g * g), cell * f};
}

// Gradients of z and n before activation, and of h' without the part through the gates.
template <typename R>
struct GruSlopes {
  R z, n, before;
};

template <typename R>
CREMA_HOST_DEVICE inline GruSlopes<R> GruBackward(R z, R n, R before, R dh) {
  return {dh * (before - n) * z * (R(1) - z), dh * (R(1) - z) * (R(1) - n * n), dh * z};
}

}  // namespace crema
