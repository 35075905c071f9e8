// Error messages of a run that is no longer finite.
#include "solvers/diagnose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/memory_feed.h"
#include "data/records/lmdb.h"
#include "solvers/solver.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using test::ValuesOf;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::unique_ptr<Solver> MakeDiagnosedSolver(const std::string& net, const std::string& rest = "") {
  const std::string text = StrCat("net_param { ", net, " } lr_policy: 'fixed' max_iter: 100 ",
                                  "random_seed: 3 snapshot_after_train: false ", rest);
  return std::make_unique<Solver>(MakeRunConfig(ParseSolver(text, "solver.prototxt")),
                                  TestRegistry(),
                                  SolverOptions{.threads = 1, .poll = {}, .seed = {}});
}

std::string DivergenceOf(Solver& solver) {
  try {
    solver.Step(50);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDiverged) << error.what();
    return error.what();
  }
  return "the run went on";
}

void ExpectContains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

// Two values a sample; sample n holds `values[n]` twice. Keys are "key0", "key1", ...
std::string WriteSet(const TempDir& temp, const std::vector<float>& values) {
  LmdbWriter writer(temp.File("set"));
  for (size_t i = 0; i < values.size(); ++i) {
    Datum datum;
    datum.set_channels(2);
    datum.set_height(1);
    datum.set_width(1);
    datum.add_float_data(values[i]);
    datum.add_float_data(values[i]);
    writer.Put(StrCat("key", i), datum.SerializeAsString());
  }
  writer.Close();
  return temp.File("set");
}

std::string DataNet(const std::string& set, int batch, const std::string& middle = "") {
  return StrCat("layer { name: 'data' type: 'Data' top: 'x' top: 'label' data_param { source: '",
                set, "' batch_size: ", batch, " } } ", middle,
                "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
                "inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } } "
                "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' }");
}

TEST(Diagnose, DataThatAreNotFiniteAreNamedByTheirKeys) {
  TempDir temp;
  const auto solver = MakeDiagnosedSolver(
      DataNet(WriteSet(temp, {1, 2, 3, 4, kNan, 1, 1, kNan, 1, 1}), 3), "base_lr: 0.25");
  ExpectContains(
      DivergenceOf(*solver),
      {"layer \"data\": training diverged: the loss is ", "in iteration 1 (learning rate 0.25)",
       "The data are at fault: \"x\" holds nan in 2 of 6 values, in sample 'key4'; mend",
       "No snapshot was written before"});
}

TEST(Diagnose, TheFirstFewBadSamplesAreNamed) {
  TempDir temp;
  const auto solver = MakeDiagnosedSolver(
      DataNet(WriteSet(temp, {1, kNan, kNan, 2, kNan, kNan, kNan, 1}), 8), "base_lr: 0.1");
  ExpectContains(DivergenceOf(*solver), {"in samples 'key1', 'key2', 'key4' and 2 more"});
}

TEST(Diagnose, AbsurdlyLargeDataAreNamed) {
  TempDir temp;
  const auto solver =
      MakeDiagnosedSolver(DataNet(WriteSet(temp, {1, 2, 3e38F, 3}), 4,
                                  "layer { name: 'sq' type: 'Power' bottom: 'x' top: 'x' "
                                  "power_param { power: 2 } } "),
                          "base_lr: 0.1");
  ExpectContains(DivergenceOf(*solver),
                 {"The data are at fault: \"x\" holds values up to 3e+38, in sample 'key2'"});
}

TEST(Diagnose, TheBatchOfTheFailingPassIsLookedAt) {
  TempDir temp;
  const auto solver = MakeDiagnosedSolver(DataNet(WriteSet(temp, {1, 2, 3, 4, kNan, 1}), 2),
                                          "base_lr: 0.1 iter_size: 3");
  ExpectContains(DivergenceOf(*solver), {"in iteration 0", "in sample 'key4'"});
}

// The running means of the pass itself are broken by its data.
TEST(Diagnose, StatisticsAreNoCauseAndStayAsTheyAre) {
  TempDir temp;
  const auto solver =
      MakeDiagnosedSolver(DataNet(WriteSet(temp, {1, 2, 3, kNan}), 2,
                                  "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'x' } "
                                  "layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'x' } "),
                          "base_lr: 0.1");
  ExpectContains(DivergenceOf(*solver), {"layer \"data\"", "The data are at fault", "'key3'"});
}

constexpr char kToy[] =
    "layer { name: 'data' type: 'DummyData' top: 'x' top: 't' dummy_data_param { "
    "shape { dim: 6 dim: 4 } shape { dim: 6 dim: 3 } data_filler { type: 'gaussian' } "
    "data_filler { type: 'constant' value: 0.5 } } } "
    "layer { name: 'hidden' type: 'InnerProduct' bottom: 'x' top: 'h' "
    "inner_product_param { num_output: 8 weight_filler { type: 'xavier' } } } "
    "layer { name: 'relu' type: 'ReLU' bottom: 'h' top: 'h' } "
    "layer { name: 'out' type: 'InnerProduct' bottom: 'h' top: 'y' "
    "inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } } "
    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' }";

TEST(Diagnose, WeightsThatGrewAreBlamed) {
  const auto solver = MakeDiagnosedSolver(kToy, "base_lr: 1e25");
  ExpectContains(DivergenceOf(*solver),
                 {"(learning rate 1e+25)", "in iteration 1", "The weights are at fault: those of",
                  "have grown to ", "lower base_lr"});
}

TEST(Diagnose, WeightsThatAreNotFiniteAreNamed) {
  const auto solver = MakeDiagnosedSolver(kToy, "base_lr: 0.01");
  solver->weights().blob(2).span<float>()[5] = kNan;
  const std::vector<float> before = ValuesOf(std::as_const(solver->weights()).blob(2));
  ExpectContains(DivergenceOf(*solver),
                 {"layer \"out\": training diverged: the loss is nan in iteration 0",
                  "The weights are at fault: blob 0 (weight) holds nan in 1 of 24 values",
                  "before the first update"});
  solver->weights().blob(2).span<float>()[5] = before[4];
  EXPECT_TRUE(solver->Step(1));
  solver->weights().blob(2).span<float>()[5] = std::numeric_limits<float>::infinity();
  ExpectContains(DivergenceOf(*solver), {"so the update of iteration 0 overflowed"});
}

TEST(Diagnose, ALayerThatComputesWhatIsNotFiniteIsNamed) {
  TempDir temp;
  const auto solver =
      MakeDiagnosedSolver(DataNet(WriteSet(temp, {1, 2, -3, 4}), 4,
                                  "layer { name: 'log' type: 'Log' bottom: 'x' top: 'x' } "),
                          "base_lr: 0.1");
  ExpectContains(DivergenceOf(*solver),
                 {"layer \"log\"", "arithmetic is at fault: its output \"x\" holds ",
                  "in sample 'key2'", "its inputs up to 4"});
}

TEST(Diagnose, WithoutBadSamplesTheBatchIsNamed) {
  TempDir temp;
  const auto solver = MakeDiagnosedSolver(DataNet(WriteSet(temp, {1, 2, 3, 4}), 2), "base_lr: 0.1");
  ASSERT_TRUE(solver->Step(1));
  solver->weights().blob(0).span<float>()[0] = kNan;
  ExpectContains(DivergenceOf(*solver),
                 {"weights are at fault", "The batch has the samples 'key2' to 'key3'"});
}

TEST(Diagnose, DataThatAProgramHandsOverAreLookedAtToo) {
  const auto solver = MakeDiagnosedSolver(
      "layer { name: 'feed' type: 'MemoryData' top: 'x' top: 'label' memory_data_param { "
      "batch_size: 2 channels: 1 height: 1 width: 2 } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
      "inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } } "
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' }",
      "base_lr: 0.1");
  const std::vector<float> data = {1, 2, 3, 4, 5, 6, kNan, 1};
  const std::vector<float> labels = {0, 1, 1, 0};
  dynamic_cast<MemoryFeed*>(solver->session().MutableState("feed"))->SetArrays(data, labels);
  ExpectContains(DivergenceOf(*solver), {"layer \"feed\"", "The data are at fault",
                                         "in sample 'image 3 of those handed over'"});
}

TEST(Diagnose, TheFirstGradientThatIsNotFiniteIsNamed) {
  const auto solver = MakeDiagnosedSolver(kToy, "base_lr: 0.5");
  solver->session().Forward();
  solver->session().Backward();
  const DivergedRun run{.iteration = 7, .rate = 0.5, .last_snapshot = "snap_iter_5.caffemodel"};
  std::string text = DiagnoseUpdate(solver->session(), 1, run).what();
  ExpectContains(text,
                 {"layer \"hidden\": training diverged: the update gave values of blob 1 (bias) "
                  "of \"hidden\" that are not finite in iteration 7 (learning rate 0.5)",
                  "The learning rate is at fault: the gradients are finite",
                  "The last snapshot with finite weights is snap_iter_5.caffemodel"});
  for (const size_t slot : {0, 2}) {
    solver->session().ParameterGradient(slot).span<float>()[3] = kNan;
  }
  text = DiagnoseUpdate(solver->session(), 1, run).what();
  ExpectContains(text, {"layer \"out\"",
                        "The gradient is at fault: that of blob 0 (weight) holds nan "
                        "in 1 of 24 values"});
}

TEST(Diagnose, GradientsAreReportedWithoutTheLossScale) {
  const auto solver = MakeDiagnosedSolver(kToy, "base_lr: 0.5");
  solver->session().Forward();
  solver->session().Backward();
  for (size_t slot = 0; slot < solver->session().plan().parameters.size(); ++slot) {
    std::ranges::fill(solver->session().ParameterGradient(slot).span<float>(), 512.0F);
  }
  const DivergedRun run{.iteration = 7, .rate = 0.5, .gradient_scale = 1.0 / 1024};
  ExpectContains(DiagnoseUpdate(solver->session(), 1, run).what(), {"finite (up to 0.5)"});
}

TEST(Diagnose, TheLastSnapshotIsNamed) {
  TempDir temp;
  const auto solver = MakeDiagnosedSolver(kToy, StrCat("base_lr: 0.01 snapshot_format: BINARYPROTO "
                                                       "snapshot: 2 snapshot_prefix: '",
                                                       temp.File("s"), "'"));
  ASSERT_TRUE(solver->Step(3));
  solver->weights().blob(0).span<float>()[0] = kNan;
  ExpectContains(DivergenceOf(*solver),
                 {"The last snapshot with finite weights is " + temp.File("s_iter_2.caffemodel")});
}

TEST(Diagnose, BytesAreNeverAtFault) {
  TempDir temp;
  LmdbWriter writer(temp.File("set"));
  for (int i = 0; i < 6; ++i) {
    Datum datum;
    datum.set_channels(2);
    datum.set_height(1);
    datum.set_width(1);
    datum.set_data(std::string(2, static_cast<char>(40 * i)));
    datum.set_label(i % 2);
    writer.Put(StrCat("key", i), datum.SerializeAsString());
  }
  writer.Close();
  const auto solver = MakeDiagnosedSolver(
      StrCat("layer { name: 'data' type: 'Data' top: 'bytes' top: 'label' data_param { source: '",
             temp.File("set"),
             "' batch_size: 3 } pipeline_param { output: U8 } } "
             "layer { name: 'x' type: 'PixelsToFloat' bottom: 'bytes' top: 'x' } "
             "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { "
             "num_output: 2 weight_filler { type: 'xavier' } } } "
             "layer { name: 'flat' type: 'Flatten' bottom: 'x' top: 'flat' } "
             "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 'flat' } "),
      "base_lr: 10");
  ExpectContains(DivergenceOf(*solver), {"training diverged", "lower base_lr"});
}

}  // namespace
}  // namespace crema
