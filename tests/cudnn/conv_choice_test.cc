// Queries to cuDNN, and the choice of its engines.
#include <algorithm>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "cudnn/cudnn_fixture.h"
#include "math/cuda/cudnn_conv.h"
#include "runtime/autotuner.h"
#include "support/gpu.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using CudnnChoice = CudnnTest;

constexpr const char* kNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: "msra" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
)";

void RunOnce(const std::shared_ptr<const Plan>& plan) {
  Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
  FillInput(&session, "x", 1);
  session.Forward();
}

std::string ImplementationOf(const Plan& plan) {
  return LayerOf(plan, "conv").implementation->name;
}

TEST_F(CudnnChoice, WithoutCudnnNativeImplementationsSayWhy) {
  stand_in_.reset();
  const auto plan = PlanOn(kNet, TEST);
  EXPECT_EQ(ImplementationOf(*plan), "cuda");
  const std::string reason = ReasonOf(*plan, "conv", "cudnn");
  EXPECT_NE(reason.find("asked for on the GPU, fusion too"), std::string::npos) << reason;
}

// Independent of the current device of the thread that plans.
TEST_F(CudnnChoice, EachGpuIsAskedForItself) {
  for (const int gpu : {0, 1, 1}) {
    EXPECT_EQ(ImplementationOf(*PlanOn(kNet, TEST, {.device = {DeviceType::kCuda, gpu}})), "cudnn");
    EXPECT_EQ(FakeCounts().handles, gpu + 1);
  }
}

TEST_F(CudnnChoice, RefusedLayersRunWithoutFusionOrCudnn) {
  FakeRules().refuse = [](const std::vector<std::string>& operations) {
    return operations.size() > 1 ? "nothing after sums" : "";
  };
  auto plan = PlanOn(kNet, TEST);
  EXPECT_EQ(ImplementationOf(*plan), "cudnn, unfused");
  EXPECT_NE(ReasonOf(*plan, "conv", "cudnn").find("nothing after sums"), std::string::npos);
  RunOnce(plan);
  EXPECT_EQ(FakeCounts().runs[7], 1);

  AskAnew();
  FakeRules().refuse = [](const std::vector<std::string>& operations) {
    return operations[0] == "to weights" ? "no such gradients" : "";
  };
  EXPECT_EQ(ImplementationOf(*PlanOn(kNet, TEST)), "cudnn");
  // No gradients are needed there.
  const std::string loss =
      "layer { name: 'l' type: 'Reduction' bottom: 'conv' top: 'l' loss_weight: 1 }";
  plan = PlanOn(kNet + loss, TRAIN);
  EXPECT_EQ(ImplementationOf(*plan), "cuda");
  EXPECT_NE(ReasonOf(*plan, "conv", "cudnn").find("no such gradients"), std::string::npos);
}

TEST_F(CudnnChoice, EachQuestionIsAskedOnce) {
  PlanOn(kNet, TEST);
  const int graphs = FakeCounts().graphs;
  EXPECT_GT(graphs, 0);
  PlanOn(kNet, TEST);
  EXPECT_EQ(FakeCounts().graphs, graphs);
}

TEST_F(CudnnChoice, EnginesThatRefuseOrNeedMoreThanTheBoundArePassedOver) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  FakeRules().engines = {{.number = 1, .workspace = kHuge},
                         {.number = 2, .refusal = "not for this GPU"},
                         {.number = 3, .workspace = 1000},
                         {.number = 4}};
  RunOnce(PlanOn(kNet, TEST));
  EXPECT_EQ(FakeCounts().runs, (std::map<int64_t, int>{{3, 1}}));

  AskAnew();
  FakeRules().engines.resize(2);
  FakeRules().fallbacks = {{.number = 9}};
  RunOnce(PlanOn(kNet, TEST));
  EXPECT_EQ(FakeCounts().runs[9], 1);

  AskAnew();
  FakeRules().fallbacks.clear();
  const auto plan = PlanOn(kNet, TEST);
  EXPECT_EQ(ImplementationOf(*plan), "cuda");
  const std::string reason = ReasonOf(*plan, "conv", "cudnn");
  EXPECT_NE(reason.find(StrCat("needs ", kHuge, " bytes of workspace")), std::string::npos)
      << reason;
}

TEST_F(CudnnChoice, HeuristicsThatRefuseLeaveTheOthers) {
  FakeRules().refused_mode = CUDNN_HEUR_MODE_A;
  FakeRules().fallbacks = {{.number = 9}};
  RunOnce(PlanOn(kNet, TEST));
  EXPECT_EQ(FakeCounts().runs, (std::map<int64_t, int>{{9, 1}}));

  AskAnew();
  FakeRules().fallbacks.clear();
  const auto plan = PlanOn(kNet, TEST);
  EXPECT_EQ(ImplementationOf(*plan), "cuda");
  const std::string reason = ReasonOf(*plan, "conv", "cudnn");
  EXPECT_NE(reason.find("not that mode"), std::string::npos) << reason;
}

TEST_F(CudnnChoice, EnginesComputeInThePrecisionThatWasAskedForAndRepeatTheirBits) {
  FakeRules().engines = {{.number = 1, .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
                         {.number = 2, .notes = {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}},
                         {.number = 3, .notes = {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}},
                         {.number = 4, .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
                         {.number = 5}};
  // Half precision pays for several layers in sequence.
  std::string net =
      "layer { name: 'x' type: 'Input' top: 'c0' input_param { shape { dim: 2 dim: 16 dim: 16 "
      "dim: 16 } } }";
  for (int i = 0; i < 6; ++i) {
    net +=
        StrCat("layer { name: 'c", i + 1, "' type: 'Convolution' bottom: 'c", i, "' top: 'c", i + 1,
               "' convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { "
               "type: 'msra' } } }");
  }
  const auto runs_of = [&](Precision precision) {
    AskAnew();
    FakeCounts().runs.clear();
    const auto plan = PlanOn(net, TEST, {.precision = precision});
    Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
    FillInput(&session, "c0", 1);
    session.Forward();
    return FakeCounts().runs;
  };
  using Runs = std::map<int64_t, int>;
  EXPECT_EQ(runs_of(FP32), (Runs{{5, 6}}));
  EXPECT_EQ(runs_of(TF32), (Runs{{4, 6}}));
  EXPECT_EQ(runs_of(BF16), (Runs{{3, 6}}));  // its inputs are halves anyway
  EXPECT_EQ(runs_of(FP16), (Runs{{3, 6}}));
}

class CudnnTuning : public CudnnTest {
 protected:
  void SetUp() override {
    CudnnTest::SetUp();
    FakeRules().engines = {{.number = 1, .milliseconds = 12},
                           {.number = 2, .refusal = "not here"},
                           {.number = 3, .milliseconds = 1},
                           {.number = 4, .milliseconds = 20}};
  }
  // Returns the engines that ran, in a run with this many seconds for measuring.
  std::map<int64_t, int> Runs(double seconds, bool deterministic = false) {
    FakeCounts().runs.clear();
    const auto timer = std::make_shared<Autotuner>(
        AutotuneOptions{.seconds = seconds, .folder = temp_.path(), .build = "test"});
    const auto plan =
        PlanOn(kNet, TEST, {.deterministic = deterministic, .implementation_timer = timer});
    Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
    FillInput(&session, "x", 1);
    for (int pass = 0; pass < 10; ++pass) session.Forward();
    return FakeCounts().runs;
  }
  TempDir temp_;
};

TEST_F(CudnnTuning, TheFastestIsMeasuredOnceAndKept) {
  auto runs = Runs(100);
  EXPECT_GE(runs[3], 10 + 2);
  EXPECT_GE(runs[1], 2);
  EXPECT_LT(runs[1], 10);
  // Another run reads what this one measured.
  runs = Runs(100);
  EXPECT_EQ(runs, (std::map<int64_t, int>{{3, 10}}));
}

TEST_F(CudnnTuning, EnginesThatFailAsTheyAreMeasuredAreNotTaken) {
  FakeRules().engines[2].fails = true;
  const auto runs = Runs(100);
  EXPECT_GE(runs.at(1), 10 + 2);
  EXPECT_FALSE(runs.contains(3));
}

TEST_F(CudnnTuning, WithoutTimeTheFirstIsTaken) {
  EXPECT_EQ(Runs(1e-9), (std::map<int64_t, int>{{1, 10}}));
  EXPECT_EQ(Runs(100, true), (std::map<int64_t, int>{{1, 10}}));  // the same plan everywhere
}

// Otherwise times of one would be used for another.
TEST(CudnnConvSpec, EveryFieldIsInItsText) {
  CudnnConvSpec base;
  base.axes = {{5, 5, 3, 1, 1, 1}, {7, 7, 3, 1, 1, 1}};
  std::vector<CudnnConvSpec> all(1, base);
  const auto add = [&](const auto& change) { change(&all.emplace_back(base)); };
  add([](CudnnConvSpec* s) { s->pass = ConvPass::kToInput; });
  add([](CudnnConvSpec* s) { s->pass = ConvPass::kToWeights; });
  add([](CudnnConvSpec* s) { s->dtype = DType::kBF16; });
  add([](CudnnConvSpec* s) { s->tf32 = true; });
  add([](CudnnConvSpec* s) { s->channels_last = true; });
  add([](CudnnConvSpec* s) { s->batch = 2; });
  add([](CudnnConvSpec* s) { s->groups = 2; });
  add([](CudnnConvSpec* s) { s->in_channels = 2; });
  add([](CudnnConvSpec* s) { s->out_channels = 2; });
  add([](CudnnConvSpec* s) { s->alignment = 8; });
  add([](CudnnConvSpec* s) { s->sum = true; });
  add([](CudnnConvSpec* s) { s->bias = true; });
  add([](CudnnConvSpec* s) { s->relu = 0; });
  add([](CudnnConvSpec* s) { s->relu = 0.5F; });
  for (const auto field :
       {&CudnnConvSpec::Axis::in, &CudnnConvSpec::Axis::out, &CudnnConvSpec::Axis::kernel,
        &CudnnConvSpec::Axis::stride, &CudnnConvSpec::Axis::pad, &CudnnConvSpec::Axis::dilation}) {
    add([&](CudnnConvSpec* s) { s->axes[1].*field = 4; });
  }
  std::vector<std::string> texts;
  for (const CudnnConvSpec& spec : all) texts.push_back(Describe(spec));
  std::ranges::sort(texts);
  EXPECT_EQ(std::ranges::adjacent_find(texts), texts.end());
}

TEST(CudnnConvMemory, KnowsWhatItsAddressesAreMultiplesOf) {
  const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
  CudnnConvMemory memory{.x = at(64), .w = at(128), .y = at(4096)};
  EXPECT_EQ(memory.Alignment(), 16);
  memory.bias = at(24);
  EXPECT_EQ(memory.Alignment(), 8);
  memory.sum = at(2);
  EXPECT_EQ(memory.Alignment(), 2);
}

}  // namespace
}  // namespace crema::test
