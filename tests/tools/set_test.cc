// --set FIELD=VALUE of the commands that read solvers and nets.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "format/prototxt.h"
#include "tools/run_folder.h"

namespace crema {
namespace {

using test::ProcessResult;

class Set : public test::RunFolder {
 protected:
  void ExpectRefused(const std::string& command, std::vector<std::string> flags,
                     const std::string& message) {
    flags.insert(flags.begin(),
                 command == "summary" || command == "evaluate" || command == "profile"
                     ? "--model=net.prototxt"
                     : "--solver=solver.prototxt");
    if (command == "evaluate") flags.emplace_back("--weights=w.caffemodel");
    flags.insert(flags.begin(), test::Bin(command));
    const ProcessResult result = test::RunProcess(flags, temp_.path());
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_NE(result.err.find(message), std::string::npos) << command << "\n" << result.err;
  }
  SolverParameter RecordedSolver() const {
    return ReadSolver(temp_.File("snap_run/solver.prototxt")).solver;
  }
};

TEST_F(Set, MistakesAreAnsweredByEveryCommandWithTheSettingAsTheirPlace) {
  for (const char* command : {"train", "check", "plot_lr", "lr_find", "show_batch"}) {
    const std::string out = command == std::string("show_batch") ? "-o=s.png" : "--set=gamma=1";
    ExpectRefused(command, {"--set=base_lr=abc", out},
                  "error: --set base_lr=abc: 'base_lr' expects a number, got abc\n");
  }
  for (const char* command : {"train", "check", "lr_find"}) {
    ExpectRefused(command, {"--set", "layer[ip3].type=ReLU", "--set", "layer[ip1].name=x"},
                  "error: --set layer[ip3].type=ReLU: there is no layer 'ip3' (did you mean ");
  }
  for (const char* command : {"summary", "evaluate", "profile"}) {
    ExpectRefused(command, {"--set=layer[ip1].inner_product_param.num_outputs=3"},
                  "error: --set layer[ip1].inner_product_param.num_outputs=3: unknown field "
                  "'num_outputs' (did you mean 'num_output'?)\n");
  }
}

// Also problems that are found after the file was read.
TEST_F(Set, IsThePlaceOfLaterProblems) {
  for (const char* command : {"train", "check"}) {
    ExpectRefused(command, {"--set=base_lr=-1"}, "error: --set base_lr=-1: base_lr -1 is negative");
    ExpectRefused(command, {"--set=layer[ip1].inner_product_param.num_output=0"},
                  "--set layer[ip1].inner_product_param.num_output=0: layer \"ip1\": ");
  }
}

TEST_F(Set, AFieldGivenAsAFlagIsExplained) {
  ExpectRefused("train", {"--base_lr=0.1"},
                "error: unknown flag --base_lr: it is a field of the solver; write --set "
                "base_lr=0.1\n");
  ExpectRefused("train", {"--lr=0.1"},
                "unknown flag --lr: 'base_lr' is a field of the solver; write --set base_lr=0.1\n");
  ExpectRefused("train", {"--epochs=10"}, "; write --set max_epoch=10\n");
  ExpectRefused("train", {"--iterations", "10"}, "; write --set max_iter=10\n");
  ExpectRefused("check", {"--max_iter", "5"},
                "unknown flag --max_iter: it is a field of the solver; write --set max_iter=5\n");
  ExpectRefused("plot_lr", {"--gamma"}, "; write --set gamma=VALUE\n");
  ExpectRefused("summary", {"--memory_budget=5"},
                "unknown flag --memory_budget: it is a field of the net; write --set "
                "memory_budget=5\n");
  ExpectRefused("summary", {"--base_lr=0.1"}, "unknown flag --base_lr; --help lists the flags\n");
  ExpectRefused("check", {"--set=conv1.num_output=3"},
                "unknown field 'conv1'; a field of a layer is written layer[conv1].BLOCK.FIELD\n");
}

TEST_F(Set, CommandsUseTheValues) {
  EXPECT_EQ(Run("check", {"--solver=solver.prototxt", "--set",
                          "layer[ip1].inner_product_param="
                          "{num_output: 5}"})
                .out.find("train: net \"small\", 5 layers, 209 parameters"),
            0U);
  const ProcessResult rates = test::RunProcess(
      {test::Bin("plot_lr"), "--solver=solver.prototxt", "--set=base_lr=0.5", "--set=max_iter=2"},
      temp_.path());
  EXPECT_EQ(rates.out, "iteration,lr\n0,0.5\n1,0.5\n") << rates.err;
  EXPECT_NE(Run("summary", {"--model=net.prototxt",
                            "--set=layer[ip2].inner_product_param."
                            "num_output=9"})
                .out.find("8x9"),
            std::string::npos);
}

TEST_F(Set, ReachesEachNetOfASolverWithSeveral) {
  Edit("solver.prototxt", "net: \"net.prototxt\"",
       "train_net: \"net.prototxt\" test_net: \"net.prototxt\"");
  const ProcessResult result =
      Run("check", {"--solver=solver.prototxt", "--set=layer[data:TEST].data_param.batch_size=4",
                    "--set=layer[ip1].inner_product_param.num_output=5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"train: net \"small\", 5 layers, 209 parameters, 32 samples of 32 in "
                           "batches of 8",
                           "test#0: net \"small\", 5 layers, 209 parameters, 16 samples of 16 in "
                           "batches of 4"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST_F(Set, IsRecordedAndKeptOnResume) {
  const std::vector<std::string> start = {
      "--solver=solver.prototxt", "--set", "max_iter=4",
      "--set=base_lr=0.05",       "--set", "layer[ip1].inner_product_param.num_output=5"};
  ASSERT_EQ(Run("train", start).exit_code, 0);
  EXPECT_EQ(RecordedSolver().max_iter(), 4);
  EXPECT_FLOAT_EQ(RecordedSolver().base_lr(), 0.05F);
  const NetFile net = ReadNet(temp_.File("snap_run/net.prototxt"));
  EXPECT_EQ(net.net.layer(2).inner_product_param().num_output(), 5U);
  EXPECT_NE(temp_.Read("snap_run/run.json").find("\"--set=base_lr=0.05\""), std::string::npos);

  const std::vector<std::string> more = {"--solver=solver.prototxt", "--resume=auto", "--set",
                                         "max_iter=6"};
  for (int start_of_run = 0; start_of_run < 2; ++start_of_run) {
    const ProcessResult resumed = Run("train", more);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_NE(resumed.err.find("resumes with --set base_lr=0.05 (kept from snap_run)"),
              std::string::npos)
        << resumed.err;
    EXPECT_EQ(resumed.err.find("max_iter=4"), std::string::npos) << resumed.err;
    EXPECT_EQ(RecordedSolver().max_iter(), 6);
    EXPECT_FLOAT_EQ(RecordedSolver().base_lr(), 0.05F);
  }
  EXPECT_TRUE(std::filesystem::exists(temp_.File("snap_iter_6.caffemodel")));
}

TEST_F(Set, AnEmptyValueDropsAKeptOneForGood) {
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt", "--set=base_lr=0.05", "--set=max_iter=4"})
                .exit_code,
            0);
  const float of_file = ReadSolver(temp_.File("solver.prototxt")).solver.base_lr();
  ASSERT_NE(of_file, 0.05F);
  const ProcessResult dropped =
      Run("train", {"--solver=solver.prototxt", "--resume=auto", "--set=base_lr="});
  ASSERT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_FLOAT_EQ(RecordedSolver().base_lr(), of_file);
  EXPECT_EQ(RecordedSolver().max_iter(), 4);
  const ProcessResult later =
      Run("train", {"--solver=solver.prototxt", "--resume=auto", "--set=max_iter=6"});
  ASSERT_EQ(later.exit_code, 0) << later.err;
  EXPECT_EQ(later.err.find("base_lr=0.05"), std::string::npos) << later.err;
  EXPECT_FLOAT_EQ(RecordedSolver().base_lr(), of_file);
}

TEST_F(Set, AResumedRunSaysHowToDropWhatItKeeps) {
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt", "--set=base_lr=0.05"}).exit_code, 0);
  const ProcessResult resumed = Run("train", {"--solver=solver.prototxt", "--resume=auto"});
  EXPECT_NE(resumed.err.find(
                "resumes with --set base_lr=0.05 (kept from snap_run); --set base_lr= drops it"),
            std::string::npos)
      << resumed.err;
}

TEST_F(Set, AnEndOfTheRunThatIsKeptIsNamedByTheWarningOfIt) {
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt", "--set=max_iter=4"}).exit_code, 0);
  const ProcessResult resumed = Run("train", {"--solver=solver.prototxt", "--resume=auto", "-q"});
  EXPECT_NE(resumed.err.find("--set max_iter=4 (kept from snap_run): the state is of iteration 4"),
            std::string::npos)
      << resumed.err;
}

TEST_F(Set, TheRunIsThatOfAnEditedFile) {
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt", "--run=none", "--set=snapshot_prefix=set",
                          "--set=momentum=0.5", "--set=layer[ip1].param=[{lr_mult: 2}, {}]"})
                .exit_code,
            0);
  Edit("solver.prototxt", "momentum: 0.9", "momentum: 0.5");
  Edit("net.prototxt", "layer { name: \"ip1\"",
       "layer { name: \"ip1\" param { lr_mult: 2 } param { }");
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt", "--run=none"}).exit_code, 0);
  EXPECT_EQ(temp_.Read("set_iter_8.caffemodel"), temp_.Read("snap_iter_8.caffemodel"));
}

TEST_F(Set, ReachesNetsInsideOfASolverAndTheirRecord) {
  std::string solver = temp_.Read("solver.prototxt");
  solver.replace(0, std::string("net: \"net.prototxt\"").size(),
                 StrCat("net_param {\n", temp_.Read("net.prototxt"), "}"));
  temp_.Write("solver.prototxt", solver);
  ASSERT_EQ(Run("train",
                {"--solver=solver.prototxt", "--set=layer[ip1].inner_product_param.num_output=5"})
                .exit_code,
            0);
  EXPECT_EQ(RecordedSolver().net_param().layer(2).inner_product_param().num_output(), 5U);
}

}  // namespace
}  // namespace crema
