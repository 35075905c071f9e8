// Concat of several images whose inputs are ranges of its output, forward and backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/inception_nets.h"
#include "support/net.h"
#include "support/random_nets.h"

namespace crema {
namespace {

using test::Concat;
using test::Conv;
using test::ExpectNear;
using test::FillInput;
using test::Inception;
using test::InceptionMaker;
using test::Input;
using test::Loss;
using test::PlanText;
using test::Pool;
using test::Relu;
using test::ValuesOf;

using Numbers = std::vector<std::vector<float>>;

bool Joins(const Plan& plan, const std::string& name) {
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.name() == name) return layer.concat_in_place == ConcatPlace::kStrided;
  }
  ADD_FAILURE() << name;
  return false;
}

bool Joins(const std::string& text, const std::string& name, const PlanOptions& options = {}) {
  return Joins(*PlanText(text, TRAIN, options), name);
}

class ConcatNet {
 public:
  ConcatNet(const std::string& text, const PlanOptions& options)
      : plan_(PlanText(text, TRAIN, options)),
        session_(plan_, std::shared_ptr<const Weights>(Weights::Make(*plan_, 3)),
                 ExecContext(options.threads, 3)) {}

  const Plan& plan() const { return *plan_; }
  Session& session() { return session_; }

  // Outputs, and gradients if there is a backward pass.
  Numbers Run(uint64_t seed) {
    for (const PlannedLayer& layer : plan_->layers) {
      if (layer.inputs.empty()) FillInput(&session_, layer.name(), seed);
    }
    session_.Forward();
    Numbers numbers;
    for (int v : plan_->outputs) numbers.push_back(ValuesOf(session_.DataOf(v)));
    if (!plan_->options.backward) return numbers;
    session_.ZeroParameterGradients();
    session_.Backward();
    for (size_t s = 0; s < plan_->parameters.size(); ++s) {
      const TensorView gradient = session_.ParameterGradient(s);
      if (!gradient.empty()) numbers.push_back(ValuesOf(gradient));
    }
    return numbers;
  }

 private:
  std::shared_ptr<const Plan> plan_;
  Session session_;
};

PlanOptions Apart(PlanOptions options) {
  options.passes.share_memory = false;
  return options;
}

void ExpectSameAsApart(const std::string& text, const PlanOptions& options,
                       double tolerance = 1e-5) {
  ConcatNet net(text, options);
  ConcatNet apart(text, Apart(options));
  for (uint64_t seed : {5, 6}) {
    ASSERT_NO_FATAL_FAILURE(ExpectNear(apart.Run(seed), net.Run(seed), tolerance, text));
  }
}

class ConcatInPlace : public testing::Test {
 protected:
  void SetUp() override {
    const Registry& registry = test::TestRegistry();
    const bool onednn = std::ranges::any_of(
        registry.Find("Convolution")->implementations, [](const ImplementationPtr& implementation) {
          return implementation->output_format == MemoryFormat{Layout::kBlocked};
        });
    if (!onednn || ChannelBlock() == 0) {
      GTEST_SKIP() << "no implementation of this build or processor takes blocked blobs";
    }
  }
};

TEST_F(ConcatInPlace, LieInTheImagesOfTheOutput) {
  const auto plan = PlanText(Inception(4), TRAIN, {});
  const auto value = [&](const char* name) {
    return plan->values[static_cast<size_t>(plan->FindValue(name))];
  };
  const PlannedValue y = value("y"), a = value("a"), b = value("b");
  EXPECT_EQ(y.data.image_stride, 0);
  EXPECT_EQ(a.data.image_stride, y.data.bytes / 4);
  EXPECT_EQ(a.data.offset, y.data.offset);
  EXPECT_EQ(b.data.offset, y.data.offset + a.data.bytes / 4);
  EXPECT_EQ(b.gradient.image_stride, y.gradient.bytes / 4);
  EXPECT_EQ(b.gradient.offset, y.gradient.offset + a.gradient.bytes / 4);
}

TEST_F(ConcatInPlace, ComputeWhatCopiesWould) {
  for (const bool backward : {true, false}) {
    for (const int batch : {1, 2, 5, 8}) {
      for (const int threads : {1, 2}) {
        const std::string text = Inception(batch);
        const PlanOptions options{.threads = threads, .backward = backward};
        SCOPED_TRACE(StrCat(batch, " ", threads));
        EXPECT_EQ(Joins(text, "y", options),
                  (batch % threads == 0 || batch > 32) && (batch > 1 || backward));
        ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, options));
      }
    }
  }
}

// In a chain of several, the whole gradient of the output is live until the last input has read its
// range, which may take a little more memory than separate pieces.
TEST_F(ConcatInPlace, TakeLessMemory) {
  std::string chain = Input(8) + Conv("stem", "x", 32, 3);
  std::string other, blob = "stem";
  for (const char* name : {"i", "j", "k"}) {
    const std::string a = StrCat(name, "a"), b = StrCat(name, "b");
    chain += Conv(a, blob, 64, 1) + Relu(a) + Conv(b, blob, 64, 3) + Relu(b) + Concat(name, {a, b});
    other += StrCat("layer { name: 'other_", a, "' type: 'Silence' bottom: '", a, "' }\n");
    blob = name;
  }
  chain += Loss(blob);
  for (const bool backward : {true, false}) {
    const auto joined = PlanText(chain, TRAIN, {.backward = backward});
    // The same, but another layer reads one of the inputs.
    const auto apart = PlanText(chain + other, TRAIN, {.backward = backward});
    EXPECT_TRUE(Joins(*joined, "j"));
    EXPECT_FALSE(Joins(*apart, "j"));
    EXPECT_LT(joined->arena_bytes, apart->arena_bytes) << backward;
  }
}

TEST_F(ConcatInPlace, InBFloat16) {
  const PlanOptions options{.threads = 2, .precision = BF16};
  ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(Inception(4), options, 2e-2));
}

TEST_F(ConcatInPlace, ConcatsInConcats) {
  const std::string text = Input(4) + Conv("stem", "x", 32, 3) + Conv("a", "stem", 16, 1) +
                           Conv("b", "stem", 32, 3) + Relu("b") + Pool("c", "stem", "AVE") +
                           Concat("ab", {"a", "b"}) + Concat("cab", {"c", "ab"}) + Loss("cab");
  const auto plan = PlanText(text, TRAIN, {});
  EXPECT_TRUE(Joins(*plan, "ab"));
  EXPECT_TRUE(Joins(*plan, "cab"));
  ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, {.threads = 2}));
  ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, {.threads = 2, .backward = false}));
}

// oneDNN caches the primitives of a process: those of one image on all threads must differ.
TEST_F(ConcatInPlace, BesidesSessionsOfOneImage) {
  const auto net = [](int batch) {
    std::string text = Input(batch, 16, 14) + Conv("stem", "x", 16, 3) + Conv("a", "stem", 16, 1) +
                       Conv("b", "stem", 16, 3) + Concat("y", {"a", "b"}) + Loss("y");
    for (const char* size : {"kernel_size: 1 ", "kernel_size: 3 "}) {
      const size_t at = text.find(size, text.find("name: 'a'"));
      text.insert(at, "stride: 2 ");
    }
    return text;
  };
  for (const int threads : {2, 8}) {
    for (const bool backward : {false, true}) {
      const PlanOptions options{.threads = threads, .backward = backward, .precision = BF16};
      ConcatNet(net(1), options).Run(1);
      ASSERT_TRUE(Joins(net(16), "y", options));
      ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(net(16), options, 2e-2));
    }
  }
}

TEST_F(ConcatInPlace, StayApartWhereThatCannotBe) {
  const std::string head = Input(4) + Conv("stem", "x", 32, 3) + Conv("a", "stem", 16, 1);
  const std::string b = Conv("b", "stem", 16, 3);
  const std::vector<std::string> nets = {
      // One of them twice.
      head + Concat("y", {"a", "a"}) + Loss("y"),
      // Another layer reads it.
      head + b + Concat("y", {"a", "b"}) + Loss("y") + Pool("other", "a", "MAX"),
      // No whole blocks of channels.
      head + Conv("odd", "stem", 17, 3) + Concat("y", {"odd", "a"}) + Loss("y"),
      // A layer in between that does not write ranges.
      head + b +
          "layer { name: 'drop' type: 'Dropout' bottom: 'b' top: 'b' dropout_param { "
          "dropout_ratio: "
          "0.4 } }\n" +
          Concat("y", {"a", "b"}) + Loss("y"),
      // Contiguous images.
      head + b + Concat("y", {"a", "b"}, "concat_param { axis: 0 }") + Loss("y"),
      // It is a loss.
      head +
          "layer { name: 'w' type: 'Pooling' bottom: 'stem' top: 'w' loss_weight: 0.01 "
          "pooling_param { kernel_size: 1 } }\n" +
          Concat("y", {"a", "w"}) + Loss("y"),
      // Layers that are recomputed for the backward pass.
      head + Conv("b", "stem", 16, 3, "recompute: true") + Concat("y", {"a", "b"}) + Loss("y"),
      head + b + Concat("y", {"a", "b"}, "recompute: true") + Loss("y")};
  for (const std::string& text : nets) {
    EXPECT_FALSE(Joins(text, "y")) << text;
    ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, {.threads = 2}));
  }
  EXPECT_FALSE(Joins(Inception(4), "y", {.passes = {.share_memory = false}}));
  EXPECT_FALSE(Joins(Inception(4), "y", {.passes = {.memory_formats = false}}));
}

TEST_F(ConcatInPlace, WithInPlaceLayersAfterIt) {
  const std::string text =
      Input(4) + Conv("stem", "x", 32, 3) + Conv("a", "stem", 16, 1) + Conv("b", "stem", 32, 3) +
      Relu("b") + Concat("y", {"a", "b"}) + Relu("y") +
      "layer { name: 'drop' type: 'Dropout' bottom: 'y' top: 'y' }\n" + Loss("y");
  EXPECT_TRUE(Joins(text, "y"));
  ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, {.threads = 2}));
  ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, {.backward = false}));
}

TEST_F(ConcatInPlace, AsOutputsOfTheNet) {
  std::string text = Inception(4);
  text.resize(text.find("layer { name: 'last'"));
  ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, {.threads = 2, .backward = false}));
}

// Fewer images, smaller ones, and the planned ones again.
void ExpectSameWhenSmaller(const std::string& text, const PlanOptions& options) {
  ConcatNet net(text, options);
  ConcatNet apart(text, Apart(options));
  const Shape planned = net.session().Data("x").shape();
  const int64_t fewer = std::max<int64_t>(1, planned[0] / 2);
  for (const Shape& shape : {planned.With(0, fewer), planned.With(2, planned[2] - 1), planned}) {
    net.session().Reshape("x", shape);
    apart.session().Reshape("x", shape);
    ASSERT_NO_FATAL_FAILURE(
        ExpectNear(apart.Run(7), net.Run(7), 1e-4, StrCat(ToString(shape), "\n", text)));
  }
}

TEST_F(ConcatInPlace, RandomNets) {
  int joined = 0;
  for (uint32_t seed = 0; seed < 24; ++seed) {
    const std::string text = InceptionMaker(seed).Make();
    for (const bool backward : {true, false}) {
      const PlanOptions options{.threads = 1 + static_cast<int>(seed % 2), .backward = backward};
      const auto plan = PlanText(text, TRAIN, options);
      joined += static_cast<int>(
          std::ranges::count(plan->layers, ConcatPlace::kStrided, &PlannedLayer::concat_in_place));
      ASSERT_NO_FATAL_FAILURE(ExpectSameAsApart(text, options, 1e-4));
      ASSERT_NO_FATAL_FAILURE(ExpectSameWhenSmaller(text, options));
    }
  }
  EXPECT_GT(joined, 30);
}

TEST_F(ConcatInPlace, SessionsTurnToOtherShapesAndBack) {
  const std::vector<Shape> shapes = {{6, 16, 9, 9},  {2, 16, 9, 9}, {1, 16, 9, 9}, {3, 16, 7, 6},
                                     {24, 16, 4, 4}, {5, 16, 9, 9}, {6, 16, 9, 9}};
  for (const bool backward : {true, false}) {
    const PlanOptions options{.threads = 2, .backward = backward};
    const std::string text = Inception(6);
    ConcatNet net(text, options);
    ASSERT_TRUE(Joins(net.plan(), "y"));
    ConcatNet apart(text, Apart(options));
    for (const Shape& shape : shapes) {
      net.session().Reshape("x", shape);
      apart.session().Reshape("x", shape);
      for (uint64_t seed : {7, 8}) {
        ASSERT_NO_FATAL_FAILURE(ExpectNear(apart.Run(seed), net.Run(seed), 1e-5, ToString(shape)));
      }
    }
  }
}

TEST_F(ConcatInPlace, RefuseOtherChannelsThanPlanned) {
  const std::string text =
      Input(4) +
      "layer { name: 'z' type: 'Input' top: 'z' input_param { shape { dim: 4 dim: 32 dim: 5 dim: 5 "
      "} } }\n" +
      Conv("a", "x", 128, 1) +
      "layer { name: 'b' type: 'Pooling' bottom: 'z' top: 'b' pooling_param { kernel_size: 5 pad: "
      "4 } }" +
      Concat("y", {"a", "b"}) + Conv("last", "y", 64, 1);
  ConcatNet net(text, {.backward = false});
  ASSERT_TRUE(Joins(net.plan(), "y"));
  net.Run(1);
  net.session().Reshape("z", {4, 16, 5, 5});
  for (const uint64_t pass : {2, 3}) {  // it does not go away
    try {
      net.Run(pass);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("differ from the plan"), std::string::npos)
          << error.what();
    }
  }
}

TEST_F(ConcatInPlace, WithAMemoryBudget) {
  const std::string text = Inception(8);
  const int64_t free = PlanText(text, TRAIN, {})->arena_bytes;
  const auto mebibytes = (free + (1 << 20) - 1) >> 20;
  EXPECT_TRUE(Joins(StrCat("memory_budget: ", mebibytes, "\n", text), "y"));
  const std::string large = Inception(200);
  const int64_t much = PlanText(large, TRAIN, {})->arena_bytes >> 20;
  const std::string tight = StrCat("memory_budget: ", much * 8 / 10, "\n", large);
  EXPECT_FALSE(Joins(tight, "y"));
  EXPECT_LE(PlanText(tight, TRAIN, {})->arena_bytes >> 20, much * 8 / 10);
}

}  // namespace
}  // namespace crema
