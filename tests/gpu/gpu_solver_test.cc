// Training on a GPU, or without one on a stand-in, equals training on the CPU: the parameters, the
// files, and the messages about a run that is no longer finite.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/strings.h"
#include "data/batches/memory_feed.h"
#include "solvers/device_update.h"
#include "solvers/lr_finder.h"
#include "solvers/resume.h"
#include "support/gpu.h"
#include "support/random_nets.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::ExpectNear;
using test::OptionsFor;
using test::Recorder;
using test::TempDir;
using test::ValuesOf;

enum class On { kCpu, kGpu };

SolverOptions Options(On where, Recorder* recorder) {
  SolverOptions options = OptionsFor(recorder);
  if (where == On::kCpu) return options;
  options.device = test::GpuDevice();
  options.device_update = MakeGpuUpdate;
  return options;
}

std::string FieldsOf(const UpdateRule& rule) {
  const bool no_momentum = rule.name == "AdaGrad" || rule.name == "RMSProp";
  return StrCat("type: '", rule.name, "' ", no_momentum ? "" : "momentum: 0.9 ",
                rule.name == "AdaDelta" ? "delta: 0.0001 " : "");
}

constexpr const char* kManyFields =
    "iter_size: 2 average_loss: 3 weight_decay: 0.01 ema_decay: 0.8 clip_gradients: 2 "
    "lr_policy: 'step' gamma: 0.5 stepsize: 3 display: 2 test_interval: 2 ";

class GpuSolver : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteRecords(temp_.File("train"), 13);
    test::WriteRecords(temp_.File("test"), 7);
  }

  // Statistics, random draws, and a test net whose last batch is smaller. No bias before BatchNorm:
  // its gradient is nothing but rounding, which some rules make as large as any other.
  std::string Text(const std::string& fields) const {
    std::string net = test::RegressionNet(temp_.path(), 4, 3);
    net.insert(net.find("num_output: 6"), "bias_term: false ");
    net.insert(net.find("layer { name: \"relu\""), R"(
layer { name: "norm" type: "BatchNorm" bottom: "hidden" top: "hidden"
  param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 } }
layer { name: "scale" type: "Scale" bottom: "hidden" top: "hidden"
  param { lr_mult: 0.5 decay_mult: 0 } param { lr_mult: 2 decay_mult: 0 }
  scale_param { bias_term: true } }
)");
    return StrCat("net_param { ", net, " } base_lr: 0.003 random_seed: 5 snapshot_prefix: '",
                  temp_.File("s"), "' ", fields);
  }
  std::unique_ptr<Solver> Make(On where, const std::string& fields) {
    return std::make_unique<Solver>(test::ConfigOf(Text(fields)),
                                    test::LayersWithGpuImplementations(),
                                    Options(where, &recorder_));
  }
  std::vector<std::string> BytesOf(int iteration) const {
    std::vector<std::string> bytes;
    for (const char* suffix : {".caffemodel", ".solverstate", "_ema.caffemodel"}) {
      bytes.push_back(temp_.Read(StrCat("s_iter_", iteration, suffix)));
    }
    return bytes;
  }

  TempDir temp_;
  Recorder recorder_;
};

struct Learned {
  std::vector<std::vector<float>> weights, averages, losses;
};

Learned RunOf(Solver& solver, Recorder* recorder) {
  *recorder = {};
  solver.Solve();
  Learned run{ValuesOf(solver.weights()), ValuesOf(*solver.averaged_weights()), {}};
  for (const IterationReport& report : recorder->iterations) {
    run.losses.push_back({static_cast<float>(report.loss)});
    for (const OutputValue& output : report.outputs)
      run.losses.push_back({static_cast<float>(output.value)});
  }
  for (const TestReport& report : recorder->tests) {
    for (const OutputValue& output : report.outputs)
      run.losses.push_back({static_cast<float>(output.value)});
  }
  return run;
}

TEST_F(GpuSolver, LearnsAsTheCpuDoesWithEveryRule) {
  const std::string fields = StrCat(kManyFields, "max_iter: 8 snapshot_after_train: false ");
  for (const UpdateRule& rule : UpdateRules()) {
    SCOPED_TRACE(rule.name);
    const Learned cpu = RunOf(*Make(On::kCpu, fields + FieldsOf(rule)), &recorder_);
    const Learned gpu = RunOf(*Make(On::kGpu, fields + FieldsOf(rule)), &recorder_);
    EXPECT_GT(cpu.losses.size(), 15U);
    ASSERT_NO_FATAL_FAILURE(ExpectNear(cpu.losses, gpu.losses, 1e-3, "losses"));
    ASSERT_NO_FATAL_FAILURE(ExpectNear(cpu.weights, gpu.weights, 1e-4, "weights"));
    ASSERT_NO_FATAL_FAILURE(ExpectNear(cpu.averages, gpu.averages, 1e-4, "averages"));
    EXPECT_NE(cpu.weights, cpu.averages);
  }
}

// Captured graphs contain nothing that changes from one iteration to the next.
TEST_F(GpuSolver, GraphsChangeNothing) {
  for (const char* precision : {"FP32", "TF32", "BF16"}) {
    SCOPED_TRACE(precision);
    std::string text = Text(StrCat(kManyFields, "max_iter: 9 momentum: 0.9 snapshot_after_train: ",
                                   "false loss_scale { initial: 64 growth_interval: 3 } "));
    text.insert(text.find("net_param {") + 11, StrCat(" precision: ", precision));
    const std::string flat = "bottom: \"data\" top: \"flat\"";
    text.replace(text.find(flat), flat.size(), "bottom: \"conv\" top: \"flat\"");
    text.insert(text.find("layer { name: \"flat\""), R"(
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param {
  num_output: 4 kernel_size: 2 pad: 1 weight_filler { type: "xavier" } } }
)");
    const auto run_of = [&](bool graphs) {
      SolverOptions options = Options(On::kGpu, &recorder_);
      if (!graphs) options.device.gpu_context = test::GpuContextWithoutGraphs;
      Solver solver(test::ConfigOf(text), test::LayersWithGpuImplementations(), options);
      const Learned run = RunOf(solver, &recorder_);
      EXPECT_EQ(solver.session().WhyNoGraph().empty(), graphs) << solver.session().WhyNoGraph();
      return run;
    };
    const Learned whole = run_of(true), single = run_of(false);
    EXPECT_GT(whole.losses.size(), 15U);
    EXPECT_EQ(whole.losses, single.losses);
    EXPECT_EQ(whole.weights, single.weights);
    EXPECT_EQ(whole.averages, single.averages);
  }
}

// The gradient is above the largest float at the first scales. With 3e32 it is not so near it at
// any of them that the order of a sum decides.
TEST_F(GpuSolver, SkipsUpdatesThatOverflowAsTheCpuDoes) {
  const std::string fields =
      "base_lr: 1e-34 momentum: 0.9 ema_decay: 0.5 lr_policy: 'fixed' max_iter: 12 clip_gradients: "
      "3e31 loss_scale { initial: 16777216 growth_interval: 5 } ";
  Learned runs[2];
  int64_t skipped[2];
  for (const On where : {On::kCpu, On::kGpu}) {
    std::string text = Text("");
    text.replace(text.find("base_lr: 0.003"), 14, fields);
    text.insert(text.find("type: \"EuclideanLoss\""), "loss_weight: 3e32 ");
    const auto i = static_cast<size_t>(where);
    Solver solver(test::ConfigOf(text), test::LayersWithGpuImplementations(),
                  Options(where, &recorder_));
    runs[i] = RunOf(solver, &recorder_);
    runs[i].losses.clear();  // of 1e31
    skipped[i] = recorder_.iterations.back().skipped_updates;
  }
  EXPECT_GE(skipped[0], 3);
  EXPECT_EQ(skipped[0], skipped[1]);
  ASSERT_NO_FATAL_FAILURE(ExpectNear(runs[0].weights, runs[1].weights, 1e-4, "weights"));
  ASSERT_NO_FATAL_FAILURE(ExpectNear(runs[0].averages, runs[1].averages, 1e-4, "averages"));
}

// Loading in between replaces only weights.
TEST_F(GpuSolver, LoadingWeightsKeepsTheHistory) {
  const std::string fields =
      "type: 'SGD' momentum: 0.9 lr_policy: 'fixed' max_iter: 6 snapshot: 2 ";
  Make(On::kCpu, fields)->Solve();
  std::vector<std::vector<std::vector<float>>> weights;
  for (const On where : {On::kCpu, On::kGpu}) {
    const auto solver = Make(where, fields);
    solver->Step(3);
    solver->LoadWeights({temp_.File("s_iter_2.caffemodel")});
    solver->Step(1);
    weights.push_back(ValuesOf(solver->weights()));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectNear(weights[0], weights[1], 1e-4, "weights"));
}

TEST_F(GpuSolver, AResumedRunEndsInTheSameBytes) {
  for (const UpdateRule& rule : UpdateRules()) {
    SCOPED_TRACE(rule.name);
    const std::string fields = StrCat(kManyFields, "max_iter: 9 snapshot: 4 ", FieldsOf(rule));
    Make(On::kGpu, fields)->Solve();
    const std::vector<std::string> whole = BytesOf(9);
    ASSERT_FALSE(whole[0].empty());
    for (int from : {4, 8}) {
      const auto resumed = Make(On::kGpu, fields);
      resumed->Restore(temp_.File(StrCat("s_iter_", from, ".solverstate")));
      resumed->Solve();
      EXPECT_EQ(whole, BytesOf(9)) << "from " << from;
    }
  }
}

// Files do not depend on the device: a run may be resumed on another.
TEST_F(GpuSolver, FilesAreThoseOfTheCpu) {
  const std::string fields =
      StrCat(kManyFields, "max_iter: 4 snapshot: 2 type: 'Adam' momentum: 0.9");
  Make(On::kCpu, fields)->Solve();
  const auto cpu = Make(On::kCpu, fields);
  cpu->Restore(temp_.File("s_iter_2.solverstate"));
  cpu->Snapshot();
  const std::vector<std::string> expected = BytesOf(2);
  const auto gpu = Make(On::kGpu, fields);
  gpu->Restore(temp_.File("s_iter_2.solverstate"));
  gpu->Snapshot();
  EXPECT_EQ(BytesOf(2), expected);
  gpu->Solve();
  cpu->Solve();
  ASSERT_NO_FATAL_FAILURE(
      ExpectNear(ValuesOf(cpu->weights()), ValuesOf(gpu->weights()), 1e-4, "weights"));
}

TEST_F(GpuSolver, TheSearchForALearningRateLeavesNoTrace) {
  const auto solver = Make(On::kGpu, "lr_policy: 'fixed' max_iter: 100 momentum: 0.9");
  const auto before = ValuesOf(solver->weights());
  const LrFinding finding =
      FindLearningRate({.start = 1e-4, .end = 1, .iterations = 12}, solver.get());
  EXPECT_GE(finding.points.size(), 10U);
  EXPECT_EQ(ValuesOf(solver->weights()), before);
  solver->Step(2);
  const auto fresh = Make(On::kGpu, "lr_policy: 'fixed' max_iter: 100 momentum: 0.9");
  fresh->Step(2);
  EXPECT_EQ(ValuesOf(solver->weights()), ValuesOf(fresh->weights()));
}

constexpr const char* kClassifierNet =
    "layer { name: 'feed' type: 'MemoryData' top: 'x' top: 'label' memory_data_param { "
    "batch_size: 2 channels: 1 height: 1 width: 2 } } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
    "inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } } "
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' }";

// Returns the error when training on these data diverges.
std::string DivergenceOf(On where, const std::vector<float>& data, const std::string& fields) {
  Recorder recorder;
  const std::vector<float> labels = {0, 1, 1, 0};
  const std::string text =
      StrCat("net_param { ", kClassifierNet, " } lr_policy: 'fixed' max_iter: 100 ",
             "random_seed: 3 snapshot_after_train: false ", fields);
  Solver solver(test::ConfigOf(text), test::LayersWithGpuImplementations(),
                Options(where, &recorder));
  dynamic_cast<MemoryFeed*>(solver.session().MutableState("feed"))->SetArrays(data, labels);
  try {
    solver.Step(4);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDiverged) << error.what();
    return error.what();
  }
  return "the run went on";
}

TEST_F(GpuSolver, DivergenceIsExplainedAsOnTheCpu) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& data :
       {std::vector<float>{1, 2, 3, 4, 5, 6, nan, 1}, {1, 2, 3, 4, 5, 6, 7, 8}}) {
    // The second: rates that no weight survives, found in the update itself.
    const std::string fields = std::isnan(data[6]) ? "base_lr: 0.1" : "base_lr: 3e38 momentum: 0.9";
    const std::string cpu = DivergenceOf(On::kCpu, data, fields);
    const std::string where = std::isnan(data[6]) ? "The data are at fault" : "the update gave";
    EXPECT_NE(cpu.find(where), std::string::npos) << cpu;
    EXPECT_EQ(DivergenceOf(On::kGpu, data, fields), cpu);
  }
}

// The update that broke is the last one: no pass comes after it.
TEST_F(GpuSolver, TheLastUpdateIsJudgedToo) {
  const std::vector<float> data = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto message = [&](const std::string& fields) {
    Recorder recorder;
    const std::string text =
        StrCat("net_param { ", kClassifierNet, " } lr_policy: 'fixed' max_iter: 1 ",
               "random_seed: 3 snapshot_after_train: false ", fields);
    Solver solver(test::ConfigOf(text), test::LayersWithGpuImplementations(),
                  Options(On::kGpu, &recorder));
    const std::vector<float> labels = {0, 1, 1, 0};
    dynamic_cast<MemoryFeed*>(solver.session().MutableState("feed"))->SetArrays(data, labels);
    try {
      solver.Solve();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("trained");
  };
  EXPECT_EQ(message("base_lr: 0.1"), "trained");
  EXPECT_NE(message("base_lr: 3e38").find("in iteration 0 (learning rate 3e+38)"),
            std::string::npos)
      << message("base_lr: 3e38");
}

}  // namespace
}  // namespace crema
