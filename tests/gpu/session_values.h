// Values and gradients of sessions on any device, and their distance.
#pragma once

#include <algorithm>
#include <cmath>
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

// Returns |a - b| over |a|.
inline double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{a[i]}, 2);
  }
  return std::sqrt(difference / std::max(size, 1e-12));
}

}  // namespace crema::test
