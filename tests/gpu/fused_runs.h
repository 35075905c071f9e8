// Nets with a BatchNorm "bn" on a GPU or its emulation: with following layers fused, and separate.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/shape.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "gpu/session_values.h"
#include "support/gpu.h"
#include "support/net.h"
#include "support/solver_runs.h"

namespace crema::test {

struct Numbers {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients, weights;
};

// Into an input of the net, if it is one.
inline void Draw(Session* session, const std::string& input, uint64_t pass) {
  const Plan& plan = session->plan();
  const int v = plan.FindFirstValue(input);
  if (v < 0 ||
      plan.layers[static_cast<size_t>(plan.values[static_cast<size_t>(v)].producer)].type->name !=
          "Input") {
    return;
  }
  const TensorView blob = session->MutableData(input);
  const RandomStream stream(pass, HashName(input));
  std::vector<float> drawn(static_cast<size_t>(blob.count()));
  for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = static_cast<float>(stream.Gaussian(i));
  session->Write(blob, drawn.data());
}

inline const PlannedLayer& Norm(const Plan& plan) {
  return *std::ranges::find_if(plan.layers, [](const auto& l) { return l.name() == "bn"; });
}

// Runs two passes over Gaussian inputs. `fused` is the number of layers that "bn" must fuse.
// `shape` is that of "x", if it is smaller than planned.
inline Numbers RunNet(const std::string& net, Phase phase, Precision precision, size_t fused,
                      const Shape& shape = {}) {
  PlanOptions options{.device = {DeviceType::kCuda, 0}, .precision = precision};
  options.backward = phase == TRAIN;
  options.passes.fuse = fused > 0;
  // Without cuDNN: its convolutions would fuse "bn" themselves.
  const auto plan = PlanText(net, phase, options, LayersOfStandIn());
  EXPECT_EQ(Norm(*plan).fusion.followers.size(), fused) << net;
  // Small blobs are not worth the conversions.
  if (precision != FP32 && Norm(*plan).info.outputs[0].shape.count() > 10000) {
    EXPECT_EQ(Norm(*plan).implementation->name, precision == BF16 ? "cuda bf16" : "cuda f16")
        << net;
  }
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, GpuContext(3));
  if (shape.axes() > 0) session.Reshape("x", shape);
  Numbers numbers;
  for (uint64_t pass = 0; pass < 2; ++pass) {
    for (const char* input : {"x", "z"}) Draw(&session, input, pass);
    numbers.losses.push_back(session.Forward());
    if (phase == TEST) continue;
    AppendGradients(&session, &numbers.gradients);
  }
  session.ReturnStatistics();
  numbers.weights = ValuesOf(*weights);
  return numbers;
}

inline double Norm2(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += double{v} * double{v};
  return std::sqrt(sum);
}

// Blobs of halves are rounded between layers that are apart, and not within those in one.
inline void ExpectClose(const std::vector<std::vector<float>>& a,
                        const std::vector<std::vector<float>>& b, double tolerance,
                        const std::string& net) {
  ASSERT_EQ(a.size(), b.size()) << net;
  double whole = 0;
  for (const auto& values : a) whole = std::max(whole, Norm2(values));
  for (size_t k = 0; k < a.size(); ++k) {
    std::vector<float> apart = a[k];
    for (size_t i = 0; i < apart.size(); ++i) apart[i] -= b[k][i];
    // A bias before BatchNorm has a gradient of 0, except for rounding.
    EXPECT_LE(Norm2(apart), tolerance * (Norm2(a[k]) + 0.02 * whole)) << k << ' ' << net;
  }
}

// Expects that two ways to compute a net agree.
inline void ExpectSame(const Numbers& apart, const Numbers& fused, double tolerance,
                       const std::string& net) {
  for (size_t i = 0; i < apart.losses.size(); ++i) {
    EXPECT_NEAR(fused.losses[i], apart.losses[i], tolerance * (0.1 + std::abs(apart.losses[i])))
        << net;
  }
  ExpectClose(apart.gradients, fused.gradients, tolerance, net);
  ExpectClose(apart.weights, fused.weights, tolerance, net);
}

inline double ToleranceOf(Precision precision) {
  return precision == FP32 ? 1e-4 : precision == BF16 ? 0.04 : 0.005;
}

}  // namespace crema::test
