// The commands, run like a user runs them.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/lmdb.h"
#include "format/caffemodel.h"
#include "format/solver_state.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::Process;
using test::ProcessResult;
using test::RunProcess;
using test::TempDir;

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string Read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Four classes of 6x6 images: a bright quarter each, and noise.
void WriteQuarters(const std::string& path, int count, int shift = 0) {
  LmdbWriter writer(path);
  const RandomStream random(1, 2);
  for (int i = 0; i < count; ++i) {
    Datum datum;
    datum.set_channels(1);
    datum.set_height(6);
    datum.set_width(6);
    datum.set_label(i % 4 + shift);
    std::string pixels;
    for (int p = 0; p < 36; ++p) {
      const bool inside = (p / 6 >= 3) == (i % 4 >= 2) && (p % 6 >= 3) == (i % 2 == 1);
      const uint32_t noise = random.Below(static_cast<uint64_t>(i * 36 + p), 80);
      pixels += static_cast<char>(noise + (inside ? 120 : 0));
    }
    datum.set_data(pixels);
    char key[16];
    std::snprintf(key, sizeof(key), "%08d", i);
    writer.Put(key, datum.SerializeAsString());
  }
  writer.Close();
}

constexpr const char* kTrainedNet = R"(
name: "quarters"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { scale: 0.00390625 }
  data_param { source: "train_lmdb" batch_size: 8 backend: LMDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
  transform_param { scale: 0.00390625 }
  data_param { source: "test_lmdb" batch_size: 10 backend: LMDB } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" dropout_param { dropout_ratio: 0.1 } }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
  include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
)";

constexpr const char* kSolver = R"(
net: "net.prototxt"
base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005
max_iter: 60 display: 20 random_seed: 1
test_iter: 2 test_interval: 30
snapshot: 20 snapshot_prefix: "snap"
solver_mode: CPU
)";

class Train : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteQuarters(Path("train_lmdb"), 52);
    WriteQuarters(Path("test_lmdb"), 24);
    Write(Path("net.prototxt"), kTrainedNet);
    Write(Path("solver.prototxt"), kSolver);
  }

  std::string Path(const std::string& name) const { return temp_.path() + "/" + name; }

  ProcessResult RunTrain(std::vector<std::string> flags = {}) const {
    std::vector<std::string> command = {Bin("train"), "--solver=solver.prototxt", "--threads=1"};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunProcess(command, temp_.path());
  }

  // Replaces text in one of the files.
  void Edit(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = Read(Path(name));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    Write(Path(name), text.replace(at, from.size(), to));
  }

  // Expects that training fails with this exit code and a message with all of `expected`.
  void ExpectFailure(int code, const std::vector<std::string>& expected,
                     std::vector<std::string> flags = {}) const {
    const ProcessResult result = RunTrain(std::move(flags));
    EXPECT_EQ(result.exit_code, code) << result.err;
    for (const std::string& text : expected) {
      EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n---\n" << result.err;
    }
    EXPECT_EQ(result.err.find("*** "), std::string::npos) << "a stack trace: " << result.err;
    EXPECT_EQ(result.err.find("terminate called"), std::string::npos) << result.err;
  }

  TempDir temp_;
};

TEST_F(Train, LearnsAndWritesWhatCaffeWrites) {
  const ProcessResult result = RunTrain();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* expected :
       {"Solving quarters", "Learning Rate Policy: fixed", "Iteration 0, Testing net (#0)",
        "    Test net output #0: accuracy = ", "    Test net output #1: loss = ", "(* 1 = ",
        "Iteration 20 (", " iter/s, ", "s/20 iters), loss = ", "    Train net output #0: loss = ",
        "Iteration 20, lr = 0.1", "Snapshotting to binary proto file snap_iter_20.caffemodel",
        "Snapshotting solver state to binary proto file snap_iter_20.solverstate",
        "Iteration 60, Testing net (#0)", "Iteration 60, loss = ", "Optimization Done."}) {
    EXPECT_NE(result.err.find(expected), std::string::npos) << expected << "\n" << result.err;
  }
  for (const char* file : {"snap_iter_20.caffemodel", "snap_iter_40.solverstate",
                           "snap_iter_60.caffemodel", "snap_iter_60.solverstate"}) {
    EXPECT_TRUE(fs::exists(Path(file))) << file;
  }
  EXPECT_NE(result.out.find(" (iteration 60)\n"), std::string::npos) << result.out;
  const std::string last = result.out.substr(result.out.find("weights: "));
  EXPECT_TRUE(result.out.starts_with("trained to iteration 60 in ")) << last;
  EXPECT_TRUE(result.out.find("\nlast test: accuracy = ") < result.out.find("\nweights: ")) << last;
  EXPECT_EQ(last,
            "weights: snap_iter_60.caffemodel\n"
            "next: crema evaluate --model=snap_run/net.prototxt --weights=snap_iter_60.caffemodel\n"
            "next: crema report snap_run\n"
            "next: crema deploy export --run=snap_run -o snap_run.crema\n");
}

// The rate of the second half breaks what the first has learned.
TEST_F(Train, SuggestsTheWeightsOfTheBestTest) {
  const std::vector<std::string> flags = {"--set=lr_policy=multistep", "--set=gamma=1000",
                                          "--set=stepvalue=[40]", "--set=test_interval=20",
                                          "--set=clip_gradients=1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    fs::remove_all(Path("snap_run"));
    const ProcessResult result = RunTrain(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  };
  const std::string kept = with({});
  contains(kept, "best test: accuracy = ");
  contains(kept, "weights: snap_iter_60.caffemodel\n");
  contains(kept, "--model=snap_run/net.prototxt --weights=snap_iter_40.caffemodel\n");
  // The file of the run before is not that of this one.
  const std::string lost = with({"--set=snapshot=0"});
  contains(lost, "(iteration 40); its weights were not kept: snapshot_best { } keeps them\n");
  contains(lost, "--weights=snap_iter_60.caffemodel\n");
  const std::string best = with({"--set=snapshot=0", "--set=snapshot_best={}"});
  contains(best, "best: test#0:accuracy = ");
  contains(best, "--weights=snap_best.caffemodel\n");
}

TEST_F(Train, AResumedRunKnowsTheBestWeightsOfBefore) {
  ASSERT_EQ(RunTrain({"--set=snapshot_best={}"}).exit_code, 0);
  const ProcessResult resumed = RunTrain({"--resume=auto"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("best weights, of an earlier start: snap_best.caffemodel\n"),
            std::string::npos)
      << resumed.out;
  EXPECT_NE(resumed.out.find("--weights=snap_best.caffemodel\n"), std::string::npos) << resumed.out;
}

TEST_F(Train, EmptyWeightsAreAnError) {
  const ProcessResult result = RunTrain({"--weights="});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("--weights is empty"), std::string::npos) << result.err;
}

TEST_F(Train, ARunThatItsOwnRuleEndedIsComplete) {
  const ProcessResult result =
      RunTrain({"--set=base_lr=0", "--set=early_stop={metric: 'loss' patience: 1}"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("; training ends"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("\nnext: crema report snap_run\n"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("resume: "), std::string::npos) << result.out;
}

TEST_F(Train, AStoppedRunPrintsTheCommandThatResumes) {
  const ProcessResult result = RunTrain(
      {"--set", "snapshot=100000000", "--set=time_limit=1s", "--set", "max_iter=100000000"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("\nresume: crema train --solver=solver.prototxt"), std::string::npos)
      << result.out;
  EXPECT_NE(
      result.out.find(" --set snapshot=100000000 --set=time_limit=1s --set max_iter=100000000 "
                      "--resume=auto\n"),
      std::string::npos)
      << result.out;
}

TEST_F(Train, QuietLeavesTheTablesOut) {
  EXPECT_NE(RunTrain().err.find("learned elements: "), std::string::npos);
  fs::remove_all(Path("snap_iter_60.caffemodel"));
  const ProcessResult quiet = RunTrain({"--quiet"});
  EXPECT_EQ(quiet.err.find("learned elements: "), std::string::npos);
  EXPECT_TRUE(std::regex_match(quiet.out, std::regex("trained to iteration 60 in \\d+m\\d\\ds\n")))
      << quiet.out;
}

TEST_F(Train, EvaluateCountsEverySampleOnce) {
  ASSERT_EQ(RunTrain().exit_code, 0);
  const auto evaluate = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {Bin("evaluate"), "--model=net.prototxt",
                                        "--weights=snap_iter_60.caffemodel"};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunProcess(command, temp_.path());
  };
  const ProcessResult all = evaluate({});
  ASSERT_EQ(all.exit_code, 0) << all.err;
  EXPECT_NE(all.out.find("24 samples in 3 batches\n"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("accuracy = 1\n"), std::string::npos) << all.out;
  // The mean over 24 samples does not depend on the batch size.
  Edit("net.prototxt", "batch_size: 10", "batch_size: 24");
  const ProcessResult whole = evaluate({});
  EXPECT_EQ(whole.out.substr(whole.out.find("Loss")), all.out.substr(all.out.find("Loss")));
  EXPECT_NE(evaluate({"--iterations=2"}).out.find("48 samples in 2 batches"), std::string::npos);
}

TEST_F(Train, ResumedRunEndsWithTheSameBytes) {
  ASSERT_EQ(RunTrain().exit_code, 0);
  const std::string whole = Read(Path("snap_iter_60.caffemodel"));
  const std::string state = Read(Path("snap_iter_60.solverstate"));
  fs::remove(Path("snap_iter_60.caffemodel"));
  fs::remove(Path("snap_iter_60.solverstate"));
  const ProcessResult resumed = RunTrain({"--snapshot=snap_iter_20.solverstate"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(Read(Path("snap_iter_60.caffemodel")), whole);
  EXPECT_EQ(Read(Path("snap_iter_60.solverstate")), state);
}

TEST_F(Train, ResumesWithoutARandomSeedInTheFile) {
  Edit("solver.prototxt", "random_seed: 1", "");
  ASSERT_EQ(RunTrain().exit_code, 0);
  const std::string whole = Read(Path("snap_iter_60.caffemodel"));
  ASSERT_EQ(RunTrain({"--snapshot=snap_iter_40.solverstate"}).exit_code, 0);
  EXPECT_EQ(Read(Path("snap_iter_60.caffemodel")), whole);
}

TEST_F(Train, StartsFromWeights) {
  ASSERT_EQ(RunTrain().exit_code, 0);
  fs::rename(Path("snap_iter_60.caffemodel"), Path("first.caffemodel"));
  Edit("net.prototxt", "name: \"ip2\"", "name: \"other\"");
  const ProcessResult result = RunTrain({"--weights=first.caffemodel"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("loaded 1 layer (ip1)"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("left at fillers 1 layer (other)"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("did not use 1 layer (ip2)"), std::string::npos) << result.err;
  const ProcessResult quiet = RunTrain({"--weights=first.caffemodel", "--quiet"});
  EXPECT_EQ(quiet.err.find("loaded 1 layer (ip1)"), std::string::npos)
      << "no warning: " << quiet.err;
  EXPECT_NE(quiet.err.find("did not use 1 layer (ip2)"), std::string::npos) << quiet.err;
}

// Waits a limited time until a file exists.
bool WaitFor(const std::string& path) {
  for (int i = 0; i < 3000 && !fs::exists(path); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fs::exists(path);
}

TEST_F(Train, SignalsSnapshotAndStop) {
  Edit("solver.prototxt", "max_iter: 60", "max_iter: 100000000");
  Edit("solver.prototxt", "snapshot: 20", "snapshot: 100");
  Edit("solver.prototxt", "test_iter: 2 test_interval: 30", "");
  Process train({Bin("train"), "--solver=solver.prototxt", "--threads=1"}, temp_.path(),
                Path("out"), Path("err"));
  ASSERT_TRUE(WaitFor(Path("snap_iter_100.solverstate"))) << Read(Path("err"));
  train.Signal(SIGHUP);
  ASSERT_TRUE(WaitFor(Path("snap_iter_300.solverstate"))) << "SIGHUP ended the run";
  EXPECT_TRUE(train.IsRunning());
  train.Signal(SIGINT);
  EXPECT_EQ(train.Wait(), 0) << Read(Path("err"));
  EXPECT_NE(Read(Path("err")).find("Optimization stopped early."), std::string::npos);
  // Snapshots at iterations that are not multiples of 100 come from the two signals.
  int from_signals = 0;
  for (const auto& entry : fs::directory_iterator(temp_.path())) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(name.find(".tmp"), std::string::npos) << name << " was left behind";
    if (!name.ends_with(".solverstate")) continue;
    const SolverState state = ReadSolverState(entry.path().string());
    from_signals += state.iter() % 100 != 0 ? 1 : 0;
    EXPECT_NO_THROW(ReadCaffemodel(Path(state.learned_net())));
  }
  EXPECT_GE(from_signals, 1);
  const std::string out = Read(Path("out"));
  EXPECT_NE(out.find("\nweights: snap_iter_"), std::string::npos) << out;
  EXPECT_NE(out.find("\nresume: crema train --solver=solver.prototxt --threads=1 --resume=auto\n"),
            std::string::npos)
      << out;
}

TEST_F(Train, FaultsInTheNetText) {
  Edit("net.prototxt", "num_output: 16", "num_outputs: 16");
  ExpectFailure(2, {"net.prototxt:10:25: layer \"ip1\": unknown field 'num_outputs' (did you mean "
                    "'num_output'?)"});
}

TEST_F(Train, MissingFiles) {
  EXPECT_TRUE(RunProcess({Bin("train"), "missing.prototxt"}, temp_.path())
                  .err.find("missing.prototxt: there is no such file") != std::string::npos);
  ExpectFailure(2, {"missing.caffemodel"}, {"--weights=missing.caffemodel"});
  ExpectFailure(2, {"missing.solverstate"}, {"--snapshot=missing.solverstate"});
  fs::remove(Path("net.prototxt"));
  ExpectFailure(2, {"solver.prototxt:2:1: ", "net.prototxt"});
}

TEST_F(Train, BadFlags) {
  ExpectFailure(2, {"error: --weights is given twice; give it once"},
                {"--weights=a", "--weights", "b"});
  ExpectFailure(2, {"unknown flag --wieghts (did you mean 'weights'?)"}, {"--wieghts=x"});
  ExpectFailure(2, {"unknown flag --base_lr: it is a field of the solver; write --set base_lr=0.1"},
                {"--base_lr=0.1"});
  ExpectFailure(2, {"not both"}, {"--weights=a", "--snapshot=b"});
  ExpectFailure(2, {"--threads takes a whole number, not 'many'"}, {"--threads=many"});
  EXPECT_EQ(RunProcess({Bin("train")}).exit_code, 2);
}

TEST_F(Train, MissingOrEmptyDataSet) {
  fs::remove_all(Path("train_lmdb"));
  ExpectFailure(2, {"layer \"data\"", "train_lmdb"});
  fs::create_directory(Path("train_lmdb"));
  ExpectFailure(3, {"train_lmdb"});
}

TEST_F(Train, RecordThatIsNotADatum) {
  fs::remove_all(Path("train_lmdb"));
  {
    LmdbWriter writer(Path("train_lmdb"));
    writer.Put("00000000", "this is not a protobuf message at all");
    writer.Close();
  }
  ExpectFailure(3, {"00000000", "train_lmdb"});
}

TEST_F(Train, LabelOutsideTheClasses) {
  fs::remove_all(Path("train_lmdb"));
  WriteQuarters(Path("train_lmdb"), 20, 1);
  ExpectFailure(
      3, {"layer \"loss\": label 4", "\"ip2\" has 4", "labels 0..3", "does your set start at 1?"});
}

TEST_F(Train, BrokenModelFiles) {
  ASSERT_EQ(RunTrain().exit_code, 0);
  const std::string model = Read(Path("snap_iter_60.caffemodel"));
  Write(Path("cut.caffemodel"), model.substr(0, model.size() / 2));
  ExpectFailure(3, {"cut.caffemodel"}, {"--weights=cut.caffemodel"});
  std::string flipped = model;
  flipped[model.size() / 2] = static_cast<char>(flipped[model.size() / 2] ^ 4);
  Write(Path("flipped.caffemodel"), flipped);
  ExpectFailure(3, {"flipped.caffemodel"}, {"--weights=flipped.caffemodel"});
  Write(Path("empty.caffemodel"), "");
  ExpectFailure(3, {"empty.caffemodel"}, {"--weights=empty.caffemodel"});
  ExpectFailure(3, {"net.prototxt"}, {"--weights=net.prototxt"});
  const std::string state = Read(Path("snap_iter_20.solverstate"));
  Write(Path("cut.solverstate"), state.substr(0, state.size() - 2));
  ExpectFailure(3, {"cut.solverstate"}, {"--snapshot=cut.solverstate"});
  Edit("net.prototxt", "num_output: 16", "num_output: 12");
  ExpectFailure(2, {"layer \"ip1\": blob 0 (weight) is 16x36 in the file, but 12x36 in the net"},
                {"--weights=snap_iter_60.caffemodel"});
  const ProcessResult evaluated = RunProcess(
      {Bin("evaluate"), "--model=net.prototxt", "--weights=snap_iter_60.caffemodel"}, temp_.path());
  EXPECT_EQ(evaluated.exit_code, 2) << evaluated.err;
}

TEST_F(Train, DivergenceHasExitCode5AndKeepsSnapshots) {
  Edit("solver.prototxt", "base_lr: 0.1", "base_lr: 1e30");
  Edit("solver.prototxt", "snapshot: 20", "snapshot: 1");
  ExpectFailure(5, {"training diverged", "iteration"});
  EXPECT_NO_THROW(ReadCaffemodel(Path("snap_iter_1.caffemodel")));
}

TEST_F(Train, MakesTheFolderOfSnapshots) {
  Edit("solver.prototxt", "\"snap\"", "\"not/there/snap\"");
  const ProcessResult checked =
      RunProcess({Bin("check"), "--solver=solver.prototxt"}, temp_.path());
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_FALSE(fs::exists(Path("not"))) << "check leaves nothing";
  ASSERT_EQ(RunTrain().exit_code, 0);
  EXPECT_TRUE(fs::exists(Path("not/there/snap_iter_60.caffemodel")));
  EXPECT_TRUE(fs::exists(Path("not/there/snap_run/run.json")));
}

TEST_F(Train, FolderOfSnapshotsThatCannotBeMade) {
  Edit("solver.prototxt", "\"snap\"", "\"net.prototxt/there/snap\"");
  ExpectFailure(3, {"the folder of snapshot_prefix \"net.prototxt/there/snap\" cannot be made: "
                    "'net.prototxt' is a file, not a folder"});
}

TEST_F(Train, DiskFullStopsWithTheReasonAndKeepsTheLastSnapshot) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  // A file size limit simulates a full disk: writes fail at the same place.
  const std::string script =
      "ulimit -f 12; exec " + Bin("train") + " --solver=solver.prototxt --threads=1";
  Edit("net.prototxt", "num_output: 16", "num_output: 200");
  const ProcessResult result = RunProcess({"/bin/sh", "-c", script}, temp_.path());
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.err.find("snap_iter_20.caffemodel"), std::string::npos) << result.err;
  for (const auto& entry : fs::directory_iterator(temp_.path())) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
    EXPECT_FALSE(entry.path().string().ends_with(".caffemodel")) << entry.path();
  }
}

TEST_F(Train, StrictRefusesWarnings) {
  Edit("solver.prototxt", "random_seed: 1", "random_seed: 1 snapshot_diff: true");
  const ProcessResult strict = RunTrain({"--strict"});
  EXPECT_EQ(strict.exit_code, 2) << strict.err;
  EXPECT_NE(strict.err.find("snapshot_diff has no effect in this version: snapshots have no "
                            "gradients"),
            std::string::npos)
      << strict.err;
  EXPECT_NE(strict.err.find("error: --strict: 1 warning above\n"), std::string::npos) << strict.err;
  EXPECT_FALSE(fs::exists(Path("snap_run")));
  EXPECT_EQ(RunTrain().exit_code, 0);
}

TEST_F(Train, StrictRefusesWarningsOfTheStart) {
  const auto expect = [&](const std::string& warning) {
    const ProcessResult strict = RunTrain({"--strict"});
    EXPECT_EQ(strict.exit_code, 2) << strict.err;
    EXPECT_NE(strict.err.find(warning), std::string::npos) << strict.err;
    EXPECT_EQ(strict.err.find(warning), strict.err.rfind(warning)) << "twice: " << strict.err;
    EXPECT_NE(strict.err.find("error: --strict: 1 warning above\n"), std::string::npos)
        << strict.err;
    EXPECT_EQ(strict.err.find("Iteration 0"), std::string::npos) << strict.err;
  };
  Write(Path("snap_run"), "a file where the run's folder would be");
  expect("this run is not recorded: snap_run");
  fs::remove(Path("snap_run"));
  ASSERT_EQ(RunTrain({"--strict"}).exit_code, 0);
  expect("there are snapshots of another run");
  EXPECT_FALSE(fs::exists(Path("snap_run_2")));
}

TEST_F(Train, StrictAcceptsARunWithoutWarnings) { EXPECT_EQ(RunTrain({"--strict"}).exit_code, 0); }

}  // namespace
}  // namespace crema
