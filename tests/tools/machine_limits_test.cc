// Commands on machines with little stack, address space, or few threads.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

#ifndef CREMA_SANITIZED

constexpr char kLimitedSolver[] = R"(
net_param {
  layer { name: "data" type: "DummyData" top: "x" top: "t" dummy_data_param {
    shape { dim: 8 dim: 3 dim: 12 dim: 12 } shape { dim: 8 dim: 1 }
    data_filler { type: "uniform" } data_filler { type: "constant" value: 1 } } }
  layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
    convolution_param { num_output: 16 kernel_size: 3 weight_filler { type: "xavier" } } }
  layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" }
  layer { name: "relu" type: "ReLU" bottom: "norm" top: "norm" }
  layer { name: "pool" type: "Pooling" bottom: "norm" top: "pool"
    pooling_param { kernel_size: 2 stride: 2 } }
  layer { name: "ip1" type: "InnerProduct" bottom: "pool" top: "ip1"
    inner_product_param { num_output: 500 weight_filler { type: "xavier" } } }
  layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
    inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "t" top: "loss" } }
base_lr: 0.01 lr_policy: "fixed" max_iter: 3 display: 1 snapshot_after_train: false random_seed: 1
test_iter: 2 test_interval: 2
)";

class MachineLimits : public ::testing::Test {
 protected:
  MachineLimits() { temp_.Write("solver.prototxt", kLimitedSolver); }

  // Runs in a shell that sets a limit first, for at most a minute (exit code 124).
  ProcessResult RunWith(const std::string& limit, const std::vector<std::string>& command) const {
    std::vector<std::string> limited = {"/bin/sh", "-c", limit + "; exec timeout 60 \"$@\"", "sh"};
    limited.insert(limited.end(), command.begin(), command.end());
    return RunProcess(limited, temp_.path());
  }
  std::vector<std::string> Train() const { return {Bin("train"), "--solver=solver.prototxt"}; }

  TempDir temp_;
};

TEST_F(MachineLimits, ASmallStackSuffices) {
  const std::vector<std::vector<std::string>> commands = {
      Train(),
      {Bin("check"), "--solver=solver.prototxt"},
      {Bin("summary"), StrCat("--model=", CREMA_SOURCE_DIR, "/models/lenet/deploy.prototxt")}};
  for (const auto& command : commands) {
    const ProcessResult result = RunWith("ulimit -s 256", command);
    EXPECT_EQ(result.exit_code, 0) << command[0] << "\n" << result.err;
  }
}

// The kernel does not even start a process with much less.
TEST_F(MachineLimits, TooSmallAStackIsAnError) {
  for (const int kibibytes : {32, 48}) {
    const ProcessResult result = RunWith(StrCat("ulimit -s ", kibibytes), Train());
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_NE(result.err.find("error: the limit of the stack"), std::string::npos) << result.err;
  }
}

// OpenBLAS, a dependency of OpenCV, does not terminate without memory; the loader exits with 127.
TEST_F(MachineLimits, LittleAddressSpaceIsAnErrorAndNoHang) {
  for (const int mebibytes : {150, 250, 320, 400, 500, 700, 1000}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{Bin("train"), "--help"}, Train()}) {
      const ProcessResult result = RunWith(StrCat("ulimit -v ", mebibytes * 1024), command);
      // The dynamic loader ends a process whose libraries do not fit before our code runs.
      const bool by_loader =
          result.exit_code == 127 &&
          result.err.find("error while loading shared libraries") != std::string::npos;
      EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 4 || by_loader)
          << mebibytes << " MiB: " << result.exit_code << "\n"
          << result.err;
      if (result.exit_code == 4) {
        EXPECT_NE(result.err.find("error: "), std::string::npos) << mebibytes << " MiB";
      }
    }
  }
}

// libgomp prints what it has read from the environment.
TEST_F(MachineLimits, IdleThreadsSpinBriefly) {
  const auto spins = [&](const std::string& setting) {
    const ProcessResult result =
        RunWith("unset GOMP_SPINCOUNT OMP_WAIT_POLICY; export OMP_DISPLAY_ENV=verbose " + setting,
                {Bin("devices"), "--version"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (result.err.find("GOMP_") == std::string::npos) return std::string("no libgomp");
    const size_t at = result.err.find("GOMP_SPINCOUNT = '");
    if (at == std::string::npos) return result.err;
    return result.err.substr(at, result.err.find('\n', at) - at);
  };
  if (spins("") == "no libgomp") GTEST_SKIP() << "built with another OpenMP than libgomp";
  EXPECT_EQ(spins(""), "GOMP_SPINCOUNT = '1000'");
  EXPECT_EQ(spins("GOMP_SPINCOUNT=77"), "GOMP_SPINCOUNT = '77'");
  EXPECT_EQ(spins("OMP_WAIT_POLICY=passive"), "GOMP_SPINCOUNT = '0'");
}

TEST_F(MachineLimits, TrainSaysThatANetNeedsMoreThanThereIs) {
  std::string solver = kLimitedSolver;
  solver.replace(solver.find("dim: 8 dim: 3"), 13, "dim: 30000 dim: 3");
  solver.replace(solver.find("dim: 8 dim: 1 "), 14, "dim: 30000 dim: 1 ");
  temp_.Write("solver.prototxt", solver);
  const ProcessResult result = RunWith("ulimit -v 1000000", Train());
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_NE(result.err.find("of memory, but there are"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("lower batch_size"), std::string::npos) << result.err;
  const ProcessResult check =
      RunWith("ulimit -v 1000000", {Bin("check"), "--solver=solver.prototxt"});
  EXPECT_EQ(check.exit_code, 2) << check.err;
  EXPECT_NE(check.err.find("of memory, but there are"), std::string::npos) << check.err;
}

class FewThreads : public MachineLimits {
 protected:
  // With at most `threads` threads besides the first.
  ProcessResult RunWithThreads(int threads, std::vector<std::string> command) const {
    command.insert(command.begin(), {"/usr/bin/env", "LD_PRELOAD=" CREMA_FEW_THREADS,
                                     StrCat("FEW_THREADS=", threads)});
    return RunWith(":", command);
  }
  // For every limit, the command succeeds or reports the cause; with enough it succeeds.
  void ExpectErrorOrSuccess(const std::vector<std::string>& command,
                            const std::string& output = "") const {
    constexpr int kEnough = 12;
    for (int threads = 0; threads <= kEnough; ++threads) {
      if (!output.empty()) std::filesystem::remove_all(temp_.File(output));
      const ProcessResult result = RunWithThreads(threads, command);
      if (result.exit_code == 0) {
        EXPECT_GT(threads, 0) << "it needs no thread";
        continue;
      }
      EXPECT_EQ(result.exit_code, 4) << threads << " threads\n" << result.err;
      EXPECT_LT(threads, kEnough) << result.err;
      EXPECT_NE(result.err.find("could not be started"), std::string::npos)
          << threads << " threads\n"
          << result.err;
    }
  }
};

TEST_F(FewThreads, OfTrainAreAnError) {
  std::vector<std::string> command = Train();
  command.push_back("--threads=4");
  ExpectErrorOrSuccess(command);
}

#ifdef CREMA_HAVE_OPENCV
TEST_F(FewThreads, OfConvertImagesetAreAnError) {
  temp_.Write("a.ppm", "P6 2 2 255\n" + std::string(12, 'x'));
  std::string list;
  for (int i = 0; i < 40; ++i) list += "a.ppm 1\n";
  temp_.Write("list.txt", list);
  ExpectErrorOrSuccess({Bin("convert_imageset"), "-j", "4", "./", "list.txt", "db"}, "db");
}
#endif

#endif  // CREMA_SANITIZED

}  // namespace
}  // namespace crema::test
