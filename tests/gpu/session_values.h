// Values and gradients of sessions on any device.
#pragma once

#include <vector>

#include "runtime/session.h"

namespace crema::test {

inline std::vector<float> HostValues(const Session& session, const ConstTensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.count()));
  session.Read(view, values.data());
  return values;
}

// Appends the gradients of one backward pass from zero, of the parameters that have one.
inline void AppendGradients(Session* session, std::vector<std::vector<float>>* gradients) {
  session->ZeroParameterGradients();
  session->Backward();
  for (size_t s = 0; s < session->plan().parameters.size(); ++s) {
    const TensorView gradient = session->ParameterGradient(s);
    if (!gradient.empty()) gradients->push_back(HostValues(*session, gradient));
  }
}

}  // namespace crema::test
