// An interrupted and resumed run ends with the same bytes as an uninterrupted one.
#include "solvers/resume.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/solver_state.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ConfigOf;
using test::MakeSolver;
using test::OptionsFor;
using test::Recorder;
using test::TempDir;
using test::TestRegistry;
using test::ValuesOf;

// Fields that this solver type takes: some refuse momentum, some need it.
std::string FieldsOf(const UpdateRule& rule) {
  for (const std::string& fields :
       {StrCat("momentum: 0.9 momentum2: 0.99 "), StrCat("momentum2: 0.99 ")}) {
    SolverParameter param =
        ParseSolver(StrCat("type: '", rule.name, "' ", fields), "fields.prototxt").solver;
    if (CheckUpdate(rule, param).empty()) return StrCat("type: '", rule.name, "' ", fields);
  }
  ADD_FAILURE() << "no fields for " << rule.name;
  return "";
}

std::vector<std::string> TypeNames() {
  std::vector<std::string> names;
  for (const UpdateRule& rule : UpdateRules()) names.push_back(rule.name);
  return names;
}

// The bytes of every file of the last snapshot and of the best model.
std::vector<std::string> FinalBytes(const TempDir& temp, int iteration, const std::string& suffix) {
  std::vector<std::string> bytes;
  for (const std::string& name :
       {StrCat("s_iter_", iteration, ".caffemodel"), StrCat("s_iter_", iteration, ".solverstate"),
        StrCat("s_iter_", iteration, "_ema.caffemodel"), std::string("s_best.caffemodel")}) {
    bytes.push_back(temp.Read(name + suffix));
  }
  return bytes;
}

constexpr const char* kEverything =
    "iter_size: 2 average_loss: 3 display: 1 weight_decay: 0.01 ema_decay: 0.8 "
    "test_interval: 2 snapshot_best { } early_stop { patience: 40 } ";

class ResumeOfType : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    test::WriteRecords(temp_.File("train"), 13);
    test::WriteRecords(temp_.File("test"), 7);
  }
  std::string Text(const std::string& rest) const {
    return StrCat("net_param { ", test::RegressionNet(temp_.path(), 4, 3), " } base_lr: 0.003 ",
                  "lr_policy: 'fixed' random_seed: 5 max_iter: 9 snapshot: 1 snapshot_prefix: '",
                  temp_.File("s"), "' ", FieldsOf(*FindUpdateRule(GetParam())), rest);
  }
  void ExpectSameFromEverySnapshot(const std::string& text, const std::string& suffix) const {
    Recorder whole;
    MakeSolver(text, OptionsFor(&whole))->Solve();
    const std::vector<std::string> expected = FinalBytes(temp_, 9, suffix);
    ASSERT_FALSE(expected[0].empty());
    for (int from : {1, 2, 5, 8}) {
      fs::remove(temp_.File("s_iter_9.caffemodel" + suffix));
      fs::remove(temp_.File("s_iter_9.solverstate" + suffix));
      Recorder resumed;
      const auto solver = MakeSolver(text, OptionsFor(&resumed));
      solver->Restore(temp_.File(StrCat("s_iter_", from, ".solverstate", suffix)));
      solver->Solve();
      EXPECT_TRUE(FinalBytes(temp_, 9, suffix) == expected) << "from iteration " << from;
      EXPECT_EQ(resumed.iterations.back().smoothed_loss, whole.iterations.back().smoothed_loss);
      if (whole.tests.empty()) continue;
      EXPECT_EQ(resumed.tests.back().loss, whole.tests.back().loss);
    }
  }

  TempDir temp_;
};

TEST_P(ResumeOfType, PlainRun) { ExpectSameFromEverySnapshot(Text(""), ""); }

TEST_P(ResumeOfType, WithEverythingARunCanRemember) {
  ExpectSameFromEverySnapshot(Text(kEverything), "");
}

TEST_P(ResumeOfType, Hdf5) {
#ifndef CREMA_HAVE_HDF5
  GTEST_SKIP() << "this build has no HDF5";
#else
  const std::string text = Text(StrCat(kEverything, "snapshot_format: HDF5"));
  Recorder whole;
  MakeSolver(text, OptionsFor(&whole))->Solve();
  const SolverState expected = ReadSolverState(temp_.File("s_iter_9.solverstate.h5"));
  const auto solver = MakeSolver(text, OptionsFor(&whole));
  solver->Restore(temp_.File("s_iter_4.solverstate.h5"));
  solver->Solve();
  const SolverState state = ReadSolverState(temp_.File("s_iter_9.solverstate.h5"));
  EXPECT_EQ(state.SerializeAsString(), expected.SerializeAsString());
#endif
}

INSTANTIATE_TEST_SUITE_P(Types, ResumeOfType, ::testing::ValuesIn(TypeNames()),
                         [](const auto& test) { return test.param; });

class Resume : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteRecords(temp_.File("train"), 13);
    test::WriteRecords(temp_.File("test"), 7);
  }
  std::string Text(const std::string& rest) const {
    return StrCat("net_param { ", test::RegressionNet(temp_.path(), 4, 3), " } base_lr: 0.01 ",
                  "lr_policy: 'fixed' random_seed: 5 momentum: 0.9 snapshot_prefix: '",
                  temp_.File("s"), "' ", rest);
  }
  Resumed Newest(const std::string& text) {
    return ResumeNewest(ConfigOf(text), TestRegistry(), OptionsFor(&recorder_));
  }
  // Cuts the end off.
  void Damage(const std::string& name) const {
    const std::string bytes = temp_.Read(name);
    ASSERT_FALSE(bytes.empty()) << name;
    temp_.Write(name, bytes.substr(0, bytes.size() / 2));
  }

  TempDir temp_;
  Recorder recorder_;
};

TEST_F(Resume, ResumeWithinATestRepeatsThatTest) {
  for (const Request request : {Request::kSnapshot, Request::kStop}) {
    const std::string text = Text(
        "max_iter: 8 test_interval: 4 test_iter: 3 ema_decay: 0.9 early_stop { patience: 9 } "
        "snapshot_best { }");
    Recorder whole;
    MakeSolver(text, OptionsFor(&whole))->Solve();
    const auto expected = FinalBytes(temp_, 8, "");
    fs::remove(temp_.File("s_iter_8.solverstate"));
    // The first test has 3 batches, then come 4 iterations, then the second batch of a test.
    int polls = 0;
    Recorder interrupted;
    SolverOptions options = OptionsFor(&interrupted);
    options.poll = [&] { return ++polls == 9 ? request : Request::kNone; };
    const auto first = MakeSolver(text, std::move(options));
    first->Solve();
    ASSERT_TRUE(fs::exists(temp_.File("s_iter_4.solverstate")));
    EXPECT_EQ(interrupted.stopped_early, request == Request::kStop);
    fs::remove(temp_.File("s_iter_8.solverstate"));
    Recorder resumed;
    const auto second = MakeSolver(text, OptionsFor(&resumed));
    second->Restore(temp_.File("s_iter_4.solverstate"));
    second->Solve();
    EXPECT_TRUE(FinalBytes(temp_, 8, "") == expected);
    ASSERT_EQ(resumed.tests.size(), 2U);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(resumed.tests[i].loss, whole.tests[i + 1].loss);
    fs::remove(temp_.File("s_iter_4.solverstate"));
  }
}

TEST_F(Resume, NewestBeginsWithoutASnapshotAndSaysSo) {
  const Resumed run = Newest(Text("max_iter: 3"));
  EXPECT_EQ(run.state, "");
  EXPECT_EQ(run.solver->iteration(), 0);
  EXPECT_NE(recorder_.log.find("training starts at the beginning"), std::string::npos);
}

TEST_F(Resume, NewestIsTheHighestIterationAndHasItsSeed) {
  std::string text = Text("max_iter: 12 snapshot: 3");
  text.replace(text.find("random_seed: 5"), 14, "");
  const auto whole = MakeSolver(text, OptionsFor(&recorder_));
  whole->Solve();
  const std::string expected = temp_.Read("s_iter_12.caffemodel");
  fs::remove(temp_.File("s_iter_12.solverstate"));
  const Resumed run = Newest(text);
  EXPECT_EQ(run.state, temp_.File("s_iter_9.solverstate"));
  EXPECT_EQ(run.solver->seed(), whole->seed());
  run.solver->Solve();
  EXPECT_EQ(temp_.Read("s_iter_12.caffemodel"), expected);
}

TEST_F(Resume, DamagedOnesAreNamedAndPassedOver) {
  const std::string text = Text("max_iter: 14 snapshot: 2 ema_decay: 0.9");
  MakeSolver(text, OptionsFor(&recorder_))->Solve();
  const std::string expected = temp_.Read("s_iter_14.caffemodel");
  Damage("s_iter_14.solverstate");
  Damage("s_iter_12.caffemodel");
  fs::remove(temp_.File("s_iter_10.caffemodel"));
  Damage("s_iter_8_ema.caffemodel");
  fs::copy_file(temp_.File("s_iter_2.caffemodel"), temp_.File("s_iter_6.caffemodel"),
                fs::copy_options::overwrite_existing);
  const Resumed run = Newest(text);
  EXPECT_EQ(run.state, temp_.File("s_iter_4.solverstate"));
  for (int iteration : {14, 12, 10, 8, 6}) {
    const std::string name =
        StrCat("the snapshot ", temp_.File(StrCat("s_iter_", iteration, ".solverstate")),
               " cannot be used: ");
    EXPECT_NE(recorder_.log.find(name), std::string::npos) << name << "\n" << recorder_.log;
  }
  run.solver->Solve();
  EXPECT_EQ(temp_.Read("s_iter_14.caffemodel"), expected);
}

TEST_F(Resume, AllDamagedIsAnErrorAndNotANewBeginning) {
  const std::string text = Text("max_iter: 2 snapshot: 2");
  MakeSolver(text, OptionsFor(&recorder_))->Solve();
  const std::string expected = temp_.Read("s_iter_2.caffemodel");
  Damage("s_iter_2.caffemodel");
  EXPECT_THROW(Newest(text), Error);
  fs::remove(temp_.File("s_iter_2.solverstate"));
  const Resumed run = Newest(text);
  EXPECT_EQ(run.solver->iteration(), 0);
  run.solver->Solve();
  EXPECT_EQ(temp_.Read("s_iter_2.caffemodel"), expected);
}

TEST_F(Resume, AnotherSolverTypeIsAnErrorNotDamage) {
  const std::string text = Text("max_iter: 2");
  MakeSolver(text, OptionsFor(&recorder_))->Solve();
  SolverState state = ReadSolverState(temp_.File("s_iter_2.solverstate"));
  state.set_solver_type("Other");
  WriteSolverState(state, temp_.File("s_iter_2.solverstate"));
  try {
    Newest(text);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("of a Other solver"), std::string::npos);
  }
}

TEST_F(Resume, AverageStartsFromTheWeightsOfAStateWithout) {
  MakeSolver(Text("max_iter: 2"), OptionsFor(&recorder_))->Solve();
  const auto solver =
      MakeSolver(Text("max_iter: 2 test_interval: 5 ema_decay: 0.9"), OptionsFor(&recorder_));
  solver->Restore(temp_.File("s_iter_2.solverstate"));
  EXPECT_NE(recorder_.log.find("has no averaged weights"), std::string::npos) << recorder_.log;
  solver->Test(0);
  EXPECT_EQ(ValuesOf(*solver->averaged_weights()), ValuesOf(solver->weights()));
}

// Every layer that reads data resumes at the sample of the snapshot.
class ResumeOfSource : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    test::WriteRecords(temp_.File("lmdb"), 13);
    std::string images;
    std::string windows;
    LmdbWriter boxes(temp_.File("boxes"));
    for (int i = 0; i < 7; ++i) {
      std::string pixels;
      for (int p = 0; p < 36; ++p) pixels += static_cast<char>(20 * i + p * (i % 3));
      const std::string path = temp_.Write(StrCat("f_00", i, ".pgm"), "P5\n6 6\n255\n" + pixels);
      images += StrCat(path, " ", i, "\n");
      windows += StrCat("# ", i, "\n", path, "\n1\n6\n6\n2\n1 0.9 0 0 4 3\n0 0.1 2 2 5 5\n");
      AnnotatedDatum box;
      box.mutable_datum()->set_encoded(true);
      box.mutable_datum()->set_data("P5\n6 6\n255\n" + pixels);
      box.set_type(AnnotatedDatum::BBOX);
      boxes.Put(StrCat("key", i), box.SerializeAsString());
    }
    boxes.Close();
    temp_.Write("images", images);
    temp_.Write("windows", windows);
#ifdef CREMA_HAVE_HDF5
    const auto plan = test::PlanText(StrCat(
        "layer { name: 'd' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { shape { "
        "dim: 11 dim: 5 } shape { dim: 11 } data_filler { type: 'gaussian' } } } layer { name: 'o' "
        "type: 'HDF5Output' bottom: 'data' bottom: 'label' hdf5_output_param { file_name: '",
        temp_.File("rows.h5"), "' } }"));
    Session(plan, std::shared_ptr<const Weights>(Weights::Make(*plan, 1)), ExecContext(1))
        .Forward();
    temp_.Write("rows", temp_.File("rows.h5") + "\n");
#endif
  }

  TempDir temp_;
};

std::string SourceText(const std::string& source, const TempDir& temp) {
  const std::string crop = " transform_param { crop_size: 4 mirror: true scale: 0.004 } ";
  const auto file = [&](const std::string& name) { return "'" + temp.File(name) + "' "; };
  if (source == "Data") {
    return " transform_param { crop_size: 1 mirror: true scale: 0.004 } data_param { source: " +
           file("lmdb") + "batch_size: 3 backend: LMDB rand_skip: 5 }";
  }
  if (source == "HDF5Data") {
    return "hdf5_data_param { source: " + file("rows") + "batch_size: 3 shuffle: true }";
  }
  if (source == "ImageData") {
    return crop + "image_data_param { source: " + file("images") +
           "batch_size: 3 shuffle: true rand_skip: 4 is_color: false }";
  }
  if (source == "WindowData") {
    return " transform_param { crop_size: 4 mirror: true scale: 0.004 } window_data_param { "
           "source: " +
           file("windows") + "batch_size: 4 crop_mode: 'warp' fg_fraction: 0.5 }";
  }
  if (source == "AnnotatedData") {
    return " transform_param { mirror: true scale: 0.004 } data_param { source: " + file("boxes") +
           "batch_size: 3 backend: LMDB }";
  }
  if (source == "VideoData") {
    return crop + "data_param { batch_size: 3 } video_data_param { video_type: VIDEO video_file: " +
           file("f_%03d.pgm") + "}";
  }
  return "dummy_data_param { shape { dim: 3 dim: 4 } shape { dim: 3 } data_filler { type: "
         "'uniform' "
         "} }";
}

TEST_P(ResumeOfSource, GoesOnWhereItWas) {
#ifndef CREMA_HAVE_OPENCV
  if (GetParam() != "Data" && GetParam() != "HDF5Data" && GetParam() != "DummyData") {
    GTEST_SKIP() << "this build has no OpenCV";
  }
#endif
#ifndef CREMA_HAVE_VIDEO
  if (GetParam() == "VideoData") GTEST_SKIP() << "this build has no video";
#endif
#ifndef CREMA_HAVE_HDF5
  if (GetParam() == "HDF5Data") GTEST_SKIP() << "this build has no HDF5";
#endif
  const std::string text = StrCat(
      "net_param { layer { name: 'd' type: '", GetParam(), "' top: 'data' top: 'label' ",
      SourceText(GetParam(), temp_), " } layer { name: 's' type: 'Silence' bottom: 'label' } ",
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'y' inner_product_param { ",
      "num_output: 3 weight_filler { type: 'xavier' } } } layer { name: 'l' type: 'Reduction' ",
      "bottom: 'y' top: 'l' reduction_param { operation: SUMSQ } loss_weight: 1 } } ",
      "base_lr: 1e-7 lr_policy: 'fixed' random_seed: 5 max_iter: 11 snapshot: 1 ",
      "snapshot_prefix: '", temp_.File("s"), "'");
  Recorder recorder;
  MakeSolver(text, OptionsFor(&recorder))->Solve();
  const auto expected = FinalBytes(temp_, 11, "");
  for (int from : {1, 4, 6, 10}) {
    const auto solver = MakeSolver(text, OptionsFor(&recorder));
    solver->Restore(temp_.File(StrCat("s_iter_", from, ".solverstate")));
    fs::remove(temp_.File("s_iter_11.caffemodel"));
    solver->Solve();
    EXPECT_TRUE(FinalBytes(temp_, 11, "") == expected) << "from iteration " << from;
  }
}

INSTANTIATE_TEST_SUITE_P(Sources, ResumeOfSource,
                         ::testing::Values("Data", "HDF5Data", "ImageData", "WindowData",
                                           "AnnotatedData", "VideoData", "DummyData"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace crema
