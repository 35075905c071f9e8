// The parameters that a net with an input "x" has learned, on the CPU or on the emulated GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/shape.h"
#include "runtime/session.h"
#include "support/gpu.h"
#include "support/net.h"

namespace crema::test {

struct Learnt {
  double loss = 0;
  std::vector<std::vector<float>> gradients, statistics;
};

// Runs two passes. `shape` is that of "x", if it is smaller than planned.
inline Learnt Learn(const std::shared_ptr<const Plan>& plan, uint64_t seed,
                    const Shape& shape = {}) {
  const bool gpu = plan->options.device.type == DeviceType::kCuda;
  const auto weights = Weights::Make(*plan, 3);
  Session session(plan, weights, gpu ? GpuContext(3) : ExecContext(1, 3));
  if (shape.axes() > 0) session.Reshape("x", shape);
  FillInput(&session, "x", seed);
  Learnt learnt;
  for (int pass = 0; pass < 2; ++pass) {
    learnt.loss = session.Forward();
    session.ZeroParameterGradients();
    session.Backward();
  }
  session.ReturnStatistics();
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    const TensorView gradient = session.ParameterGradient(s);
    if (!gradient.empty()) learnt.gradients.push_back(ValuesOf(gradient));
    if (plan->parameters[s].statistic)
      learnt.statistics.push_back(ValuesOf(std::as_const(*weights).blob(s)));
  }
  return learnt;
}

}  // namespace crema::test
