// The update rule of docs/development/add_an_update_rule.md. The step of a built-in rule is in
// solvers/rules/steps.h, and its entry in solvers/rules/rules.cc.
#pragma once

#include "solvers/rules/steps.h"
#include "solvers/rules/update_pass.h"

namespace crema {

// Signum (Bernstein et al., arXiv:1802.04434).
//   h = m h + (1 - m) g;  w = w - r sign(h)
template <typename T>
struct SignumStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kInGradient;
  T momentum;
  T rate;

  SignumStep(const UpdateArgs& args, const BlobUpdate& blob)
      : momentum(static_cast<T>(args.momentum)), rate(static_cast<T>(blob.rate)) {}

  CREMA_HOST_DEVICE T operator()(T w, T g, T& h) const {
    h = momentum * h + (1 - momentum) * g;
    return w - rate * Sign(h);
  }
};

}  // namespace crema
