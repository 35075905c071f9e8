// Recorded results of Caffe: every case in tests/conformance/cases, or in $CREMA_CONFORMANCE.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "conformance/trajectories.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "runtime/replay.h"
#include "support/gpu.h"
#include "support/net.h"
#include "support/pass_variants.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

fs::path Root() {
  if (const char* given = std::getenv("CREMA_CONFORMANCE")) return given;
  return fs::path(CREMA_SOURCE_DIR) / "tests" / "conformance" / "cases";
}

class OpCase : public ::testing::Test {
 public:
  // Once for each text of passes.
  OpCase(fs::path folder, bool optimize, std::vector<std::string> passes = {"all"})
      : folder_(std::move(folder)), optimize_(optimize), passes_(std::move(passes)) {}

  void TestBody() override {
    const NetFile net = ReadNet((folder_ / "net.prototxt").string());
    std::optional<NetParameter> weights;
    const std::string weights_file = (folder_ / "weights.caffemodel").string();
    if (fs::exists(weights_file)) weights = ReadCaffemodel(weights_file);
    for (const std::string& passes : passes_) {
      SCOPED_TRACE(passes);
      Compare({net, weights ? &*weights : nullptr, weights_file}, ParsePasses(passes));
    }
  }

 private:
  void Compare(const ReplayNet& net, const PlanPasses& passes) const {
    const ReplayResult result =
        Replay(net, ReadNetBinary((folder_ / "golden.binaryproto").string()), test::TestRegistry(),
               {.optimize = optimize_, .plan = {.passes = passes}});
    EXPECT_FALSE(result.lines.empty());
    for (const ReplayLine& line : result.lines) {
      EXPECT_TRUE(line.fits) << line.what << ": max abs " << line.max_absolute << ", max rel "
                             << line.max_relative << " " << line.note;
    }
    if (!optimize_) {
      EXPECT_TRUE(result.not_compared.empty()) << result.not_compared.front();
    }
  }

  fs::path folder_;
  bool optimize_;
  std::vector<std::string> passes_;
};

// On a GPU, or on its stand-in if there is none: each blob, gradient and weight; optimised, those
// that remain.
class GpuCase : public ::testing::Test {
 public:
  GpuCase(fs::path folder, bool optimize) : folder_(std::move(folder)), optimize_(optimize) {}

  void TestBody() override {
    const NetFile net = ReadNet((folder_ / "net.prototxt").string());
    std::optional<NetParameter> weights;
    const std::string weights_file = (folder_ / "weights.caffemodel").string();
    if (fs::exists(weights_file)) weights = ReadCaffemodel(weights_file);
    ReplayOptions options;
    options.optimize = optimize_;
    options.device = test::GpuDevice();
    const ReplayResult result = Replay({net, weights ? &*weights : nullptr, weights_file},
                                       ReadNetBinary((folder_ / "golden.binaryproto").string()),
                                       test::TestRegistry(), options);
    EXPECT_FALSE(result.lines.empty());
    EXPECT_TRUE(optimize_ || result.not_compared.empty());
    for (const ReplayLine& line : result.lines) {
      EXPECT_TRUE(line.fits) << line.what << ": max abs " << line.max_absolute << ", max rel "
                             << line.max_relative << " " << line.note;
    }
  }

 private:
  fs::path folder_;
  bool optimize_;
};

template <typename Case, typename... Args>
void Register(const char* suite, const std::string& name, const fs::path& folder, Args... args) {
  ::testing::RegisterTest(suite, name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> ::testing::Test* { return new Case(folder, args...); });
}

std::vector<fs::path> CasesIn(const fs::path& folder) {
  std::vector<fs::path> cases;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) cases.push_back(entry.path());
  std::ranges::sort(cases);
  return cases;
}

// Missing cases would not fail otherwise.
TEST(Recordings, AreComplete) {
  const size_t ops = CasesIn(Root() / "ops").size();
  const size_t trajectories = CasesIn(Root() / "trajectories").size();
  if (std::getenv("CREMA_CONFORMANCE") != nullptr) {
    EXPECT_GT(ops + trajectories, 0U) << Root();
  } else {
    EXPECT_EQ(ops, 104U) << Root();
    EXPECT_EQ(trajectories, 14U) << Root();
  }
}

void RegisterAll() {
  for (const fs::path& folder : CasesIn(Root() / "ops")) {
    const std::string name = folder.filename().string();
    Register<OpCase>("Plain", name, folder, false);
    Register<OpCase>("Optimised", name, folder, true);
    Register<OpCase>("EachPass", name, folder, true, test::PassVariants());
    Register<GpuCase>("Gpu", name, folder, false);
    Register<GpuCase>("GpuOptimised", name, folder, true);
  }
  for (const fs::path& folder : CasesIn(Root() / "trajectories")) test::RegisterTrajectory(folder);
}

}  // namespace
}  // namespace crema

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  crema::RegisterAll();
  return RUN_ALL_TESTS();
}
