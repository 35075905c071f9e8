// train in several processes, by the MPIs that are installed and by TCP.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/solver_state.h"
#include "support/error_text.h"
#include "support/free_port.h"
#include "support/process.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// The kind of transport.
class ManyProcesses : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    WriteDigits(temp_.File("train"), 30);
    WriteDigits(temp_.File("test"), 6);
    if (IsTcp()) return;
    const std::string launcher = StrCat("/usr/bin/mpirun.", GetParam());
    const std::string module = StrCat(CREMA_BIN_DIR, "/../lib/libcrema_mpi_", GetParam(), ".so");
    if (!std::filesystem::exists(launcher)) GTEST_SKIP() << "there is no " << launcher;
    if (!std::filesystem::exists(module)) GTEST_SKIP() << "this build has no " << module;
    const ProcessResult plain = RunProcess(Launcher(2, {"/bin/true"}), temp_.path());
    if (plain.exit_code != 0) GTEST_SKIP() << launcher << " starts nothing here: " << plain.err;
  }
  static bool IsTcp() { return std::string(GetParam()) == "tcp"; }

  // Pixels that look random; ten classes.
  static void WriteDigits(const std::string& path, int count) {
    std::vector<Datum> records;
    for (int i = 0; i < count; ++i) {
      Datum datum = RawDatum(Pattern(28, 28, 1), i % 10);
      for (char& pixel : *datum.mutable_data()) {
        pixel = static_cast<char>(MixBits(static_cast<uint64_t>(i), &pixel - datum.data().data()));
      }
      records.push_back(std::move(datum));
    }
    WriteSet(path, records);
  }
  std::string Data(const std::string& phase, const std::string& set, int batch) const {
    return StrCat("layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: ",
                  phase, " } transform_param { scale: 0.0039 } data_param { source: '",
                  temp_.File(set), "' batch_size: ", batch, " backend: LMDB } } ");
  }
  // LeNet, or a net with one convolution.
  std::string Net(int batch, bool is_lenet) const {
    std::string layers;
    std::string bottom = "data";
    for (const auto& [name, outputs] : {std::pair{"conv1", is_lenet ? 20 : 4}, {"conv2", 50}}) {
      if (!is_lenet && bottom != "data") break;
      layers += StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom,
                       "' top: '", name, "' param { lr_mult: 1 } param { lr_mult: 2 } ",
                       "convolution_param { kernel_size: 5 num_output: ", outputs,
                       " weight_filler { type: 'xavier' } } } layer { name: '", name,
                       "_pool' type: 'Pooling' bottom: '", name, "' top: '", name,
                       "_pool' pooling_param { pool: MAX kernel_size: 2 stride: 2 } } ");
      bottom = StrCat(name, "_pool");
    }
    return StrCat(Data("TRAIN", "train", batch), Data("TEST", "test", 3), layers,
                  "layer { name: 'ip1' type: 'InnerProduct' bottom: '", bottom, "' top: 'ip1' ",
                  "inner_product_param { num_output: ", is_lenet ? 500 : 20,
                  R"( weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'ip1' top: 'ip1' }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'
  inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' })");
  }
  void WriteSolver(const std::string& name, const std::string& fields) const {
    temp_.Write(name, StrCat("base_lr: 0.05 momentum: 0.9 lr_policy: 'fixed' random_seed: 5 ",
                             "display: 1 ", fields));
  }

  // Starts them as a user would in a shell. Returns the code of the first that fails, by rank.
  static std::vector<std::string> Shell(int processes, const std::vector<std::string>& program) {
    std::vector<std::string> command = {
        "/usr/bin/env",
        StrCat("WORLD_SIZE=", processes),
        "MASTER_ADDR=127.0.0.1",
        StrCat("MASTER_PORT=", FreePort()),
        "/bin/sh",
        "-c",
        "rank=0; all=; code=0\n"
        "while [ $rank -lt $WORLD_SIZE ]; do\n"
        "  RANK=$rank \"$0\" \"$@\" & all=\"$all $!\"; rank=$((rank + 1))\n"
        "done\n"
        "for one in $all; do wait $one || { c=$?; [ $code = 0 ] && code=$c; }; done\n"
        "exit $code"};
    command.insert(command.end(), program.begin(), program.end());
    return command;
  }
  static std::vector<std::string> Launcher(int processes, const std::vector<std::string>& program) {
    if (IsTcp()) return Shell(processes, program);
    std::vector<std::string> command = {StrCat("/usr/bin/mpirun.", GetParam()), "-n",
                                        StrCat(processes)};
    if (std::string(GetParam()) == "openmpi") {
      for (const char* flag : {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}) {
        command.emplace_back(flag);
      }
    }
    command.insert(command.end(), program.begin(), program.end());
    return command;
  }
  std::vector<std::string> Command(int processes, const std::string& solver,
                                   const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> train = {Bin("train"), "--solver=" + solver, "--run=none"};
    train.insert(train.end(), flags.begin(), flags.end());
    return Launcher(processes, train);
  }
  // Rank 1 runs a shell command instead, or before; $0 and $@ are the program.
  std::vector<std::string> CommandWithOther(const std::string& solver,
                                            const std::vector<std::string>& flags,
                                            const std::string& other) const {
    std::vector<std::string> command = Command(2, solver, flags);
    command.insert(std::ranges::find(command, Bin("train")),
                   {"/bin/sh", "-c",
                    StrCat("[ ${RANK:-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}} = 1 ] && { ", other,
                           "; }; exec \"$0\" \"$@\"")});
    return command;
  }
  ProcessResult Train(int processes, const std::string& solver,
                      const std::vector<std::string>& flags = {}) const {
    return RunProcess(Command(processes, solver, flags), temp_.path());
  }
  // Waits until a file has `text`.
  bool Says(const std::string& file, const std::string& text) const {
    const auto end = Clock::now() + 60s;
    while (temp_.Read(file).find(text) == std::string::npos) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(2ms);
    }
    return true;
  }
  // Of the process that writes this log: "I1127 19:44:59.123456 12345 crema:0] ".
  int PidOf(const std::string& log) const {
    int pid = 0;
    std::istringstream line(temp_.Read(log));
    std::string date;
    std::string time;
    line >> date >> time >> pid;
    if (pid <= 1) throw std::runtime_error("no process in " + log);  // 0 would be this group
    return pid;
  }
  // Starts two processes that end only by what `harm` does to the second; returns the exit code.
  template <typename Harm>
  int RunUntil(const Harm& harm, int* pid) {
    temp_.Write("net.prototxt", Net(2, false));
    WriteSolver("solver.prototxt",
                "net: 'net.prototxt' max_iter: 1000000000 snapshot: 5 snapshot_prefix: 's' "
                "time_limit: '10m'");
    Process run(Command(2, "solver.prototxt", {"--rank_timeout=3"}), temp_.path(),
                temp_.File("out"), temp_.File("err"));
    EXPECT_TRUE(Says("err", "Iteration 12,")) << temp_.Read("err");
    *pid = PidOf("s.rank1.log");
    harm(*pid);
    EXPECT_TRUE(run.EndsWithin(60s)) << temp_.Read("err");
    return run.Wait();
  }
  void ExpectIntactSnapshotAndResume() {
    WriteSolver("more.prototxt", "net: 'net.prototxt' max_iter: 10 snapshot_prefix: 's'");
    for (const auto& file : std::filesystem::directory_iterator(temp_.path())) {
      if (file.path().extension() == ".solverstate") {
        EXPECT_GT(ReadSolverState(file.path()).iter(), 0);
        EXPECT_GT(ReadCaffemodel(file.path().string().substr(0, file.path().string().rfind('.')) +
                                 ".caffemodel")
                      .layer_size(),
                  0);
      }
    }
    const ProcessResult resumed = Train(
        3, "more.prototxt", {"--resume=auto", "--set=max_iter=1000000000", "--set=time_limit=1s"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_TRUE(Contains(resumed.err, "was on 2 devices and continues on 3")) << resumed.err;
  }

  TempDir temp_;
};

std::vector<float> WeightsOf(const std::string& path) {
  std::vector<float> values;
  const NetParameter net = ReadCaffemodel(path);
  for (const LayerParameter& layer : net.layer()) {
    for (const BlobProto& blob : layer.blobs()) {
      values.insert(values.end(), blob.data().begin(), blob.data().end());
    }
  }
  return values;
}

double MostApart(const std::vector<float>& values, const std::vector<float>& expected) {
  double apart = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    apart = std::max(apart, std::abs(double{values[i]} - expected[i]));
  }
  return apart;
}

TEST_P(ManyProcesses, EndWithTheWeightsOfOneProcessWithTheCombinedBatch) {
  for (const bool is_lenet : {false, true}) {
    for (const int processes : {2, 3}) {
      temp_.Write("many.prototxt", Net(4, is_lenet));
      temp_.Write("one.prototxt", Net(4 * processes, is_lenet));
      const char* const fields = "max_iter: 6 snapshot: 3 test_iter: 2 test_interval: 2 ";
      WriteSolver("many.solver", StrCat(fields, "net: 'many.prototxt' snapshot_prefix: 'many'"));
      WriteSolver("one.solver", StrCat(fields, "net: 'one.prototxt' snapshot_prefix: 'one'"));
      const ProcessResult one = RunProcess(
          {Bin("train"), "--solver=one.solver", "--run=none", "--threads=1"}, temp_.path());
      ASSERT_EQ(one.exit_code, 0) << one.err;
      // Small buckets: several in each pass.
      const ProcessResult many =
          Train(processes, "many.solver", {"--threads=1", "--bucket_mb=0.01"});
      ASSERT_EQ(many.exit_code, 0) << many.err;
      EXPECT_FALSE(Contains(many.err, "different weights")) << many.err;
      EXPECT_TRUE(Contains(many.err, StrCat("training in ", processes, " processes"))) << many.err;

      const std::vector<float> expected = WeightsOf(temp_.File("one_iter_6.caffemodel"));
      const std::vector<float> values = WeightsOf(temp_.File("many_iter_6.caffemodel"));
      ASSERT_EQ(values.size(), expected.size());
      ASSERT_GT(values.size(), 1000U);
      EXPECT_LT(MostApart(values, expected), 2e-5);
      // Nothing depends on which message comes first, or on the buckets.
      const std::string first = ReadFile(temp_.File("many_iter_6.caffemodel"));
      ASSERT_EQ(Train(processes, "many.solver", {"--threads=1"}).exit_code, 0);
      EXPECT_EQ(ReadFile(temp_.File("many_iter_6.caffemodel")), first);

      const ProcessResult rounded = Train(processes, "many.solver", {"--threads=1", "--wire=bf16"});
      ASSERT_EQ(rounded.exit_code, 0) << rounded.err;
      EXPECT_FALSE(Contains(rounded.err, "different weights")) << rounded.err;
      const double difference =
          MostApart(WeightsOf(temp_.File("many_iter_6.caffemodel")), expected);
      EXPECT_LT(difference, 0.05);
      EXPECT_GT(difference, 2e-5);
    }
  }
}

TEST_P(ManyProcesses, CountTheEpochsOfAllRanks) {
  temp_.Write("net.prototxt", Net(2, false));
  WriteSolver("solver.prototxt", "net: 'net.prototxt' max_epoch: 2 snapshot_prefix: 's'");
  const ProcessResult run = Train(2, "solver.prototxt");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(Contains(run.out + run.err, "trained to iteration 15 ")) << run.out << run.err;
}

TEST_P(ManyProcesses, DivideATestLikeOneProcess) {
  temp_.Write("net.prototxt", Net(2, false));
  for (const char* const batches : {"", "test_iter: 3"}) {  // all 6 samples, or 3 batches of 3
    WriteSolver("solver.prototxt",
                StrCat("net: 'net.prototxt' max_iter: 0 test_interval: 1 ", batches));
    const std::string one =
        RunProcess({Bin("train"), "--solver=solver.prototxt", "--run=none"}, temp_.path()).err;
    const ProcessResult many = Train(2, "solver.prototxt");
    ASSERT_EQ(many.exit_code, 0) << many.err;
    const std::string result = "Test net output #0: loss = ";
    ASSERT_TRUE(Contains(one, result)) << one;
    const std::string expected = one.substr(one.find(result), result.size() + 7);
    EXPECT_TRUE(Contains(many.err, expected)) << expected << many.err;
  }
}

TEST_P(ManyProcesses, ScaleTheLearningRateByOneFlag) {
  temp_.Write("net.prototxt", Net(2, false));
  temp_.Write("solver.prototxt",
              "net: 'net.prototxt' base_lr: 0.001 lr_policy: 'fixed' display: 1 max_iter: 40 "
              "snapshot: 20 snapshot_prefix: 's'");
  const ProcessResult run = RunProcess(
      Launcher(2, {Bin("train"), "--solver=solver.prototxt", "--run=r", "--large_batch=linear"}),
      temp_.path());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string rule = "base_lr=0.002 warmup_iter=2 warmup_start_lr=0.001";
  EXPECT_TRUE(Contains(run.err, rule)) << run.err;
  EXPECT_TRUE(Contains(run.err, "Iteration 0, lr = 0.001")) << run.err;
  EXPECT_TRUE(Contains(run.err, "Iteration 39, lr = 0.002")) << run.err;
  const std::string recorded = temp_.Read("r/starts.jsonl");
  EXPECT_TRUE(Contains(recorded, "--set=base_lr=0.002") && !Contains(recorded, "large_batch"))
      << recorded;
  // A run that goes on keeps its rate.
  const ProcessResult more =
      RunProcess(Launcher(2, {Bin("train"), "--solver=solver.prototxt", "--run=r", "--resume=auto",
                              "--large_batch=linear", "--set=max_iter=44"}),
                 temp_.path());
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_TRUE(Contains(more.err, "the run keeps its base_lr of 0.002")) << more.err;
  EXPECT_TRUE(Contains(more.err, "Iteration 43, lr = 0.002")) << more.err;
}

TEST_P(ManyProcesses, RecordTheTimesOfTheirRanks) {
  temp_.Write("net.prototxt", Net(2, false));
  WriteSolver("solver.prototxt", "net: 'net.prototxt' max_iter: 4 snapshot_prefix: 's'");
  const ProcessResult run =
      RunProcess(Launcher(2, {Bin("train"), "--solver=solver.prototxt", "--run=r"}), temp_.path());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string metrics = temp_.Read("r/metrics.csv");
  for (const char* const row :
       {",rank_seconds,0,", ",rank_seconds,1,", ",sum_seconds,0,", ",exposed_sum_seconds,0,"}) {
    EXPECT_TRUE(Contains(metrics, row)) << metrics;
  }
}

TEST_P(ManyProcesses, OneIsAnOrdinaryRun) {
  temp_.Write("net.prototxt", Net(2, false));
  WriteSolver("solver.prototxt", "net: 'net.prototxt' max_iter: 2 snapshot_prefix: 's'");
  const ProcessResult one = Train(1, "solver.prototxt");
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_FALSE(Contains(one.err, "processes")) << one.err;
  EXPECT_FALSE(std::filesystem::exists(temp_.File("s.rank1.log")));
}

TEST_P(ManyProcesses, TellAnErrorOfOneRankWithItsRankAndHost) {
  std::vector<Datum> records(8, RawDatum(Pattern(28, 28, 1), 1));
  records[5] = RawDatum(Pattern(20, 20, 1), 1);  // of rank 1
  std::filesystem::remove_all(temp_.File("train"));
  WriteSet(temp_.File("train"), records);
  temp_.Write("net.prototxt", Net(2, false));
  WriteSolver("solver.prototxt", "net: 'net.prototxt' max_iter: 8 snapshot_prefix: 's'");
  const ProcessResult run = Train(2, "solver.prototxt");
  EXPECT_EQ(run.exit_code, 3) << run.err;
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof(host) - 1), 0);
  const std::string name = StrCat("error: rank 1 on ", host, ": ");
  const size_t at = run.err.find(name);
  ASSERT_NE(at, std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("error: ", at + name.size()), std::string::npos) << run.err;
  EXPECT_TRUE(Contains(temp_.Read("s.rank1.log"), "error: rank 1 on ")) << "also in its log";
}

TEST_P(ManyProcesses, TellAnErrorOfAllOnce) {
  WriteSolver("solver.prototxt", "net: 'missing.prototxt' max_iter: 8 snapshot_prefix: 's'");
  const ProcessResult run = Train(3, "solver.prototxt");
  EXPECT_EQ(run.exit_code, 2) << run.err;
  const size_t at = run.err.find("missing.prototxt");
  ASSERT_NE(at, std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("missing.prototxt", at + 1), std::string::npos) << run.err;
  temp_.Write("net.prototxt", Net(2, false));
  WriteSolver("solver.prototxt", "net: 'net.prototxt' max_iter: 8");
  const ProcessResult batch = Train(2, "solver.prototxt", {"--batch=auto"});
  EXPECT_EQ(batch.exit_code, 2) << batch.err;
  EXPECT_TRUE(Contains(batch.err, "batch_size=AUTO (--batch=auto) measures")) << batch.err;
}

TEST_P(ManyProcesses, TellErrorsAsJsonWithFileAndLine) {
  temp_.Write("net.prototxt", "name: 'x'\nlayer { name: 'a' type: 'Convolutoin' }\n");
  WriteSolver("solver.prototxt", "net: 'net.prototxt' max_iter: 8");
  const ProcessResult run = Train(2, "solver.prototxt", {"--log_format=json"});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  const size_t at = run.err.find(R"("file":"net.prototxt")");
  ASSERT_NE(at, std::string::npos) << run.err;
  EXPECT_TRUE(Contains(run.err, R"("line":2)")) << run.err;
  EXPECT_EQ(run.err.find(R"("file":)", at + 1), std::string::npos) << run.err;
}

TEST_P(ManyProcesses, WithOtherSolversEndAtTheStart) {
  WriteSolver("a.prototxt", StrCat("max_iter: 3 net_param { ", Net(3, false), " }"));
  WriteSolver("b.prototxt", StrCat("max_iter: 4 net_param { ", Net(3, false), " }"));
  for (const char* other :
       {"--solver=b.prototxt --run=none", "\"$@\" --wire=bf16", "\"$@\" --bucket_mb=1"}) {
    const ProcessResult result =
        RunProcess(CommandWithOther("a.prototxt", {}, StrCat("set -- ", other)), temp_.path());
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(Contains(result.err, "has another solver, net, --wire or --bucket_mb than rank 0"))
        << result.err;
  }
}

TEST_P(ManyProcesses, OfAnotherMpiDoNotTrainAlone) {
  if (IsTcp()) GTEST_SKIP() << "of no MPI";
  WriteSolver("a.prototxt", StrCat("max_iter: 3 net_param { ", Net(3, false), " }"));
  const std::string other = std::string(GetParam()) == "openmpi" ? "mpich" : "openmpi";
  if (!std::filesystem::exists(StrCat(CREMA_BIN_DIR, "/../lib/libcrema_mpi_", other, ".so"))) {
    GTEST_SKIP() << "this build has one MPI";
  }
  const ProcessResult result = Train(2, "a.prototxt", {"--mpi=" + other});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(Contains(result.err, "Choose that by --transport")) << result.err;
}

TEST_P(ManyProcesses, StopWithASnapshotIfOneIsAsked) {
  int pid = 0;
  EXPECT_EQ(RunUntil([](int process) { ASSERT_EQ(::kill(process, SIGTERM), 0); }, &pid), 0);
  const std::string log = temp_.Read("err");
  const size_t last = log.rfind("Snapshotting solver state");
  ASSERT_NE(last, std::string::npos) << log;
  EXPECT_TRUE(Contains(log.substr(last), "Optimization stopped early")) << log;
  ExpectIntactSnapshotAndResume();
}

TEST_P(ManyProcesses, EndIfOneIsKilled) {
  int pid = 0;
  EXPECT_NE(RunUntil([](int process) { ASSERT_EQ(::kill(process, SIGKILL), 0); }, &pid), 0);
  // The connection breaks too, and MPICH may abort rank 0 for that before its launcher looks.
  const std::string all = temp_.Read("err") + temp_.Read("out");
  EXPECT_TRUE(Contains(all, IsTcp() ? "error: rank 0 on " : "rank 1") ||
              Contains(all, StrCat("PID ", pid)) || Contains(all, "BAD TERMINATION"))
      << all;
  ExpectIntactSnapshotAndResume();
}

TEST_P(ManyProcesses, EndIfOneHangs) {
  int pid = 0;
  const auto stop = [this](int process) {
    ASSERT_EQ(::kill(process, SIGSTOP), 0);
    if (!IsTcp()) return;  // no launcher ends it
    EXPECT_TRUE(Says("err", ": no answer from rank 1 on ")) << temp_.Read("err");
    ASSERT_EQ(::kill(process, SIGCONT), 0);
  };
  EXPECT_EQ(RunUntil(stop, &pid), 4);
  const std::string log = temp_.Read("err");
  EXPECT_TRUE(Contains(log, "error: rank 0 on ") && Contains(log, ": no answer from rank 1 on "))
      << log;
  const auto end = Clock::now() + 60s;
  while (::kill(pid, 0) == 0 && Clock::now() < end) std::this_thread::sleep_for(2ms);
  EXPECT_NE(::kill(pid, 0), 0) << "the stopped process stays";
  ExpectIntactSnapshotAndResume();
}

// MPI_Init and the meeting over TCP wait for all.
TEST_P(ManyProcesses, EndIfOneDoesNotStart) {
  Process run(CommandWithOther("solver.prototxt", {"--rank_timeout=2"},
                               IsTcp() ? "exit 0" : "kill -STOP $$"),
              temp_.path(), temp_.File("out"), temp_.File("err"));
  EXPECT_TRUE(run.EndsWithin(60s));
  EXPECT_EQ(run.Wait(), 4);
  EXPECT_TRUE(Contains(temp_.Read("err"), IsTcp() ? "has waited 2 seconds for rank 1 at port "
                                                  : "MPI does not start within 2 seconds"))
      << temp_.Read("err");
}

INSTANTIATE_TEST_SUITE_P(All, ManyProcesses, ::testing::Values("openmpi", "mpich", "tcp"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(OneProcess, OfSeveralWithoutThemIsTold) {
  for (const char* flag : {"--transport=openmp", "--mpi=openmp"}) {
    const ProcessResult flags = RunProcess({Bin("train"), "--solver=s", flag});
    EXPECT_EQ(flags.exit_code, 2);
    EXPECT_TRUE(Contains(flags.err, "did you mean 'openmpi'")) << flags.err;
  }
  const ProcessResult wire = RunProcess({Bin("train"), "--solver=s", "--wire=f16"});
  EXPECT_EQ(wire.exit_code, 2);
  EXPECT_TRUE(Contains(wire.err, "'f16' is not f32 or bf16")) << wire.err;
  const ProcessResult alone =
      RunProcess({"/usr/bin/env", "WORLD_SIZE=2", "RANK=1", "MASTER_ADDR=localhost",
                  "MASTER_PORT=29500x", Bin("train"), "--solver=s"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_TRUE(Contains(alone.err, "MASTER_PORT is '29500x'")) << alone.err;
  const ProcessResult timeout = RunProcess({Bin("train"), "--solver=s", "--rank_timeout=0"});
  EXPECT_EQ(timeout.exit_code, 2);
  EXPECT_TRUE(Contains(timeout.err, "--rank_timeout is 0")) << timeout.err;
  const ProcessResult infinite = RunProcess({Bin("train"), "--solver=s", "--rank_timeout=inf"});
  EXPECT_EQ(infinite.exit_code, 2);
  EXPECT_TRUE(Contains(infinite.err, "--rank_timeout is inf")) << infinite.err;
}

}  // namespace
}  // namespace crema::test
