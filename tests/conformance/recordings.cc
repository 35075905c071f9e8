// Recorded results of Caffe: every case in $CREMA_CONFORMANCE (or ../shared/conformance beside the
// source). A case with a layer type or solver type that does not exist yet is skipped by name.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "core/strings.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "runtime/replay.h"
#include "solvers/solver.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

fs::path Root() {
  if (const char* given = std::getenv("CREMA_CONFORMANCE")) return given;
  return fs::path(CREMA_SOURCE_DIR).parent_path() / "shared" / "conformance";
}

// Types that the net uses and this version does not have.
std::string MissingTypes(const NetFile& net) {
  std::string missing;
  for (const LayerParameter& layer : net.net.layer()) {
    if (test::TestRegistry().Find(layer.type()) == nullptr) missing += " " + layer.type();
  }
  return missing;
}

class OpCase : public ::testing::Test {
 public:
  OpCase(fs::path folder, bool optimize) : folder_(std::move(folder)), optimize_(optimize) {}

  void TestBody() override {
    const NetFile net = ReadNet((folder_ / "net.prototxt").string());
    if (const std::string missing = MissingTypes(net); !missing.empty()) {
      GTEST_SKIP() << "not built yet:" << missing;
    }
    std::optional<NetParameter> weights;
    const std::string weights_file = (folder_ / "weights.caffemodel").string();
    if (fs::exists(weights_file)) weights = ReadCaffemodel(weights_file);
    const ReplayResult result = Replay({net, weights ? &*weights : nullptr, weights_file},
                                       ReadNetBinary((folder_ / "golden.binaryproto").string()),
                                       test::TestRegistry(), {.optimize = optimize_});
    EXPECT_FALSE(result.lines.empty());
    for (const ReplayLine& line : result.lines) {
      EXPECT_TRUE(line.fits) << line.what << ": max abs " << line.max_absolute << ", max rel "
                             << line.max_relative << " " << line.note;
    }
    if (!optimize_) {
      EXPECT_TRUE(result.not_compared.empty()) << result.not_compared.front();
    }
  }

 private:
  fs::path folder_;
  bool optimize_;
};

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

class TrajectoryCase : public ::testing::Test {
 public:
  explicit TrajectoryCase(fs::path folder) : folder_(std::move(folder)) {}

  void TestBody() override {
    // The nets name their data relative to the folder, which may be read-only.
    const test::TempDir temp;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      fs::copy(entry.path(), fs::path(temp.path()) / entry.path().filename());
    }
    const fs::path before = fs::current_path();
    fs::current_path(temp.path());
    Run();
    fs::current_path(before);
  }

 private:
  void Run() {
    const SolverFile solver_file = ReadSolver("solver.prototxt");
    if (FindUpdateRule(solver_file.solver.type()) == nullptr) {
      GTEST_SKIP() << "solver type not built yet: " << solver_file.solver.type();
    }
    LossRecorder recorder;
    SolverOptions options;
    options.observer = &recorder;
    const Registry& registry = test::TestRegistry();
    Solver solver(MakeRunConfig(solver_file), registry, std::move(options));
    solver.LoadWeights({"init.caffemodel"});
    solver.Solve();
    const std::vector<double> expected = ReadLosses("losses.tsv");
    ASSERT_GE(recorder.losses.size(), expected.size());
    ASSERT_FALSE(expected.empty());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(recorder.losses[i], expected[i], 1e-5 + 2e-4 * std::abs(expected[i]) + 1e-4)
          << "iteration " << i;
    }
    CompareWeights(solver);
  }

  static void CompareWeights(Solver& solver) {
    const NetParameter golden = ReadCaffemodel("golden.caffemodel");
    const NetParameter got = solver.weights().Export(solver.plan());
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

  static void CompareBlob(const BlobProto& got, const BlobProto& golden, const std::string& name) {
    ASSERT_EQ(got.data_size(), golden.data_size()) << name;
    double largest = 0;
    double difference = 0;
    for (int i = 0; i < golden.data_size(); ++i) {
      largest = std::max(largest, std::abs(double{golden.data(i)}));
      difference = std::max(difference, std::abs(double{golden.data(i)} - double{got.data(i)}));
    }
    EXPECT_LE(difference, 1e-5 + 2e-4 * largest) << name;
  }

  fs::path folder_;
};

template <typename Case, typename... Args>
void Register(const char* suite, const std::string& name, const fs::path& folder, Args... args) {
  ::testing::RegisterTest(suite, name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> ::testing::Test* { return new Case(folder, args...); });
}

class NoCases : public ::testing::Test {
 public:
  void TestBody() override {
    GTEST_SKIP() << "no recorded cases at " << Root() << "; set CREMA_CONFORMANCE";
  }
};

void RegisterAll() {
  if (!fs::exists(Root())) {
    ::testing::RegisterTest("Conformance", "Recordings", nullptr, nullptr, __FILE__, __LINE__,
                            []() -> ::testing::Test* { return new NoCases(); });
    return;
  }
  for (const auto& entry : fs::directory_iterator(Root() / "ops")) {
    const std::string name = entry.path().filename().string();
    Register<OpCase>("Plain", name, entry.path(), false);
    Register<OpCase>("Optimised", name, entry.path(), true);
  }
  for (const auto& entry : fs::directory_iterator(Root() / "trajectories")) {
    Register<TrajectoryCase>("Trajectory", entry.path().filename().string(), entry.path());
  }
}

}  // namespace
}  // namespace crema

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  crema::RegisterAll();
  return RUN_ALL_TESTS();
}
