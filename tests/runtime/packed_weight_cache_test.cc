// Sessions that share packed weights compute the same as sessions that do not.
#include "runtime/packed_weight_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "crema.pb.h"
#include "runtime/session.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillInput;
using test::PlanText;
using test::ValuesOf;

// Implementations that pack weights: 1 x 1 filters, 3 x 3 ones by Winograd's algorithm if there
// is AVX-512, with what they fuse, and products of several implementations. Ranges are for INT8
// alone.
std::string NetOf(int batch, const std::string& precision) {
  const std::string ranges = " int8 { bottom { max: 3 } top { max: 3 } }";
  return "precision: " + precision +
         " layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: " +
         std::to_string(batch) + R"( dim: 32 dim: 28 dim: 28 } } int8 { top { max: 3 } } }
layer { name: "point" type: "Convolution" bottom: "x" top: "point"
  convolution_param { num_output: 64 kernel_size: 1 weight_filler { type: "xavier" } })" +
         ranges + R"( }
layer { name: "relu" type: "ReLU" bottom: "point" top: "point")" +
         ranges + R"( }
layer { name: "wide" type: "Convolution" bottom: "point" top: "wide"
  convolution_param { num_output: 64 kernel_size: 3 pad: 1 bias_term: false
                      weight_filler { type: "xavier" } })" +
         ranges + R"( }
layer { name: "scale" type: "Scale" bottom: "wide" top: "wide" scale_param { bias_term: true
  filler { type: "gaussian" std: 1 } bias_filler { type: "gaussian" std: 1 } })" +
         ranges + R"( }
layer { name: "pool" type: "Pooling" bottom: "wide" top: "pool"
  pooling_param { pool: AVE kernel_size: 7 stride: 7 })" +
         ranges + R"( }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "y"
  inner_product_param { num_output: 96 weight_filler { type: "xavier" } })" +
         ranges + " }";
}

// By layer; those with packed weights.
class Keepers final : public LayerObserver {
 public:
  explicit Keepers(const Plan& plan) : plan_(plan) {}
  void AfterForward(size_t layer, const ForwardArgs& args) override {
    const auto* state = dynamic_cast<const HasPackedWeights*>(args.implementation_state);
    if (state != nullptr) kept[plan_.layers[layer].name()] = state->ExportPacked().get();
  }
  std::map<std::string, const PackedWeights*> kept;

 private:
  const Plan& plan_;
};

struct Running {
  Running(const std::string& precision, int batch, const std::shared_ptr<const Weights>& weights)
      : plan(PlanText(NetOf(batch, precision), TEST, {.threads = 2, .backward = false})),
        session(plan, weights, ExecContext(2)),
        keepers(*plan) {
    session.FixWeights();
    session.set_observer(&keepers);
  }
  std::vector<float> Run() {
    FillInput(&session, "x", 1);
    session.Forward();
    return ValuesOf(session.Data("y"));
  }

  std::shared_ptr<const Plan> plan;
  Session session;
  Keepers keepers;
};

class PackedWeightCacheOf : public testing::TestWithParam<const char*> {
 protected:
  const std::string precision = GetParam();
  const std::shared_ptr<const Weights> weights =
      Weights::Make(*PlanText(NetOf(4, precision), TEST, {.threads = 2, .backward = false}), 3);
  PackedWeightCache pool;
};
INSTANTIATE_TEST_SUITE_P(Precisions, PackedWeightCacheOf, testing::Values("FP32", "BF16", "INT8"));

TEST_P(PackedWeightCacheOf, SessionsOfOnePlanHaveTheSameMemory) {
  auto first = std::make_unique<Running>(precision, 4, weights);
  const std::vector<float> expected = first->Run();
  if (first->keepers.kept.empty()) GTEST_SKIP() << "no implementation of this build keeps anything";
  first->session.SharePacked(&pool);
  Running early(precision, 4, weights);  // before its first pass
  early.session.SharePacked(&pool);
  Running late(precision, 4, weights);  // after it
  EXPECT_EQ(late.Run(), expected);
  EXPECT_NE(late.keepers.kept, first->keepers.kept);
  late.session.SharePacked(&pool);
  for (Running* other : {&early, &late}) {
    EXPECT_EQ(other->Run(), expected);
    EXPECT_EQ(other->keepers.kept, first->keepers.kept);
  }
  EXPECT_GE(first->keepers.kept.size(), 3U);
  for (const auto& [layer, kept] : first->keepers.kept) EXPECT_NE(kept, nullptr) << layer;
  first.reset();  // its packed weights stay
  EXPECT_EQ(early.Run(), expected);
  EXPECT_EQ(late.Run(), expected);
}

TEST_P(PackedWeightCacheOf, OtherShapesTakeWhatFits) {
  Running four(precision, 4, weights);
  four.Run();
  four.session.SharePacked(&pool);
  for (const int batch : {1, 2, 7}) {
    Running alone(precision, batch, weights);
    Running shares(precision, batch, weights);
    shares.session.SharePacked(&pool);
    EXPECT_EQ(shares.Run(), alone.Run()) << batch;
    shares.session.SharePacked(&pool);
    EXPECT_EQ(shares.Run(), alone.Run()) << batch;
  }
}

TEST_P(PackedWeightCacheOf, KeepsNothingAlive) {
  {
    Running gone(precision, 4, weights);
    gone.Run();
    gone.session.SharePacked(&pool);
  }
  Running next(precision, 4, weights);
  next.session.SharePacked(&pool);
  const std::vector<float> expected = next.Run();
  next.session.SharePacked(&pool);
  EXPECT_EQ(next.Run(), expected);
}

}  // namespace
}  // namespace crema
