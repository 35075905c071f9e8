// The update rules for one weight, on both devices. A Step<T> is made from the numbers of an update
// and of a blob; then
//   T operator()(T w, T g, T& h) const          or (T w, T g, T& h, T& k) with two histories
// updates the history of one weight and returns the new weight. In all formulas
//   w  weight           g  gradient as in UpdateArgs      r  learning rate times lr_mult
//   m  momentum         d  delta                          t  iteration + 1
//   D  weight_decay times decay_mult, for the rules that decouple it; the others have it in g
// Defaults of fields are the schema's unless stated otherwise.
#pragma once

#include <cmath>
#include <cstddef>

#include "core/host_device.h"
#include "solvers/rules/gradient.h"
#include "solvers/update_rule.h"

namespace crema {

// SGD, in Caffe's form: the rate is inside h.
//   h = m h + r g;  w = w - h
template <typename T>
struct SgdStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kInGradient;
  T momentum;
  T rate;

  SgdStep(const UpdateArgs& args, const BlobUpdate& blob)
      : momentum(static_cast<T>(args.momentum)), rate(static_cast<T>(blob.rate)) {}

  CREMA_HOST_DEVICE T operator()(T w, T g, T& h) const {
    h = momentum * h + rate * g;
    return w - h;
  }
};

// Nesterov's momentum (Sutskever et al., ICML 2013), in Caffe's form.
//   h' = m h + r g;  w = w - ((1 + m) h' - m h)
template <typename T>
struct NesterovStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kInGradient;
  T momentum;
  T rate;

  NesterovStep(const UpdateArgs& args, const BlobUpdate& blob)
      : momentum(static_cast<T>(args.momentum)), rate(static_cast<T>(blob.rate)) {}

  CREMA_HOST_DEVICE T operator()(T w, T g, T& h) const {
    const T before = h;
    h = momentum * h + rate * g;
    return w - ((1 + momentum) * h - momentum * before);
  }
};

// AdaGrad (Duchi et al., JMLR 12, 2011). momentum must be 0.
//   h = h + g^2;  w = w - r g / (sqrt(h) + d)
template <typename T>
struct AdaGradStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kInGradient;
  T rate;
  T delta;

  AdaGradStep(const UpdateArgs& args, const BlobUpdate& blob)
      : rate(static_cast<T>(blob.rate)), delta(static_cast<T>(args.param.delta())) {}

  CREMA_HOST_DEVICE T operator()(T w, T g, T& h) const {
    h += g * g;
    return w - rate * g / (std::sqrt(h) + delta);
  }
};

// RMSProp (Tieleman and Hinton, 2012). p = rms_decay in [0, 1); momentum must be 0.
//   h = p h + (1 - p) g^2;  w = w - r g / (sqrt(h) + d)
template <typename T>
struct RmsPropStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kInGradient;
  T rate;
  T keep;  // rms_decay
  T delta;

  RmsPropStep(const UpdateArgs& args, const BlobUpdate& blob)
      : rate(static_cast<T>(blob.rate)),
        keep(static_cast<T>(args.param.rms_decay())),
        delta(static_cast<T>(args.param.delta())) {}

  CREMA_HOST_DEVICE T operator()(T w, T g, T& h) const {
    h = keep * h + (1 - keep) * (g * g);
    return w - rate * g / (std::sqrt(h) + delta);
  }
};

// AdaDelta (Zeiler, arXiv:1212.5701). The paper has r = 1.
//   h = m h + (1 - m) g^2;  u = g sqrt((k + d) / (h + d));  k = m k + (1 - m) u^2;  w = w - r u
template <typename T>
struct AdaDeltaStep {
  static constexpr size_t kHistories = 2;
  static constexpr Decay kDecay = Decay::kInGradient;
  T keep;  // momentum
  T rate;
  T delta;

  AdaDeltaStep(const UpdateArgs& args, const BlobUpdate& blob)
      : keep(static_cast<T>(args.momentum)),
        rate(static_cast<T>(blob.rate)),
        delta(static_cast<T>(args.param.delta())) {}

  CREMA_HOST_DEVICE T operator()(T w, T g, T& gradients, T& updates) const {
    gradients = keep * gradients + (1 - keep) * (g * g);
    const T u = g * std::sqrt((updates + delta) / (gradients + delta));
    updates = keep * updates + (1 - keep) * (u * u);
    return w - rate * u;
  }
};

// Adam (Kingma and Ba, arXiv:1412.6980), b = momentum2, in Caffe's form: d is added to the root
// before its bias is corrected.
//   h = m h + (1 - m) g;  v = b v + (1 - b) g^2
//   w = w - r sqrt(1 - b^t) / (1 - m^t) h / (sqrt(v) + d)
template <typename T>
struct AdamStep {
  static constexpr size_t kHistories = 2;
  static constexpr Decay kDecay = Decay::kInGradient;
  Moments<T> moments;
  T rate;
  T delta;

  AdamStep(const UpdateArgs& args, const BlobUpdate& blob)
      : moments(args), delta(static_cast<T>(args.param.delta())) {
    const BiasCorrection bias(args);
    rate = static_cast<T>(blob.rate * std::sqrt(bias.second) / bias.first);
  }

  CREMA_HOST_DEVICE T operator()(T w, T g, T& mean, T& square) const {
    moments.Add(g, mean, square);
    return w - rate * mean / (std::sqrt(square) + delta);
  }
};

// AdamW (Loshchilov and Hutter, arXiv:1711.05101), h and v as for Adam. momentum unset: 0.9.
//   w = w - r D w - r (h / (1 - m^t)) / (sqrt(v / (1 - b^t)) + d)
template <typename T>
struct AdamWStep {
  static constexpr size_t kHistories = 2;
  static constexpr Decay kDecay = Decay::kDecoupled;
  Moments<T> moments;
  T keep;         // the factor by which decay shrinks a weight
  T rate;         // over the bias of the mean
  T root_factor;  // 1 over the root of the bias of the square
  T delta;

  AdamWStep(const UpdateArgs& args, const BlobUpdate& blob)
      : moments(args),
        keep(static_cast<T>(1 - blob.rate * blob.decay)),
        delta(static_cast<T>(args.param.delta())) {
    const BiasCorrection bias(args);
    rate = static_cast<T>(blob.rate / bias.first);
    root_factor = static_cast<T>(1 / std::sqrt(bias.second));
  }

  CREMA_HOST_DEVICE T operator()(T w, T g, T& mean, T& square) const {
    moments.Add(g, mean, square);
    return keep * w - rate * mean / (std::sqrt(square) * root_factor + delta);
  }
};

// Lion (Chen et al., arXiv:2302.06675), b = momentum2. Unset: momentum 0.9, momentum2 0.99.
//   w = w - r (sign(m h + (1 - m) g) + D w);  h = b h + (1 - b) g
template <typename T>
struct LionStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kDecoupled;
  T direction_keep;  // momentum
  T history_keep;    // momentum2
  T rate;
  T keep;  // the factor by which decay shrinks a weight

  LionStep(const UpdateArgs& args, const BlobUpdate& blob)
      : direction_keep(static_cast<T>(args.momentum)),
        history_keep(
            static_cast<T>(args.param.has_momentum2() ? double{args.param.momentum2()} : 0.99)),
        rate(static_cast<T>(blob.rate)),
        keep(static_cast<T>(1 - blob.rate * blob.decay)) {}

  CREMA_HOST_DEVICE T operator()(T w, T g, T& h) const {
    const T direction = direction_keep * h + (1 - direction_keep) * g;
    h = history_keep * h + (1 - history_keep) * g;
    return keep * w - rate * Sign(direction);
  }
};

}  // namespace crema
