// Mistakes that run: each has a warning or an error, and the nets of models/ have none.
#include "solvers/run_mistakes.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/strings.h"
#include "solvers/check_run.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr char kMistakesNet[] =
    "layer { name: 'data' type: 'DummyData' top: 'x' top: 't' dummy_data_param { "
    "shape { dim: 6 dim: 4 } shape { dim: 6 } } } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { "
    "num_output: 3 weight_filler { type: 'xavier' } } } "
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 't' top: 'loss' } ";
constexpr char kSchedule[] =
    "lr_policy: 'fixed' base_lr: 0.1 max_iter: 4 snapshot_after_train: false ";

// Returns the errors and warnings of check, one in a line.
std::string Checked(const std::string& net, const std::string& solver) {
  std::vector<Problem> all;
  try {
    const SolverFile file = ParseSolver(StrCat("net_param { ", net, " } ", solver), "s");
    const CheckReport report = CheckRun(file, test::TestRegistry(), {.threads = 1, .weights = {}});
    all = report.problems;
    all.insert(all.end(), report.warnings.begin(), report.warnings.end());
  } catch (const Error& error) {
    all = error.problems();
  }
  std::string lines;
  for (const Problem& problem : all) lines += ToString(problem) + "\n";
  return lines;
}

void ExpectOnly(const std::string& lines, const std::string& message) {
  EXPECT_NE(lines.find(message), std::string::npos) << message << "\n" << lines;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << message << "\n" << lines;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(RunMistakes, ARightRunHasNone) { EXPECT_EQ(Checked(kMistakesNet, kSchedule), ""); }

TEST(RunMistakes, OfTheNet) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } kMistakes[] = {
      {"bottom: 'y' bottom: 't'", "bottom: 't' bottom: 'y'", "are its bottoms swapped?"},
      {"top: 'loss' }", "top: 'loss' loss_weight: nan }",
       "loss_weight is nan, not a finite number"},
      {"top: 'loss' }", "top: 'loss' loss_weight: [1, 2] }",
       "loss_weight has 2 entries for 1 tops"},
      {"top: 'loss' }", "top: 'loss' loss_weight: -1 }", "loss_weight is -1: training makes this"},
      {"top: 'loss' }",
       "top: 'loss' } layer { name: 'a' type: 'Accuracy' bottom: 'y' bottom: 't' top: 'a' "
       "loss_weight: 1 }",
       "an accuracy has no gradient"},
      {"'xavier'", "'gaussian'", "std is 1, Caffe's default"},
      {"top: 'y'", "top: 'y' param { lr_mult: -1 }", "lr_mult is -1; use 0 or more"},
      {"top: 't'", "top: 't' transform_param { scale: 0 }", "scale is 0: every value becomes 0"},
      {"top: 't'", "top: 't' transform_param { scale: 255 }", "scale is 255: bytes reach 65025;"},
      {"top: 'loss' }", "top: 'y' }", "the loss replaces its bottom 'y'"},
      {"layer { name: 'ip'",
       "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'b' batch_norm_param { "
       "use_global_stats: true } } layer { name: 'quiet' type: 'Silence' bottom: 'b' } "
       "layer { name: 'ip'",
       "the stored statistics of these layers are all 0: bn;"},
  };
  for (const auto& mistake : kMistakes) {
    const std::string lines = Checked(Replaced(kMistakesNet, mistake.from, mistake.to), kSchedule);
    EXPECT_NE(lines.find(mistake.message), std::string::npos) << lines;
  }
  const std::string with_softmax = Replaced(
      Replaced(kMistakesNet, "layer { name: 'loss'",
               "layer { name: 'p' type: 'Softmax' bottom: 'y' top: 'p' } layer { name: 'loss'"),
      "bottom: 'y' bottom: 't'", "bottom: 'p' bottom: 't'");
  ExpectOnly(Checked(with_softmax, kSchedule),
             "SoftmaxWithLoss computes the softmax itself: give it 'y', the bottom of layer \"p\"");
}

TEST(RunMistakes, OfTheSolver) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } kMistakes[] = {
      {"'fixed'", "'multistep' gamma: 0.1",
       "lr_policy 'multistep' needs the field 'stepvalue'; for example stepvalue: 10000"},
      {"'fixed'", "'multistep' gamma: 0.1 stepvalue: 9",
       "stepvalue[0] 9 is not below max_iter 4: the rate never drops"},
      {"'fixed'", "'step' gamma: 0.1 stepsize: 1000",
       "stepsize 1000 is not below max_iter 4: the rate never drops"},
      {"base_lr: 0.1", "base_lr: 100", "base_lr 100 is very large"},
      {"base_lr: 0.1", "base_lr: 0.1 weight_decay: 5", "weight_decay 5 is very large"},
      {"max_iter: 4", "max_iter: 0", "max_iter is 0: nothing is trained"},
      {"snapshot_after_train: false", "snapshot_prefix: ''", "nothing is saved"},
      {"max_iter: 4", "max_iter: 4 freeze: '.*'", "freeze holds every layer"},
      {"max_iter: 4", "max_iter: 4 test_interval: 2 test_iter: 1 test_iter: 1",
       "test net #1 is the same net as one before it"},
  };
  for (const auto& mistake : kMistakes) {
    ExpectOnly(Checked(kMistakesNet, Replaced(kSchedule, mistake.from, mistake.to)),
               mistake.message);
  }
  ExpectOnly(Checked(Replaced(kMistakesNet, "top: 'loss'", "top: 'accuracy'"),
                     StrCat(kSchedule, "test_interval: 2 test_iter: 1 ",
                            "early_stop { metric: 'accuracy' mode: MIN }")),
             "the smallest accuracy counts as the best: remove mode, or write MAX");
}

// Data layers without data: the text alone is looked at.
std::string WarningsOf(const std::string& train, const std::string& test) {
  const std::string net =
      StrCat("net_param { layer { name: 'd' type: 'Data' top: 'x' include { phase: TRAIN } ", train,
             " } layer { name: 'd' type: 'Data' top: 'x' include { phase: TEST } ", test,
             " } } test_interval: 2 ", kSchedule);
  std::string lines;
  for (const Problem& problem : MakeRunConfig(ParseSolver(net, "s")).solver.warnings) {
    lines += ToString(problem) + "\n";
  }
  return lines;
}

TEST(RunMistakes, OfTheDataOfTests) {
  const std::string train =
      "data_param { source: 'a' } transform_param { scale: 0.5 mean_value: 3 mirror: true }";
  const std::string other = "data_param { source: 'b' } ";
  EXPECT_EQ(WarningsOf(train, other + "transform_param { scale: 0.5 mean_value: 3 }"), "");
  ExpectOnly(WarningsOf(train, other + "transform_param { mean_value: 3 }"),
             "TEST scales by 1, but TRAIN by 0.5");
  ExpectOnly(WarningsOf(train, other + "transform_param { scale: 0.5 }"),
             "the mean of TEST is none, but that of TRAIN is 3");
  ExpectOnly(WarningsOf(train,
                        "data_param { source: 'a' } transform_param { scale: 0.5 "
                        "mean_value: 3 }"),
             "TEST reads the training set, 'a'");
}

TEST(RunMistakes, ALayerThatOnlyTestHasIsNotTrained) {
  const std::string net = Replaced(
      kMistakesNet, "layer { name: 'loss'",
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'x' top: 'z' include { phase: TEST } "
      "inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } } "
      "layer { name: 'loss'");
  const std::string lines = Checked(net, StrCat(kSchedule, "test_interval: 2 test_iter: 1 "));
  ExpectOnly(lines, "layer \"ip2\": test net #0 has this layer, but the training net has not");
}

TEST(RunMistakes, ANetBesideTheSolverIsNamedWithItsFolder) {
  const test::TempDir folder;
  folder.Write("net.pt", kMistakesNet);
  const std::string solver = folder.Write("s.pt", StrCat("net: 'net.pt' ", kSchedule));
  try {
    MakeRunConfig(ReadSolver(solver));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("write \"" + folder.File("net.pt") + "\""),
              std::string::npos)
        << error.what();
  }
}

TEST(RunMistakes, TheNetsOfModelsHaveNone) {
  const fs::path root = CREMA_SOURCE_DIR;
  int found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root / "models")) {
    const std::string name = entry.path().filename().string();
    if (name.find("solver") == std::string::npos || entry.path().extension() != ".prototxt") {
      continue;
    }
    SolverFile solver = ReadSolver(entry.path().string());
    SolverParameter& param = solver.solver;
    if (param.has_net()) param.set_net((root / param.net()).string());
    if (param.has_train_net()) param.set_train_net((root / param.train_net()).string());
    for (std::string& net : *param.mutable_test_net()) net = (root / net).string();
    for (const Problem& warning : WarnAboutRun(MakeRunConfig(std::move(solver)))) {
      ADD_FAILURE() << entry.path() << ": " << ToString(warning);
    }
    ++found;
  }
  EXPECT_GT(found, 5);
}

}  // namespace
}  // namespace crema
