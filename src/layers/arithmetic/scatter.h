// Scatter: picks, and the gradients of the updates that meet one element. See scatter.cc.
#pragma once

#include "core/host_device.h"
#include "crema.pb.h"
#include "layers/arithmetic/picks.h"

namespace crema {

// Returns the picks of a Scatter. Throws if the shapes of x and the index do not fit.
Picks ScatterPicks(const Layer& layer, const Shape& x, const Shape& index);

// Returns the element `to` after `update` met it.
template <typename T>
CREMA_HOST_DEVICE inline T Scattered(ScatterParameter::Reduction reduction, T to, T update) {
  switch (reduction) {
    case ScatterParameter::ADD:
      return to + update;
    case ScatterParameter::MUL:
      return to * update;
    case ScatterParameter::MAX:
      return update > to ? update : to;
    case ScatterParameter::MIN:
      return update < to ? update : to;
    default:
      return update;
  }
}

// The gradients of one element and of the `count` updates that meet it, in order. With Number =
// float or double, Updates has
//   Number Update(int64_t k), void Write(int64_t k, Number gradient), called for each k once
// Returns the gradient of the element, whose value is x; those of its result are dy.
template <typename Number, typename Updates>
CREMA_HOST_DEVICE Number ScatterGradient(ScatterParameter::Reduction reduction, int64_t count,
                                         Number x, Number dy, const Updates& updates) {
  if (reduction == ScatterParameter::ADD) {
    for (int64_t k = 0; k < count; ++k) updates.Write(k, dy);
    return dy;
  }
  if (reduction == ScatterParameter::MUL) {
    Number product = 1;  // of all updates that are not 0
    int64_t zeros = 0;
    for (int64_t k = 0; k < count; ++k) {
      const Number update = updates.Update(k);
      if (update == 0) {
        ++zeros;
      } else {
        product *= update;
      }
    }
    for (int64_t k = 0; k < count; ++k) {
      const Number update = updates.Update(k);
      const Number others = zeros == 0 ? product / update : zeros == 1 && update == 0 ? product : 0;
      updates.Write(k, dy * x * others);
    }
    return zeros == 0 ? dy * product : 0;
  }
  // One of them is the result: the last update, or the first extreme one. -1: x.
  int64_t winner = count - 1;
  if (reduction != ScatterParameter::NONE) {
    Number best = x;
    winner = -1;
    for (int64_t k = 0; k < count; ++k) {
      const Number next = Scattered(reduction, best, updates.Update(k));
      if (next != best) winner = k;
      best = next;
    }
  }
  for (int64_t k = 0; k < count; ++k) updates.Write(k, k == winner ? dy : 0);
  return winner < 0 ? dy : 0;
}

}  // namespace crema
