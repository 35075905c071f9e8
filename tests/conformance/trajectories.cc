#include "conformance/trajectories.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/prototxt.h"
#include "solvers/device_update.h"
#include "solvers/solver.h"
#include "support/gpu.h"
#include "support/net.h"
#include "support/pass_variants.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class LossRecorder : public TrainingObserver {
 public:
  void OnIteration(const IterationReport& report) override {
    for (const OutputValue& output : report.outputs) {
      if (output.blob == "loss") losses.push_back(output.value);
    }
  }
  std::vector<double> losses;
};

std::vector<double> ReadLosses(const fs::path& path) {
  std::vector<double> losses;
  std::ifstream stream(path);
  int64_t iteration = 0;
  double loss = 0;
  std::string line;
  while (std::getline(stream, line)) {
    std::istringstream fields(line);
    if (fields >> iteration >> loss) losses.push_back(loss);
  }
  return losses;
}

void ExpectLosses(const std::vector<double>& got, const fs::path& folder) {
  const std::vector<double> expected = ReadLosses(folder / "losses.tsv");
  ASSERT_FALSE(expected.empty());
  ASSERT_GE(got.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-5 + 2e-4 * std::abs(expected[i])) << "iteration " << i;
  }
}

void CompareBlob(const BlobProto& got, const BlobProto& golden, const std::string& name) {
  ASSERT_EQ(got.data_size(), golden.data_size()) << name;
  double largest = 0;
  double difference = 0;
  for (int i = 0; i < golden.data_size(); ++i) {
    largest = std::max(largest, std::abs(double{golden.data(i)}));
    difference = std::max(difference, std::abs(double{golden.data(i)} - double{got.data(i)}));
  }
  EXPECT_LE(difference, 1e-5 + 2e-4 * largest) << name;
}

void ExpectWeights(const NetParameter& got, const fs::path& folder) {
  const NetParameter golden = ReadCaffemodel((folder / "golden.caffemodel").string());
  int compared = 0;
  for (const LayerParameter& layer : golden.layer()) {
    for (const LayerParameter& ours : got.layer()) {
      if (ours.name() != layer.name()) continue;
      ASSERT_EQ(ours.blobs_size(), layer.blobs_size());
      for (int b = 0; b < layer.blobs_size(); ++b, ++compared) {
        CompareBlob(ours.blobs(b), layer.blobs(b), StrCat(layer.name(), ":", b));
      }
    }
  }
  EXPECT_GT(compared, 0);
}

// Runs in a copy of the recording: its net names data relative to the folder, which may be
// read-only.
class TrajectoryCase : public ::testing::Test {
 public:
  explicit TrajectoryCase(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      fs::copy(entry.path(), Folder() / entry.path().filename());
    }
  }

 protected:
  fs::path Folder() const { return temp_.path(); }

 private:
  TempDir temp_;
};

class ByLibrary : public TrajectoryCase {
 public:
  using TrajectoryCase::TrajectoryCase;

  void TestBody() override { Train("all"); }

 protected:
  void Train(const std::string& passes, const ComputeDevice& device = {}) const {
    const fs::path before = fs::current_path();
    fs::current_path(Folder());
    LossRecorder recorder;
    SolverOptions options;
    options.observer = &recorder;
    options.plan.passes = ParsePasses(passes);
    options.device = device;
    if (device.is_gpu()) options.device_update = MakeGpuUpdate;
    Solver solver(MakeRunConfig(ReadSolver("solver.prototxt")), TestRegistry(), std::move(options));
    solver.LoadWeights({"init.caffemodel"});
    solver.Solve();
    fs::current_path(before);
    ExpectLosses(recorder.losses, Folder());
    ExpectWeights(solver.weights().Export(solver.plan()), Folder());
  }
};

class WithEachPass : public ByLibrary {
 public:
  using ByLibrary::ByLibrary;

  void TestBody() override {
    for (const std::string& passes : PassVariants()) {
      SCOPED_TRACE(passes);
      Train(passes);
    }
  }
};

// Uses the stand-in if there is no GPU.
class OnGpu : public ByLibrary {
 public:
  using ByLibrary::ByLibrary;

  void TestBody() override { Train("all", GpuDevice()); }
};

// The losses of a log as Caffe writes it.
std::vector<double> LoggedLosses(const std::string& log) {
  const std::string mark = "Train net output #0: loss = ";
  std::vector<double> losses;
  for (size_t at = log.find(mark); at != std::string::npos; at = log.find(mark, at)) {
    at += mark.size();
    losses.push_back(std::strtod(log.c_str() + at, nullptr));
  }
  return losses;
}

class ByCommand : public TrajectoryCase {
 public:
  using TrajectoryCase::TrajectoryCase;

  void TestBody() override {
    const ProcessResult result =
        RunProcess({test::Bin("train"), "--solver=solver.prototxt", "--weights=init.caffemodel"},
                   Folder().string());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    ExpectLosses(LoggedLosses(result.err), Folder());
    ExpectWeights(ReadCaffemodel((Folder() / "snap_iter_40.caffemodel").string()), Folder());
  }
};

template <typename Case>
void Register(const char* suite, const fs::path& folder) {
  ::testing::RegisterTest(suite, folder.filename().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> ::testing::Test* { return new Case(folder); });
}

}  // namespace

void RegisterTrajectory(const fs::path& folder) {
  Register<ByLibrary>("Trajectory", folder);
  Register<WithEachPass>("TrajectoryEachPass", folder);
  Register<OnGpu>("GpuTrajectory", folder);
  Register<ByCommand>("TrajectoryOfTrain", folder);
}

}  // namespace crema::test
