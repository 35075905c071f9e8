// Values that only strided convolutions read are computed only where they are read, with the same
// outputs.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"
#include "support/random_nets.h"

namespace crema {
namespace {

// Residual blocks as in ResNets, with strides in filters of one pixel and elsewhere.
class StridedNet {
 public:
  explicit StridedNet(uint32_t seed) : random_(seed) {}

  std::string Make(int batch) {
    const int size = 11 + Draw(8);
    text_ = StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: ", batch,
                   " dim: 16 dim: ", size, " dim: ", size - Draw(3), " } } }\n");
    std::string blob = Conv("x", 3, 1);
    for (int i = 0, count = 2 + Draw(3); i < count; ++i) blob = Block(blob, 1 + Draw(2));
    Conv(blob, 1, 1);
    return text_;
  }

 private:
  int Draw(uint32_t count) { return static_cast<int>(random_() % count); }

  std::string Add(const std::string& type, const std::vector<std::string>& bottoms,
                  const std::string& fields) {
    std::string name = StrCat("n", names_++);
    text_ += StrCat("layer { name: '", name, "' type: '", type, "' top: '", name, "' ");
    for (const std::string& bottom : bottoms) text_ += StrCat("bottom: '", bottom, "' ");
    text_ += fields + " }\n";
    return name;
  }

  std::string Conv(const std::string& from, int kernel, int stride) {
    std::string blob =
        Add("Convolution", {from},
            StrCat("convolution_param { num_output: 16 kernel_size: ", kernel, " pad: ", kernel / 2,
                   " stride: ", stride,
                   " weight_filler { type: 'xavier' } bias_filler { type: 'uniform' min: -0.2 "
                   "max: 0.2 } }"));
    if (Draw(3) == 0) blob = Add("BatchNorm", {blob}, "batch_norm_param { eps: 1 }");
    if (Draw(3) == 0) blob = Add("Scale", {blob}, "scale_param { bias_term: true }");
    return blob;
  }

  std::string Relu(const std::string& from) {
    return Add(Draw(4) == 0 ? "Sigmoid" : "ReLU", {from}, "");
  }

  std::string Block(const std::string& from, int stride) {
    std::string side = from;
    if (stride > 1 || Draw(3) == 0) side = Conv(from, 1, stride);
    const bool early = Draw(4) > 0;  // where Caffe's ResNets have it
    std::string blob = Relu(Conv(from, 1, early ? stride : 1));
    blob = Relu(Conv(blob, 3, early ? 1 : stride));
    blob = Conv(blob, 1, 1);
    std::string sum = Add("Eltwise", {side, blob}, "");
    if (Draw(5) == 0) Add("TanH", {sum}, "");  // an output that needs all of it
    return Relu(sum);
  }

  std::mt19937 random_;
  std::string text_;
  int names_ = 0;
};

// The implementations of a test. Native ones round alike with and without the pass. Winograd's
// algorithm is for stride 1 only and rounds more, and sums of bfloat16 may be rounded elsewhere.
struct Implementations {
  const char* name;
  bool optimized;
  Precision precision;
  double tolerance;  // of the largest output
};

struct StridesNet {
  StridesNet(const std::string& text, bool moves, int threads,
             const Implementations& implementations) {
    PlanOptions options{
        .threads = threads, .backward = false, .precision = implementations.precision};
    options.passes.optimized_implementations = implementations.optimized;
    options.passes.move_strides = moves;
    plan = test::PlanText(text, TEST, options);
    session = std::make_unique<Session>(
        plan, std::shared_ptr<const Weights>(Weights::Make(*plan, 3)), ExecContext(threads, 3));
  }

  std::vector<std::vector<float>> Run(uint64_t seed) const {
    test::FillInput(session.get(), "x", seed);
    session->Forward();
    std::vector<std::vector<float>> numbers;
    for (int v : plan->outputs) numbers.push_back(test::ValuesOf(session->DataOf(v)));
    return numbers;
  }

  int64_t Numbers() const {
    int64_t numbers = 0;
    for (const PlannedValue& value : plan->values) numbers += value.spec.shape.count();
    return numbers;
  }

  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Session> session;
};

class MovedStrides : public testing::TestWithParam<Implementations> {};

TEST_P(MovedStrides, GiveWhatTheNetGivesWithoutThem) {
  const Implementations& implementations = GetParam();
  if (implementations.precision == BF16 && !HasBFloat16())
    GTEST_SKIP() << "no arithmetic of bfloat16 here";
  int fewer = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const std::string text = StridedNet(seed).Make(1 + static_cast<int>(seed % 3));
    const StridesNet moved(text, true, 1 + static_cast<int>(seed % 2), implementations);
    const StridesNet whole(text, false, 1, implementations);
    fewer += moved.Numbers() < whole.Numbers() ? 1 : 0;
    for (uint64_t input : {5, 6}) {
      ASSERT_NO_FATAL_FAILURE(
          test::ExpectNear(whole.Run(input), moved.Run(input), implementations.tolerance, text));
    }
  }
  EXPECT_GT(fewer, 20);
}
INSTANTIATE_TEST_SUITE_P(Implementations, MovedStrides,
                         testing::Values(Implementations{"native", false, FP32, 1e-6},
                                         Implementations{"fast", true, FP32, 2e-4},
                                         Implementations{"bfloat16", true, BF16, 0.03}),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(MovedStridesOf, OtherShapesFollowShapes) {
  for (uint32_t seed = 100; seed < 120; ++seed) {
    const std::string text = StridedNet(seed).Make(2);
    const Implementations implementations = {"native", false, FP32, 1e-6};
    const StridesNet moved(text, true, 1, implementations), whole(text, false, 1, implementations);
    for (const Shape& sizes : {Shape{1, 16, 8, 7}, Shape{2, 16, 9, 5}}) {
      moved.session->Reshape("x", sizes);
      whole.session->Reshape("x", sizes);
      ASSERT_NO_FATAL_FAILURE(
          test::ExpectNear(whole.Run(7), moved.Run(7), implementations.tolerance, text));
    }
  }
}

TEST(MovedStridesOf, TrainingComputesAll) {
  const std::string text = StridedNet(1).Make(2);
  const auto plan = test::PlanText(text, TEST, {.backward = true});
  for (const PlannedLayer& layer : plan->layers) EXPECT_NE(layer.type->name, "Pooling");
}

}  // namespace
}  // namespace crema
