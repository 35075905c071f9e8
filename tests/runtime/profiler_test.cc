// The contents of a profile; times are not tested.
#include "runtime/profiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "runtime/roofline.h"
#include "runtime/session.h"
#include "support/net.h"

namespace crema {
namespace {

constexpr const char* kProfiledNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "x" top: "ip1" inner_product_param { num_output: 5 } }
layer { name: "flat" type: "Flatten" bottom: "ip1" top: "flat" }
layer { name: "ip2" type: "InnerProduct" bottom: "flat" top: "ip2" inner_product_param { num_output: 2 } }
layer { name: "sigmoid" type: "Sigmoid" bottom: "ip2" top: "sigmoid" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "sigmoid" bottom: "label" top: "loss" }
)";

Profile ProfileText(const std::string& text, Phase phase, const ProfileOptions& options) {
  const auto plan = test::PlanText(text, phase, {.backward = phase == TRAIN});
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  return ProfileSession(&session, options);
}

// Returns the layer of this name; fails the test if there is none.
LayerProfile Find(const Profile& profile, const Plan& plan, const std::string& name) {
  for (const LayerProfile& layer : profile.layers) {
    if (plan.layers[layer.layer].name() == name) return layer;
  }
  ADD_FAILURE() << "no layer " << name;
  return {};
}

TEST(Profiler, HasEveryLayerThatRunsAndAsManyRunsAsAsked) {
  const auto plan = test::PlanText(kProfiledNet, TRAIN);
  const Profile profile = ProfileText(kProfiledNet, TRAIN, {.iterations = 7, .warmup = 2});
  std::vector<std::string> names;
  for (const LayerProfile& layer : profile.layers) {
    names.push_back(plan->layers[layer.layer].name());
    EXPECT_EQ(layer.forward.runs.size(), 7U) << names.back();
    const size_t backward = plan->layers[layer.layer].backward ? 7 : 0;
    EXPECT_EQ(layer.backward.runs.size(), backward) << names.back();
  }
  // A view (flat) does not run.
  EXPECT_EQ(names, (std::vector<std::string>{"x", "label", "ip1", "ip2", "sigmoid", "loss"}));
  EXPECT_EQ(profile.forward.runs.size(), 7U);
  EXPECT_EQ(profile.backward.runs.size(), 7U);
  EXPECT_EQ(profile.batch, 4);
  EXPECT_GT(profile.images_per_second(), 0);
}

TEST(Profiler, CountsProductsAndBytes) {
  const auto plan = test::PlanText(kProfiledNet, TRAIN);
  const Profile profile = ProfileText(kProfiledNet, TRAIN, {.iterations = 1, .warmup = 0});
  const LayerProfile ip1 = Find(profile, *plan, "ip1");
  EXPECT_EQ(ip1.forward.macs, 4 * 3 * 5);
  EXPECT_EQ(ip1.forward.bytes, 4 * (4 * 3 + 4 * 5 + 5 * 3 + 5));
  // The gradient of x is not needed: one product for the weights.
  EXPECT_EQ(ip1.backward.macs, 4 * 3 * 5);
  const LayerProfile ip2 = Find(profile, *plan, "ip2");
  EXPECT_EQ(ip2.backward.macs, 2 * 4 * 5 * 2);
  EXPECT_EQ(Find(profile, *plan, "x").forward.bytes, 0);
  EXPECT_EQ(Find(profile, *plan, "sigmoid").forward.bytes, 2 * 4 * 4 * 2);
  EXPECT_EQ(Find(profile, *plan, "sigmoid").forward.gflops(), 0);
  EXPECT_EQ(profile.forward.macs, 4 * 3 * 5 + 4 * 5 * 2);
  EXPECT_EQ(profile.iteration.macs, profile.forward.macs + profile.backward.macs);
}

TEST(Profiler, TimesOfLayersLieInsideTheirPass) {
  const Profile profile = ProfileText(kProfiledNet, TRAIN, {.iterations = 9, .warmup = 1});
  double inside = 0;
  for (const LayerProfile& layer : profile.layers) {
    inside += layer.total();
    for (size_t i = 0; i < layer.forward.runs.size(); ++i) {
      EXPECT_GE(layer.forward.runs[i].begin, profile.forward.runs[i].begin);
      EXPECT_LE(layer.forward.runs[i].end, profile.forward.runs[i].end);
    }
    for (size_t i = 0; i < layer.backward.runs.size(); ++i) {
      EXPECT_GE(layer.backward.runs[i].begin, profile.backward.runs[i].begin);
      EXPECT_LE(layer.backward.runs[i].end, profile.backward.runs[i].end);
    }
    EXPECT_LE(layer.forward.median, layer.forward.p95);
  }
  EXPECT_LE(inside, profile.total());
  EXPECT_NEAR(profile.iteration.total, profile.total(), 1e-9);
  for (size_t i = 1; i < profile.forward.runs.size(); ++i) {
    EXPECT_GE(profile.forward.runs[i].begin, profile.backward.runs[i - 1].end);
  }
}

TEST(Profiler, WithoutBackwardThereIsForwardOnly) {
  const Profile profile = ProfileText(kProfiledNet, TEST, {.iterations = 2, .warmup = 0});
  EXPECT_TRUE(profile.backward.runs.empty());
  EXPECT_EQ(profile.iteration.runs.size(), 2U);
  EXPECT_EQ(profile.total(), profile.forward.total);
}

TEST(Profiler, AsksTheHeapAroundEachLayer) {
  // Every question is answered with one allocation of 10 bytes more.
  HeapUse use;
  const auto plan = test::PlanText(kProfiledNet, TRAIN);
  const Profile profile =
      ProfileText(kProfiledNet, TRAIN, {.iterations = 3, .warmup = 1, .heap_use = [&] {
                                          ++use.allocations;
                                          use.bytes += 10;
                                          return use;
                                        }});
  EXPECT_TRUE(profile.heap_counted);
  const LayerProfile ip1 = Find(profile, *plan, "ip1");
  EXPECT_EQ(ip1.forward.heap.allocations, 3);
  EXPECT_EQ(ip1.backward.heap.bytes, 30);
  EXPECT_EQ(profile.iteration.heap.allocations,
            profile.forward.heap.allocations + profile.backward.heap.allocations);
  EXPECT_FALSE(ProfileText(kProfiledNet, TRAIN, {.iterations = 1}).heap_counted);
}

TEST(Profiler, RefusesWhatCannotBeTimed) {
  for (const ProfileOptions& options :
       {ProfileOptions{.iterations = 0}, ProfileOptions{.iterations = -3},
        ProfileOptions{.warmup = -1}, ProfileOptions{.iterations = int64_t{1} << 40}}) {
    EXPECT_THROW(ProfileText(kProfiledNet, TRAIN, options), Error);
  }
}

// Records events, and throws after a layer on request.
class ProfileListener final : public LayerObserver {
 public:
  void BeforeForward(size_t layer, const ForwardArgs&) override { Note("f", layer); }
  void AfterForward(size_t layer, const ForwardArgs& args) override {
    Note("F", layer);
    if (layer == throw_after) Fail(ErrorCode::kDiverged, "seen enough");
    outputs = args.outputs.size();
  }
  void BeforeBackward(size_t layer, const BackwardArgs&) override { Note("b", layer); }
  void AfterBackward(size_t layer, const BackwardArgs&) override { Note("B", layer); }

  std::string heard;
  size_t outputs = 0;
  size_t throw_after = 1000;

 private:
  void Note(const char* what, size_t layer) { heard += what + std::to_string(layer) + " "; }
};

TEST(LayerObserver, HearsOfLayersInTheirOrder) {
  const auto plan = test::PlanText(kProfiledNet, TRAIN);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  ProfileListener listener;
  session.set_observer(&listener);
  session.Forward();
  EXPECT_EQ(listener.heard, "f0 F0 f1 F1 f2 F2 f4 F4 f5 F5 f6 F6 ");
  EXPECT_EQ(listener.outputs, 1U);
  listener.heard.clear();
  session.Backward();
  EXPECT_EQ(listener.heard, "b6 B6 b5 B5 b4 B4 b2 B2 ");
  listener.heard.clear();
  session.set_observer(nullptr);
  session.Forward();
  EXPECT_EQ(listener.heard, "");
}

TEST(LayerObserver, WhatItThrowsEndsThePassAndNamesTheLayer) {
  const auto plan = test::PlanText(kProfiledNet, TRAIN);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  ProfileListener listener;
  listener.throw_after = 2;
  session.set_observer(&listener);
  try {
    session.Forward();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDiverged);
    EXPECT_EQ(error.problems().front().where.layer, "ip1");
  }
  EXPECT_EQ(listener.heard, "f0 F0 f1 F1 f2 F2 ");
}

TEST(Roofline, IsARate) {
  EXPECT_GT(MeasurePeakGflops(1), 0);
  EXPECT_GT(MeasurePeakGbs(2), 0);
}

}  // namespace
}  // namespace crema
