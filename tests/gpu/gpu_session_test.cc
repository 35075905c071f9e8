// Sessions on a GPU, or on a stand-in if there is none, compute the same as those on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "gpu/session_values.h"
#include "support/gpu.h"
#include "support/net.h"
#include "support/random_nets.h"
#include "support/solver_runs.h"

namespace crema {
namespace {

using test::ExpectNear;
using test::HostValues;
using test::Kind;
using test::NetMaker;
using test::PlanText;

PlanOptions OnGpu() { return {.device = {DeviceType::kCuda, 0}}; }
ExecContext Context(const PlanOptions& options) {
  return options.device.type == DeviceType::kCpu ? ExecContext(1, 3) : test::GpuContext(3);
}

std::vector<float> Drawn(size_t count, uint64_t seed) {
  const RandomStream stream(seed, 1);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(2 * stream.Uniform(i) - 1);
  return values;
}

struct SessionNumbers {
  std::vector<double> losses;
  std::vector<std::vector<float>> outputs, gradients, weights;
};

// Two iterations on an input 'x', if the net has one, whose shapes are given.
SessionNumbers RunNet(const std::string& text, const PlanOptions& options,
                      const std::vector<Shape>& shapes = {{}, {}}) {
  const auto plan = PlanText(text, TRAIN, options);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, Context(options));
  SessionNumbers numbers;
  for (uint64_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].axes() > 0) session.Reshape("x", shapes[i]);
    if (const TensorView x = session.MutableData("x"); !x.empty()) {
      session.Write(x, Drawn(static_cast<size_t>(x.count()), i).data());
    }
    numbers.losses.push_back(session.Forward());
    for (int v : plan->outputs) numbers.outputs.push_back(HostValues(session, session.DataOf(v)));
    test::AppendGradients(&session, &numbers.gradients);
  }
  session.ReturnStatistics();
  numbers.weights = test::ValuesOf(*weights);
  return numbers;
}

void ExpectSame(const std::string& text, const std::vector<Shape>& shapes = {{}, {}}) {
  const SessionNumbers cpu = RunNet(text, {.optimize = false}, shapes);
  const SessionNumbers gpu = RunNet(text, OnGpu(), shapes);
  ASSERT_EQ(cpu.losses.size(), gpu.losses.size());
  for (size_t i = 0; i < cpu.losses.size(); ++i) {
    ASSERT_NEAR(cpu.losses[i], gpu.losses[i], 1e-4 * (1 + std::abs(cpu.losses[i]))) << text;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectNear(cpu.outputs, gpu.outputs, 1e-3, text));
  ASSERT_NO_FATAL_FAILURE(ExpectNear(cpu.gradients, gpu.gradients, 5e-3, text));
  ASSERT_NO_FATAL_FAILURE(ExpectNear(cpu.weights, gpu.weights, 1e-4, text));
}

TEST(GpuSession, LearnsAsTheCpuDoes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    ASSERT_NO_FATAL_FAILURE(ExpectSame(NetMaker(seed, Kind::kSmooth).Make())) << seed;
  }
}

// They read to host memory first.
TEST(GpuSession, SourcesRunOnTheHost) {
  ExpectSame(R"(
layer { name: "d" type: "DummyData" top: "d" top: "label"
  dummy_data_param { shape { dim: 4 dim: 6 } shape { dim: 4 }
    data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "d" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)");
}

TEST(GpuSession, ReshapesBetweenPasses) {
  const std::string text = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "r" type: "ReLU" bottom: "a" top: "r" }
layer { name: "loss" type: "Reduction" bottom: "r" top: "loss" loss_weight: 1
  reduction_param { operation: SUMSQ } }
)";
  ExpectSame(text, {{4, 6}, {2, 6}, {3, 6}});
}

TEST(GpuSession, RefusesAPlanForTheCpu) {
  const auto plan = PlanText(NetMaker(1).Make());
  EXPECT_THROW(Session(plan, Weights::Make(*plan, 3), test::GpuContext(1)), Error);
}

}  // namespace
}  // namespace crema
