#include "solvers/solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/solver_state.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using test::ValuesOf;

// Random inputs and a fixed target, so that nothing has to be read; Dropout makes the random state
// matter.
constexpr const char* kToyNet = R"(
name: "toy"
layer { name: "data" type: "DummyData" top: "x" top: "t"
  dummy_data_param { shape { dim: 6 dim: 4 } shape { dim: 6 dim: 3 }
    data_filler { type: "gaussian" } data_filler { type: "constant" value: 0.5 } } }
layer { name: "hidden" type: "InnerProduct" bottom: "x" top: "h"
  inner_product_param { num_output: 8 weight_filler { type: "xavier" } } }
layer { name: "drop" type: "Dropout" bottom: "h" top: "h" }
layer { name: "relu" type: "ReLU" bottom: "h" top: "h" }
layer { name: "out" type: "InnerProduct" bottom: "h" top: "y"
  param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" }
)";

std::string SolverText(const std::string& rest) {
  return "net_param { " + std::string(kToyNet) +
         " } base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 random_seed: 3 " + rest;
}

std::unique_ptr<Solver> MakeToySolver(const std::string& rest, SolverOptions options = {}) {
  if (options.threads == 0) options.threads = 1;
  return std::make_unique<Solver>(MakeRunConfig(ParseSolver(SolverText(rest), "solver.prototxt")),
                                  TestRegistry(), std::move(options));
}

std::vector<std::vector<float>> WeightsOf(Solver& solver) {
  std::vector<std::vector<float>> weights;
  for (size_t s = 0; s < solver.weights().size(); ++s) {
    weights.push_back(ValuesOf(std::as_const(solver.weights()).blob(s)));
  }
  return weights;
}

std::string ErrorOf(const std::string& text) {
  try {
    Solver(MakeRunConfig(ParseSolver(text, "solver.prototxt")), TestRegistry(), {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Solver, NetsInsideOfItKeepTheirLines) {
  EXPECT_EQ(ErrorOf("net_param {\n layers { name: 'd' type: DUMMY_DATA\n"
                    "  dummy_data_param { num: 1 channels: 1 height: 1 width: 1 } top: 'x' }\n"
                    " layers { name: 'i' type: INNER_PRODUCT bottom: 'y' top: 'i'\n"
                    "  inner_product_param { num_output: 1 } } }\n"
                    "base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 snapshot_after_train: false"),
            "solver.prototxt:4:41: layer \"i\": no layer before this one produces bottom 'y'");
}

TEST(Solver, LossFalls) {
  const auto solver = MakeToySolver("max_iter: 200 snapshot_after_train: false");
  const double before = solver->session().Forward();
  solver->Step(200);
  double after = 0;
  for (int i = 0; i < 10; ++i) after += solver->session().Forward() / 10;
  EXPECT_LT(after, 0.3 * before);
}

TEST(Solver, OneSgdStepIsWhatTheFormulaSays) {
  const auto solver = MakeToySolver("max_iter: 2 weight_decay: 0.01 snapshot_after_train: false");
  const auto before = WeightsOf(*solver);
  solver->Step(1);
  const auto after = WeightsOf(*solver);
  for (size_t s = 0; s < before.size(); ++s) {
    const ParameterSlot& slot = solver->plan().parameters[s];
    const auto gradient = ValuesOf(solver->session().ParameterGradient(s));
    for (size_t i = 0; i < before[s].size(); ++i) {
      const double g = gradient[i] + 0.01 * slot.decay_mult * before[s][i];
      EXPECT_NEAR(after[s][i], before[s][i] - 0.1 * slot.lr_mult * g, 1e-6);
    }
  }
}

TEST(Solver, ClippingBoundsTheStep) {
  const auto solver =
      MakeToySolver("max_iter: 1 clip_gradients: 0.001 snapshot_after_train: false");
  const auto before = WeightsOf(*solver);
  solver->Step(1);
  const auto after = WeightsOf(*solver);
  double norm = 0;
  for (size_t s = 0; s < before.size(); ++s) {
    const double multiplier = solver->plan().parameters[s].lr_mult;
    for (size_t i = 0; i < before[s].size(); ++i) {
      norm += std::pow((after[s][i] - before[s][i]) / (0.1 * multiplier), 2);
    }
  }
  EXPECT_NEAR(std::sqrt(norm), 0.001, 1e-5);
}

TEST(Solver, L1DecayPullsTowardsZero) {
  const auto l1 = MakeToySolver(
      "max_iter: 1 weight_decay: 0.5 regularization_type: \"L1\" "
      "snapshot_after_train: false");
  const auto plain = MakeToySolver("max_iter: 1 snapshot_after_train: false");
  const auto before = WeightsOf(*l1);
  l1->Step(1);
  plain->Step(1);
  const auto with = WeightsOf(*l1);
  const auto without = WeightsOf(*plain);
  for (size_t i = 0; i < before[0].size(); ++i) {
    const double sign = (before[0][i] > 0) - (before[0][i] < 0);
    EXPECT_NEAR(without[0][i] - with[0][i], 0.1 * 0.5 * sign, 1e-6);
  }
}

TEST(Solver, ResumingIsBitForBit) {
  const TempDir temp;
  const std::string rest = StrCat(
      "max_iter: 20 iter_size: 2 average_loss: 7 display: 1 snapshot: 7 "
      "snapshot_prefix: \"",
      temp.path(), "/s\"");
  class Losses : public TrainingObserver {
   public:
    void OnIteration(const IterationReport& r) override { values[r.iteration] = r.smoothed_loss; }
    std::map<int64_t, double> values;
  };
  Losses whole_losses;
  SolverOptions options;
  options.observer = &whole_losses;
  const auto whole = MakeToySolver(rest, std::move(options));
  whole->Solve();

  for (const char* suffix : {"", "_threads"}) {
    Losses resumed_losses;
    SolverOptions resumed_options;
    resumed_options.observer = &resumed_losses;
    const auto resumed = MakeToySolver(rest, std::move(resumed_options));
    resumed->Restore(temp.path() + "/s_iter_7.solverstate");
    EXPECT_EQ(resumed->iteration(), 7);
    resumed->Solve();
    EXPECT_EQ(WeightsOf(*resumed), WeightsOf(*whole)) << suffix;
    // The window of the displayed loss resumes too (it is saved as float).
    EXPECT_NEAR(resumed_losses.values.at(7), whole_losses.values.at(7), 1e-5);
  }
}

TEST(Solver, ResumingFromHdf5IsBitForBit) {
#ifndef CREMA_HAVE_HDF5
  GTEST_SKIP() << "this build has no HDF5";
#else
  const TempDir temp;
  const std::string rest = StrCat(
      "max_iter: 12 snapshot: 5 snapshot_format: HDF5 "
      "snapshot_prefix: \"",
      temp.path(), "/s\"");
  const auto whole = MakeToySolver(rest);
  whole->Solve();
  const auto resumed = MakeToySolver(rest);
  resumed->Restore(temp.path() + "/s_iter_5.solverstate.h5");
  resumed->Solve();
  EXPECT_EQ(WeightsOf(*resumed), WeightsOf(*whole));
#endif
}

TEST(Solver, StateOfAnotherTypeIsRefusedByName) {
  const TempDir temp;
  const std::string rest = StrCat("max_iter: 2 snapshot_prefix: \"", temp.path(), "/s\"");
  const auto solver = MakeToySolver(rest);
  solver->Solve();
  const std::string path = temp.path() + "/s_iter_2.solverstate";
  SolverState state = ReadSolverState(path);
  state.set_solver_type("Adam");
  WriteSolverState(state, path);
  try {
    MakeToySolver(rest)->Restore(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("this state is of a Adam solver"), std::string::npos)
        << error.what();
  }
}

TEST(Solver, AStateOfAnotherNetOrAnotherModelIsRefused) {
  const TempDir temp;
  const std::string rest =
      StrCat("max_iter: 4 snapshot: 2 snapshot_prefix: \"", temp.path(), "/s\"");
  MakeToySolver(rest)->Solve();
  namespace fs = std::filesystem;
  // The model of iteration 4 under the name of iteration 2.
  fs::copy_file(temp.path() + "/s_iter_4.caffemodel", temp.path() + "/s_iter_2.caffemodel",
                fs::copy_options::overwrite_existing);
  try {
    MakeToySolver(rest)->Restore(temp.path() + "/s_iter_2.solverstate");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is not the one that was saved with this state"),
              std::string::npos)
        << error.what();
  }
  fs::remove(temp.path() + "/s_iter_4.caffemodel");
  try {
    MakeToySolver(rest)->Restore(temp.path() + "/s_iter_4.solverstate");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

TEST(Solver, ACaffeStateWithoutOurFieldsResumes) {
  const TempDir temp;
  const std::string rest =
      StrCat("max_iter: 4 snapshot: 2 snapshot_prefix: \"", temp.path(), "/s\"");
  MakeToySolver(rest)->Solve();
  const SolverState full = ReadSolverState(temp.path() + "/s_iter_2.solverstate");
  SolverState plain;
  plain.set_iter(full.iter());
  plain.set_learned_net(full.learned_net());
  *plain.mutable_history() = full.history();
  plain.set_current_step(full.current_step());
  const std::string path = temp.path() + "/caffe.solverstate";
  std::ofstream(path, std::ios::binary) << plain.SerializeAsString();
  const auto resumed = MakeToySolver(rest);
  resumed->Restore(path);
  EXPECT_EQ(resumed->iteration(), 2);
  EXPECT_TRUE(resumed->Step(2));
}

TEST(Solver, DivergenceEndsWithItsOwnCode) {
  const auto solver = MakeToySolver("max_iter: 500 snapshot_after_train: false");
  for (size_t s = 0; s < solver->weights().size(); ++s) {
    for (float& w : solver->weights().blob(s).span<float>()) w = 1e30F;
  }
  try {
    solver->Step(5);
    FAIL() << "NaN went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDiverged);
    EXPECT_EQ(ExitCode(error.code()), 5);
  }
}

TEST(Solver, TwoNetsTrainInTwoThreads) {
  const auto train = [](std::vector<std::vector<float>>* weights) {
    const auto solver = MakeToySolver("max_iter: 30 snapshot_after_train: false");
    solver->Step(30);
    *weights = WeightsOf(*solver);
  };
  std::vector<std::vector<float>> expected;
  train(&expected);
  std::vector<std::vector<float>> a;
  std::vector<std::vector<float>> b;
  std::thread first(train, &a);
  std::thread second(train, &b);
  first.join();
  second.join();
  EXPECT_EQ(a, expected);
  EXPECT_EQ(b, expected);
}

TEST(Solver, SeveralTestNetsRunAtTheirIntervals) {
  class Tests : public TrainingObserver {
   public:
    void OnTest(const TestReport& r) override { seen.emplace_back(r.iteration, r.net); }
    std::vector<std::pair<int64_t, size_t>> seen;
  };
  Tests tests;
  SolverOptions options;
  options.observer = &tests;
  const auto solver = MakeToySolver(
      "max_iter: 4 test_iter: 3 test_iter: 2 test_interval: 2 snapshot_after_train: false",
      std::move(options));
  solver->Solve();
  const std::vector<std::pair<int64_t, size_t>> expected = {{0, 0}, {0, 1}, {2, 0},
                                                            {2, 1}, {4, 0}, {4, 1}};
  EXPECT_EQ(tests.seen, expected);
}

TEST(Solver, TestInitializationCanBeLeftOut) {
  class Tests : public TrainingObserver {
   public:
    void OnTest(const TestReport& r) override { first = std::min(first, r.iteration); }
    int64_t first = 1000;
  };
  Tests tests;
  SolverOptions options;
  options.observer = &tests;
  MakeToySolver(
      "max_iter: 4 test_iter: 1 test_interval: 2 test_initialization: false "
      "snapshot_after_train: false",
      std::move(options))
      ->Solve();
  EXPECT_EQ(tests.first, 2);
}

TEST(Solver, RequestsSnapshotAndStop) {
  const TempDir temp;
  int polls = 0;
  SolverOptions options;
  options.poll = [&] {
    ++polls;
    return polls == 3 ? Request::kSnapshot : polls == 5 ? Request::kStop : Request::kNone;
  };
  const auto solver = MakeToySolver(
      StrCat("max_iter: 100 snapshot_prefix: \"", temp.path(), "/s\""), std::move(options));
  solver->Solve();
  EXPECT_EQ(solver->iteration(), 5);
  EXPECT_TRUE(std::filesystem::exists(temp.path() + "/s_iter_3.solverstate"));
  EXPECT_TRUE(std::filesystem::exists(temp.path() + "/s_iter_5.caffemodel"));
}

TEST(Solver, SnapshotFolderThatCannotBeMadeIsNoticedBeforeTraining) {
  const std::string error =
      ErrorOf(SolverText("max_iter: 1 snapshot: 1 snapshot_prefix: \"/proc/no/folder/s\""));
  EXPECT_NE(error.find("/proc/no/folder"), std::string::npos) << error;
}

TEST(SolverConfig, AllProblemsOfTheFileAtOnce) {
  const std::string error =
      ErrorOf("base_lr: -nan\nlr_policy: \"nope\"\niter_size: 0\ntype: \"SDG\"\n");
  for (const char* expected :
       {"solver.prototxt:1:1: base_lr is", "solver.prototxt:2:1: unknown lr_policy 'nope'",
        "solver.prototxt:3:1: iter_size is 0; use 1 or more", "(did you mean 'SGD'?)",
        "no net: set one of", "missing required field 'max_iter'"}) {
    EXPECT_NE(error.find(expected), std::string::npos) << expected << "\n" << error;
  }
}

TEST(SolverConfig, TestFieldsMustAgree) {
  const std::string base = SolverText("max_iter: 1 ");
  EXPECT_NE(ErrorOf(base + "test_iter: 1").find("test_interval is not"), std::string::npos);
  EXPECT_NE(ErrorOf(base + "test_iter: 1 test_interval: 1 test_state { } test_state { }")
                .find("has 2 entries for 1 test nets"),
            std::string::npos);
  EXPECT_NE(ErrorOf(base + "net: \"also.prototxt\"").find("several nets to train"),
            std::string::npos);
}

TEST(SolverConfig, MissingNetFileIsReportedWhereItIsNamed) {
  const std::string error =
      ErrorOf("net: \"not_there.prototxt\"\nbase_lr: 1 lr_policy: \"fixed\" max_iter: 1");
  EXPECT_NE(error.find("solver.prototxt:1:1: "), std::string::npos) << error;
  EXPECT_NE(error.find("not_there.prototxt"), std::string::npos) << error;
}

TEST(LossWindow, GrowsThenSlides) {
  LossWindow window(3);
  for (double loss : {1.0, 2.0}) window.Add(loss);
  EXPECT_DOUBLE_EQ(window.Mean(), 1.5);
  for (double loss : {3.0, 10.0}) window.Add(loss);
  EXPECT_DOUBLE_EQ(window.Mean(), 5);
  SolverState state;
  window.Save(&state);
  LossWindow restored(3);
  restored.Restore(state);
  restored.Add(11);
  EXPECT_DOUBLE_EQ(restored.Mean(), 8);
}

}  // namespace
}  // namespace crema
