// Convolutions of the same input that are computed as one.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "runtime/inception_nets.h"
#include "support/net.h"
#include "support/random_nets.h"

namespace crema {
namespace {

using test::Concat;
using test::Conv;
using test::ExpectNear;
using test::FillInput;
using test::Input;
using test::PlanText;
using test::Pool;
using test::Relu;
using test::ValuesOf;

using Numbers = std::vector<std::vector<float>>;

// As GoogLeNet has it: the outputs of three filters of one pixel, of which one goes to the Concat.
std::string Module(const std::string& more = "") {
  return Input(1) + Conv("stem", "x", 32, 3) + Relu("stem") + Conv("a", "stem", 48, 1) + Relu("a") +
         Conv("b1", "stem", 32, 1) + Relu("b1") + Conv("b", "b1", 16, 3) + Relu("b") +
         Conv("c1", "stem", 16, 1) + Relu("c1") + Conv("c", "c1", 32, 5) + Relu("c") +
         Pool("d1", "stem", "MAX") + Conv("d", "d1", 16, 1) + Relu("d") +
         Concat("y", {"a", "b", "c", "d"}) + Conv("last", "y", 16, 1) + more;
}

PlanOptions Merging(int threads = 1, bool merges = true) {
  PlanOptions options{.threads = threads, .backward = false};
  options.passes.merge_siblings = merges;
  return options;
}

const PlannedLayer& Named(const Plan& plan, const std::string& name) {
  return *std::ranges::find(plan.layers, name, &PlannedLayer::name);
}

int MergedOf(const Plan& plan) {
  return static_cast<int>(
      std::ranges::count_if(plan.layers, [](const auto& l) { return l.merged_into >= 0; }));
}
int MergedOf(const std::string& text, const PlanOptions& options = Merging()) {
  return MergedOf(*PlanText(text, TEST, options));
}

class Net {
 public:
  Net(const std::string& text, const PlanOptions& options) : plan_(PlanText(text, TEST, options)) {
    weights_ = Weights::Make(*plan_, 3);
    session_ = Another();
  }

  const Plan& plan() const { return *plan_; }
  Weights& weights() { return *weights_; }
  Session& session() { return *session_; }
  std::unique_ptr<Session> Another() const {
    return std::make_unique<Session>(plan_, std::shared_ptr<const Weights>(weights_),
                                     ExecContext(plan_->options.threads, 3));
  }

  Numbers Run(uint64_t seed) { return Run(session_.get(), seed); }
  static Numbers Run(Session* session, uint64_t seed) {
    FillInput(session, "x", seed);
    session->Forward();
    Numbers numbers;
    for (int v : session->plan().outputs) numbers.push_back(ValuesOf(session->DataOf(v)));
    return numbers;
  }

 private:
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<Weights> weights_;
  std::unique_ptr<Session> session_;
};

void ExpectSameAsApart(const std::string& text, PlanOptions options = Merging(),
                       double tolerance = 1e-5) {
  Net net(text, options);
  options.passes.merge_siblings = false;
  Net apart(text, options);
  ASSERT_EQ(MergedOf(apart.plan()), 0);
  for (uint64_t seed : {5, 6, 7}) {
    ASSERT_NO_FATAL_FAILURE(ExpectNear(apart.Run(seed), net.Run(seed), tolerance, text));
    net.session().FixWeights();
  }
}

class MergedSiblings : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<Kernel>& rows = test::TestRegistry().Find("Convolution")->kernels;
    if (ChannelBlock() == 0 || std::ranges::find(rows, "onednn", &Kernel::name) == rows.end()) {
      GTEST_SKIP() << "no row of this build or processor takes blocked blobs";
    }
  }
};

TEST_F(MergedSiblings, LieBehindEachOtherAndInFrontOfTheConcat) {
  const auto plan = PlanText(Module(), TEST, Merging());
  const auto slot = [&](const char* name) {
    return plan->values[static_cast<size_t>(plan->FindValue(name))].data;
  };
  EXPECT_EQ(MergedOf(*plan), 2);
  EXPECT_EQ(Named(*plan, "a").merged.size(), 3U);
  EXPECT_EQ(slot("c1").offset, slot("b1").offset + slot("b1").bytes);
  EXPECT_EQ(slot("a").offset, slot("c1").offset + slot("c1").bytes);
  EXPECT_EQ(slot("y").offset, slot("a").offset);
  EXPECT_TRUE(Named(*plan, "y").joined);
  EXPECT_NE(DescribePlan(*plan).find("computed with a"), std::string::npos);
}

TEST_F(MergedSiblings, ComputeWhatEachAloneWould) {
  for (int threads : {1, 2}) {
    ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(Module(), Merging(threads)));
    PlanOptions bf16 = Merging(threads);
    bf16.precision = BF16;
    ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(Module(), bf16, 2e-2));
  }
}

TEST_F(MergedSiblings, TakeBatchNormAndScaleAlong) {
  std::string text = Input(1) + Conv("stem", "x", 32, 3);
  for (const char* name : {"a", "b"}) {
    text += Conv(name, "stem", 32, 1) +
            StrCat("layer { name: 'n", name, "' type: 'BatchNorm' bottom: '", name, "' top: '",
                   name, "' batch_norm_param { eps: 0.5 } }\n") +
            StrCat("layer { name: 's", name, "' type: 'Scale' bottom: '", name, "' top: '", name,
                   "' scale_param { filler { type: 'uniform' min: 0.5 max: 2 } bias_term: true "
                   "bias_filler { type: 'uniform' min: -1 max: 1 } } }\n") +
            Relu(name);
  }
  text += Pool("pa", "a", "MAX") + Conv("cb", "b", 16, 3);
  EXPECT_EQ(MergedOf(text), 1);
  ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, Merging(2)));
}

// Large enough that blocked blobs pay.
std::string Stem() { return Input(1, 32, 24) + Conv("stem", "x", 32, 3); }

TEST_F(MergedSiblings, WithLayersInPlaceBehindAndAsOutputs) {
  const std::string convs =
      Stem() + Conv("a", "stem", 16, 1) + Relu("a") + Conv("b", "stem", 48, 1) + Relu("b");
  for (const std::string& rest :
       {Conv("p", "a", 16, 3) + Conv("q", "b", 16, 3),
        Conv("p", "a", 16, 3) + Conv("q", "b", 16, 3) + Relu("b"), Conv("p", "b", 16, 3)}) {
    const std::string text = convs + rest;
    PlanOptions options = Merging(2);
    EXPECT_EQ(MergedOf(text, options), 1) << text;
    ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, options));
    options.passes.absorb = options.passes.fuse_relu = false;
    EXPECT_EQ(MergedOf(text, options), 1) << text;
    ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, options));
    options.passes.share_memory = false;
    ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, options));
  }
}

TEST_F(MergedSiblings, MayShareWeights) {
  const std::string share = "param { name: 'w' } param { name: 'b' }";
  const std::string text = Stem() + Conv("a", "stem", 32, 1, share) +
                           Conv("b", "stem", 32, 1, share) + Conv("p", "a", 16, 3) +
                           Conv("q", "b", 16, 3);
  EXPECT_EQ(MergedOf(text), 1);
  ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text));
}

TEST_F(MergedSiblings, StayApartWhereThatCannotBe) {
  const auto conv = [](const std::string& fields) {
    return "layer { name: 'b' type: 'Convolution' bottom: 'stem' top: 'b' convolution_param { "
           "kernel_size: 1 weight_filler { type: 'xavier' } " +
           fields + " } }\n";
  };
  const std::string head = Stem() + Conv("a", "stem", 16, 1);
  const std::string b = Conv("b", "stem", 32, 1);
  const std::string tail = Conv("p", "a", 16, 3) + Conv("q", "b", 16, 3);
  const std::string apart[] = {
      head + Conv("b", "stem", 24, 1) + tail,              // no whole blocks of channels
      head + Conv("b", "stem", 32, 3) + tail,              // larger filters
      head + Conv("b", "stem", 32, 1) + Relu("b") + tail,  // only one cuts off
      head + Conv("b", "a", 32, 1) + tail,                 // another input
      head + conv("num_output: 32 bias_term: false") + tail,
      head + conv("num_output: 16 stride: 2") + tail, head + conv("num_output: 16 pad: 1") + tail,
      head + conv("num_output: 32 group: 2") + tail,
      // The Concat would have to copy: both, the second, one whose sibling is read later.
      head + b + Concat("y", {"a", "b"}) + Conv("r", "y", 16, 3),
      head + b + Pool("p", "a", "AVE") + Concat("y", {"p", "b"}) + Conv("r", "y", 16, 3),
      head + b + Pool("p", "stem", "AVE") + Concat("y", {"b", "p"}) + Conv("r", "y", 16, 3) +
          Conv("q", "a", 16, 3)};
  for (const std::string& text : apart) {
    EXPECT_EQ(MergedOf(text), 0) << text;
    ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text));
  }
  EXPECT_EQ(MergedOf(head + b + tail), 1);
  EXPECT_EQ(MergedOf(Module(), Merging(1, false)), 0);
  PlanOptions learning = Merging();
  learning.backward = true;
  EXPECT_EQ(MergedOf(Module() + "layer { name: 'loss' type: 'Reduction' bottom: 'last' top: 'loss' "
                                "loss_weight: 1 }",
                     learning),
            0);
  std::string several = Module();
  several.replace(several.find("dim: 1 "), 7, "dim: 2 ");
  EXPECT_EQ(MergedOf(several), 0);
}

// Smaller images, other images, and the planned ones again.
void ExpectSameAtOtherExtents(const std::string& text, const PlanOptions& options) {
  Net net(text, options);
  PlanOptions alone = options;
  alone.passes.merge_siblings = false;
  Net apart(text, alone);
  const Shape planned = net.session().Data("x").shape();
  const Shape smaller = planned.With(2, planned[2] - 1);
  const Shape two = planned.With(0, 2).With(2, planned[2] / 2).With(3, planned[3] - 1);
  for (const Shape& shape : {planned, smaller, two, planned, two, smaller, planned}) {
    net.session().Reshape("x", shape);
    apart.session().Reshape("x", shape);
    for (uint64_t seed : {7, 8}) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectNear(apart.Run(seed), net.Run(seed), 1e-4, StrCat(ToString(shape), "\n", text)));
    }
    net.session().FixWeights();
  }
}

TEST_F(MergedSiblings, SessionsTurnToOtherExtentsAndBack) {
  ASSERT_NO_FATAL_FAILURE(ExpectSameAtOtherExtents(Module(), Merging(2)));
}

TEST_F(MergedSiblings, RandomNets) {
  int merged = 0;
  for (uint32_t seed = 0; seed < 48; ++seed) {
    std::string text = test::InceptionMaker(seed).Make();
    const size_t at = text.find("dim: ") + 5;
    text.replace(at, text.find(' ', at) - at, "1");
    PlanOptions options = Merging(1 + static_cast<int>(seed % 2));
    options.passes.absorb = seed % 5 != 0;
    options.passes.share_memory = seed % 7 != 0;
    merged += MergedOf(text, options);
    ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, options, 1e-4));
    ASSERT_NO_FATAL_FAILURE(ExpectSameAtOtherExtents(text, options));
  }
  EXPECT_GT(merged, 15);
}

TEST_F(MergedSiblings, SessionsHaveTheirOwnAndSeeChangedWeights) {
  Net net(Module(), Merging(2));
  Net apart(Module(), Merging(2, false));
  const std::unique_ptr<Session> fixed = net.Another();
  fixed->FixWeights();
  const Numbers before = Net::Run(fixed.get(), 1);
  EXPECT_EQ(net.Run(1), before);
  for (Net* each : {&net, &apart}) {
    for (size_t s = 0; s < each->plan().learned.size(); ++s) {
      for (float& weight : each->weights().blob(s).span<float>()) weight *= -0.5F;
    }
  }
  const Numbers after = net.Run(1);
  EXPECT_NE(after, before);
  ASSERT_NO_FATAL_FAILURE(ExpectNear(apart.Run(1), after, 1e-5, "changed weights"));
}

TEST_F(MergedSiblings, TakeNoMemoryForWhatTheConcatCopies) {
  const int64_t merged = PlanText(Module(), TEST, Merging())->arena_bytes;
  const int64_t apart = PlanText(Module(), TEST, Merging(1, false))->arena_bytes;
  // The reduced channels live as long as the output of the Concat, which goes on behind them.
  const int64_t reduced = (32 + 16) * 9 * 9 * 4;
  EXPECT_LE(merged, apart + reduced + 1024);
}

}  // namespace
}  // namespace crema
