#include "runtime/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillInput;
using test::PlanText;
using test::TestRegistry;
using test::ValuesOf;

// Fan-out, in-place layers, views and several losses: everything that shares memory.
const char* kSessionNet = R"(
name: "mixed"
force_backward: true
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 2 dim: 8 dim: 8 } } }
layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 3 dim: 5 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "sig" type: "Sigmoid" bottom: "pool" top: "sig" }
layer { name: "tanh" type: "TanH" bottom: "pool" top: "tanh" }
layer { name: "sum" type: "Eltwise" bottom: "sig" bottom: "tanh" bottom: "pool" top: "sum" }
layer { name: "flat" type: "Flatten" bottom: "sum" top: "flat" }
layer { name: "drop" type: "Dropout" bottom: "flat" top: "flat" }
layer { name: "ip" type: "InnerProduct" bottom: "flat" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "relu2" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "t" top: "loss" }
layer { name: "side" type: "Reduction" bottom: "ip" top: "side" loss_weight: 0.5 }
)";

struct SessionOutcome {
  double loss = 0;
  std::vector<std::vector<float>> results;
};

SessionOutcome RunOnce(const PlanOptions& options, int passes = 2) {
  const auto plan = PlanText(kSessionNet, TRAIN, options);
  const auto weights = Weights::Make(*plan, 7);
  Session session(plan, weights, ExecContext(options.threads, 7));
  SessionOutcome run;
  for (int pass = 0; pass < passes; ++pass) {
    FillInput(&session, "x", 1 + static_cast<uint64_t>(pass));
    FillInput(&session, "t", 2);
    run.loss = session.Forward();
    session.ZeroParameterGradients();
    session.Backward();
  }
  for (const char* blob : {"loss", "side"}) run.results.push_back(ValuesOf(session.Data(blob)));
  for (const char* blob : {"x", "t"}) run.results.push_back(ValuesOf(session.Gradient(blob)));
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    run.results.push_back(ValuesOf(session.ParameterGradient(s)));
  }
  return run;
}

void ExpectNear(const SessionOutcome& a, const SessionOutcome& b, float tolerance) {
  EXPECT_NEAR(a.loss, b.loss, tolerance);
  ASSERT_EQ(a.results.size(), b.results.size());
  for (size_t r = 0; r < a.results.size(); ++r) {
    ASSERT_EQ(a.results[r].size(), b.results[r].size());
    for (size_t i = 0; i < a.results[r].size(); ++i) {
      ASSERT_NEAR(a.results[r][i], b.results[r][i], tolerance) << "result " << r << " at " << i;
    }
  }
}

TEST(Session, SharedMemoryAndFusionChangeNothing) {
  ExpectNear(RunOnce({.optimize = true}), RunOnce({.optimize = false}), 1e-5F);
}

TEST(Session, OptimisedPlanIsSmaller) {
  const auto optimised = PlanText(kSessionNet, TRAIN, {.optimize = true});
  const auto plain = PlanText(kSessionNet, TRAIN, {.optimize = false});
  EXPECT_LT(optimised->arena_bytes, plain->arena_bytes);
  const auto inference = PlanText(kSessionNet, TEST, {.backward = false});
  EXPECT_LT(inference->arena_bytes, optimised->arena_bytes);
}

TEST(Session, SameBitsForTheSameThreadCount) {
  const SessionOutcome a = RunOnce({.threads = 2});
  const SessionOutcome b = RunOnce({.threads = 2});
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.results, b.results);
}

TEST(Session, ThreadCountChangesRoundingOnly) {
  ExpectNear(RunOnce({.threads = 1}), RunOnce({.threads = 3}), 1e-5F);
}

TEST(Session, NeverRunsMoreThreadsThanThePlanBookedScratchFor) {
  const auto plan = PlanText(kSessionNet, TRAIN, {.threads = 2});
  EXPECT_EQ(Session(plan, Weights::Make(*plan, 1), ExecContext(8)).context().threads(), 2);
  EXPECT_EQ(Session(plan, Weights::Make(*plan, 1), ExecContext(1)).context().threads(), 1);
}

TEST(Session, TwoNetsInTwoThreads) {
  const SessionOutcome expected = RunOnce({.threads = 1});
  SessionOutcome a;
  SessionOutcome b;
  std::thread first([&] { a = RunOnce({.threads = 1}); });
  std::thread second([&] { b = RunOnce({.threads = 1}); });
  first.join();
  second.join();
  EXPECT_EQ(a.results, expected.results);
  EXPECT_EQ(b.results, expected.results);
}

TEST(Session, ManySessionsOverOnePlanAndOneSetOfWeights) {
  const auto plan = PlanText(kSessionNet, TEST, {.backward = false});
  const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 7);
  std::vector<double> losses(4);
  std::vector<std::thread> threads;
  for (double& loss : losses) {
    threads.emplace_back([&] {
      Session session(plan, weights, ExecContext(1, 7));
      FillInput(&session, "x", 1);
      FillInput(&session, "t", 2);
      for (int i = 0; i < 5; ++i) loss = session.Forward();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (double loss : losses) EXPECT_EQ(loss, losses[0]);
  EXPECT_NE(losses[0], 0);
}

// y is read by TanH's backward, so the ReLU after it must not overwrite it.
TEST(Session, InPlaceIsRefusedWhereBackwardStillReads) {
  const std::string net = R"(
force_backward: true
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 } } }
layer { name: "tanh" type: "TanH" bottom: "x" top: "y" }
layer { name: "relu" type: "ReLU" bottom: "y" top: "y" }
layer { name: "sum" type: "Reduction" bottom: "y" top: "s" loss_weight: 1 }
)";
  const auto plan = PlanText(net, TRAIN);
  EXPECT_FALSE(plan->layers[2].in_place);
  const auto inference = PlanText(net, TRAIN, {.backward = false});
  EXPECT_TRUE(inference->layers[2].in_place);

  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  const std::vector<float> x = {-1, -0.5F, 0.5F, 1};
  std::ranges::copy(x, session.MutableData("x").span<float>().begin());
  session.Forward();
  session.Backward();
  const std::vector<float> gradient = ValuesOf(session.Gradient("x"));
  for (size_t i = 0; i < x.size(); ++i) {
    const double y = std::tanh(x[i]);
    EXPECT_NEAR(gradient[i], x[i] > 0 ? 1 - y * y : 0, 1e-6);
  }
}

TEST(Session, NoAllocationAfterTheFirstIteration) {
  // The arena is the only allocator of a session: it must not be called again.
  class Counting final : public Allocator {
   public:
    Device device() const override { return {}; }
    void* Allocate(size_t bytes) override {
      ++calls;
      return CpuAllocator().Allocate(bytes);
    }
    void Free(void* pointer, size_t bytes) noexcept override {
      CpuAllocator().Free(pointer, bytes);
    }
    int calls = 0;
  };
  Counting allocator;
  const auto plan = PlanText(kSessionNet, TRAIN);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(nullptr, allocator, 1));
  const int before = allocator.calls;
  EXPECT_GT(before, 0);
  for (int i = 0; i < 3; ++i) {
    session.Forward();
    session.Backward();
  }
  EXPECT_EQ(allocator.calls, before);
}

TEST(Session, OutOfMemoryIsAnError) {
  class Refusing final : public Allocator {
   public:
    Device device() const override { return {}; }
    void* Allocate(size_t bytes) override {
      if (left-- <= 0) Fail(ErrorCode::kOutOfMemory, StrCat("out of memory: ", bytes));
      return CpuAllocator().Allocate(bytes);
    }
    void Free(void* pointer, size_t bytes) noexcept override {
      CpuAllocator().Free(pointer, bytes);
    }
    int left = 0;
  };
  const auto plan = PlanText(kSessionNet, TRAIN);
  const auto weights = Weights::Make(*plan, 1);
  for (int allowed = 0; allowed < 3; ++allowed) {
    Refusing allocator;
    allocator.left = allowed;
    try {
      Session session(plan, weights, ExecContext(nullptr, allocator, 1));
      FAIL() << "no error with " << allowed << " allocations";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    }
  }
}

TEST(Session, LossIsTheWeightedSum) {
  const auto plan = PlanText(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 } } }
layer { name: "a" type: "Reduction" bottom: "x" top: "a" loss_weight: 2 }
layer { name: "b" type: "Reduction" bottom: "x" top: "b" reduction_param { operation: SUMSQ } loss_weight: 0.5 }
)",
                             TRAIN);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  std::ranges::copy(std::vector<float>{1, 2, 3}, session.MutableData("x").span<float>().begin());
  EXPECT_DOUBLE_EQ(session.Forward(), 2 * 6 + 0.5 * 14);
}

TEST(Session, ErrorsOfRunningLayersNameTheLayer) {
  const auto plan = PlanText(R"(
layer { name: "x" type: "Input" top: "x" top: "label" input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "prob" type: "SoftmaxWithLoss" bottom: "x" bottom: "label" top: "loss" }
)",
                             TRAIN);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  session.MutableData("label").span<float>()[1] = 3;
  try {
    session.Forward();
    FAIL() << "a label outside the classes was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(std::string(error.what()).find("layer \"prob\": label 3"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace crema
