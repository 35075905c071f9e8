#include "report/run_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/strings.h"
#include "format/prototxt.h"
#include "log_lines.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::LogLines;
using test::TempDir;
using test::TestRegistry;

constexpr const char* kSolver = R"(
net_param { name: "toy"
  layer { name: "data" type: "DummyData" top: "x" top: "t"
    dummy_data_param { shape { dim: 6 dim: 4 } shape { dim: 6 dim: 3 }
      data_filler { type: "gaussian" } data_filler { type: "constant" value: 0.5 } } }
  layer { name: "out" type: "InnerProduct" bottom: "x" top: "y"
    inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" } }
base_lr: 0.1 lr_policy: "fixed" max_iter: 10 display: 2 random_seed: 3
test_iter: 1 test_interval: 5 snapshot: 5
)";

// Trains from the beginning, or from a state in the middle, and records it.
void TrainRecorded(const TempDir& temp, RunStart start, LogSink& log,
                   TrainingObserver* other = nullptr) {
  const std::string prefix = temp.File("snap");
  SolverFile file =
      ParseSolver(StrCat(kSolver, "snapshot_prefix: \"", prefix, "\""), "solver.prototxt");
  ObserverList observers;
  Solver solver(MakeRunConfig(std::move(file)), TestRegistry(),
                {.threads = 1, .observer = &observers, .poll = {}, .seed = {}});
  if (start == RunStart::kContinued) solver.Restore(prefix + "_iter_5.solverstate");
  RunRecorder recorder(solver,
                       {.folder = temp.File("run"),
                        .start = start,
                        .command = {"train", "--solver=solver.prototxt"},
                        .threads = 1,
                        .interval = 1,
                        .histogram_interval = 4},
                       log);
  observers.Add(recorder.observer());
  if (other != nullptr) observers.Add(*other);
  solver.Solve();
}

std::vector<std::string> EventFiles(const TempDir& temp) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(temp.File("run"))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("events.out.tfevents.")) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(RunRecorder, SaysWhatRan) {
  const TempDir temp;
  LogLines log;
  TrainRecorded(temp, RunStart::kFresh, log);
  const std::string run = temp.Read("run/run.json");
  for (const char* part :
       {R"("schema":1)", R"("version":")", R"("revision":")", R"("compiler":")",
        R"("command":["train","--solver=solver.prototxt"])", R"("net":"toy")", R"("seed":3)",
        R"("threads":1)", R"("iteration":0)", R"("max_iter":10)", R"("solver_type":"SGD")"}) {
    EXPECT_NE(run.find(part), std::string::npos) << part << " in " << run;
  }
  EXPECT_EQ(temp.Read("run/starts.jsonl"), run);
  // The folder is readable and describes the run.
  EXPECT_EQ(ReadNet(temp.File("run/net.prototxt")).net.layer_size(), 3);
  EXPECT_EQ(ReadSolver(temp.File("run/solver.prototxt")).solver.max_iter(), 10);
  const std::string csv = temp.Read("run/metrics.csv");
  EXPECT_EQ(CountOf(csv, "\ntrain,"), 10U) << csv;
  EXPECT_EQ(CountOf(csv, "\ntest,"), 3U) << csv;
  EXPECT_EQ(EventFiles(temp).size(), 1U);
  EXPECT_TRUE(log.warnings.empty());
}

// Metrics are synced first, so that a state is never ahead of them.
TEST(RunRecorder, HasAllRowsBeforeASnapshotIsWritten) {
  class Witness final : public TrainingObserver {
   public:
    explicit Witness(const TempDir& temp) : temp_(temp) {}
    void OnIteration(const IterationReport& report) override { iterations_ = report.iteration + 1; }
    void OnSnapshotStart() override {
      ++snapshots;
      const std::string files = StrCat("snap_iter_", iterations_);
      EXPECT_FALSE(fs::exists(temp_.File(files + ".caffemodel")));
      EXPECT_FALSE(fs::exists(temp_.File(files + ".solverstate")));
      EXPECT_EQ(CountOf(temp_.Read("run/metrics.csv"), "\ntrain,"),
                static_cast<size_t>(iterations_));
    }
    int snapshots = 0;

   private:
    const TempDir& temp_;
    int64_t iterations_ = 0;
  };
  const TempDir temp;
  LogLines log;
  Witness witness(temp);
  TrainRecorded(temp, RunStart::kFresh, log, &witness);
  EXPECT_EQ(witness.snapshots, 2);
}

TEST(RunRecorder, AResumedRunGoesOnInItsFolder) {
  const TempDir temp;
  LogLines log;
  TrainRecorded(temp, RunStart::kFresh, log);
  TrainRecorded(temp, RunStart::kContinued, log);
  const std::string csv = temp.Read("run/metrics.csv");
  EXPECT_EQ(CountOf(csv, "\ntrain,"), 10U) << csv;
  EXPECT_EQ(CountOf(csv, "\ntest,"), 3U) << csv;
  const std::string starts = temp.Read("run/starts.jsonl");
  EXPECT_EQ(CountOf(starts, "\n"), 2U);
  EXPECT_EQ(CountOf(starts, "\"iteration\":5"), 1U);
  EXPECT_NE(temp.Read("run/run.json").find("\"iteration\":5"), std::string::npos);
  const std::vector<std::string> events = EventFiles(temp);
  ASSERT_EQ(events.size(), 2U);
  constexpr const char* kNodeOfTheGraph = "InnerProduct";
  EXPECT_GT(CountOf(temp.Read("run/" + events[0]), kNodeOfTheGraph), 0U);
  EXPECT_EQ(CountOf(temp.Read("run/" + events[1]), kNodeOfTheGraph), 0U)
      << "TensorBoard complains of a second graph";
  EXPECT_TRUE(log.warnings.empty());
}

TEST(EventFileName, SortsAfterExistingFiles) {
  const TempDir temp;
  temp.Write("events.out.tfevents.9900000000.host.1", "");  // from a clock that was set back since
  EXPECT_TRUE(NextEventFile(temp.path()).starts_with("events.out.tfevents.9900000001."));
}

// TensorBoard's own reader. CREMA_TENSORBOARD_PYTHON names a Python that has it.
TEST(RunRecorder, TensorBoardReadsTheEventFiles) {
  const char* named = std::getenv("CREMA_TENSORBOARD_PYTHON");
  const std::string python = named != nullptr ? named : "/usr/bin/python3";
  if (!fs::exists(python) ||
      test::RunProcess({python, "-c", "import tensorboard.backend.event_processing"}).exit_code !=
          0) {
    GTEST_SKIP() << "no Python with tensorboard; name one with CREMA_TENSORBOARD_PYTHON";
  }
  const TempDir temp;
  LogLines log;
  TrainRecorded(temp, RunStart::kFresh, log);
  TrainRecorded(temp, RunStart::kContinued, log);
  const test::ProcessResult read = test::RunProcess(
      {python, std::string(CREMA_SOURCE_DIR) + "/tests/report/read_events.py", temp.File("run")});
  ASSERT_EQ(read.exit_code, 0) << read.err;
  EXPECT_EQ(read.out,
            "scalars test_0/loss train/loss train/lr train/smoothed_loss train_output/loss\n"
            "histograms gradients/out/bias gradients/out/weight weights/out/bias "
            "weights/out/weight\n"
            "steps train/lr 0 1 2 3 4 5 6 7 8 9\n"
            "steps test_0/loss 0 5 10\n"
            "steps weights/out/weight 0 4 8\n"
            "lr 0.1\n"
            "weights/out/weight: 12 values in 64 buckets\n"
            "graph data:DummyData out:InnerProduct(data) loss:EuclideanLoss(out,data:1)\n");
}

}  // namespace
}  // namespace crema
