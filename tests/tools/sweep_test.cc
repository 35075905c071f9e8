// sweep: trials over values of fields.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/csv.h"
#include "core/strings.h"
#include "format/prototxt.h"
#include "tools/run_folder.h"

namespace crema {
namespace {

using test::ProcessResult;

class SweepTest : public test::RunFolder {
 protected:
  ProcessResult Sweep(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {test::Bin("sweep"), "--solver=solver.prototxt"});
    return test::RunProcess(flags, temp_.path());
  }
  // Without threads of their own, so that tests that run beside this one are not slowed down.
  ProcessResult SweepOnOneThread(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--", "--threads=1"});
    return Sweep(flags);
  }
  void ExpectRefused(const std::vector<std::string>& flags, const std::string& message) {
    const ProcessResult result = Sweep(flags);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(temp_.File("sweep/trial_001"))) << message;
  }
  SolverParameter SolverOfTrial(const std::string& folder) {
    return ReadSolver(temp_.File(folder + "/solver.prototxt")).solver;
  }
  std::vector<std::vector<std::string>> Results(const std::string& folder) {
    return tools::ParseCsv(temp_.Read(folder + "/results.csv"));
  }
};

TEST_F(SweepTest, TrainsEachCombinationAndRanksTheResults) {
  const ProcessResult result = SweepOnOneThread(
      {"--over", "base_lr=1e-9,0.1", "--over=momentum=0,0.9", "--set=max_iter=40", "-o", "s"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::vector<std::vector<std::string>> results = Results("s");
  ASSERT_EQ(results.size(), 5U);
  EXPECT_EQ(results[0],
            (std::vector<std::string>{"rank", "trial", "exit_code", "best_loss", "best_iteration",
                                      "last_loss", "base_lr", "momentum"}));
  // A net that hardly moves is worse than one that learns.
  for (size_t rank : {1U, 2U}) EXPECT_EQ(results[rank][6], "0.1");
  for (size_t rank : {3U, 4U}) EXPECT_EQ(results[rank][6], "1e-9");
  for (size_t rank = 2; rank <= 4; ++rank) {
    EXPECT_LE(std::stod(results[rank - 1][3]), std::stod(results[rank][3]));
  }
  const SolverParameter third = SolverOfTrial("s/trial_003");
  EXPECT_FLOAT_EQ(third.base_lr(), 0.1F);
  EXPECT_EQ(third.momentum(), 0);
  EXPECT_EQ(third.max_iter(), 40);
  EXPECT_TRUE(std::filesystem::exists(temp_.File("s/trial_004/model_iter_40.caffemodel")));
  EXPECT_TRUE(std::filesystem::exists(temp_.File("s/report.html")));
  EXPECT_NE(result.out.find("trial 3 of 4: base_lr=0.1 momentum=0: loss "), std::string::npos)
      << result.out;
}

TEST_F(SweepTest, ResumesWithoutTrainingATrialTwice) {
  const std::vector<std::string> flags = {"--over=base_lr=0.1,0.01", "-o=s"};
  const ProcessResult first = SweepOnOneThread(flags);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  // As if the second trial had not ended.
  temp_.Write("s/trials.csv", "trial,length,exit_code\n1,0,0\n2,0");
  std::filesystem::remove_all(temp_.File("s/trial_002"));
  const std::string before = temp_.Read("s/trial_001/starts.jsonl");
  const ProcessResult again = SweepOnOneThread(flags);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(temp_.Read("s/trial_001/starts.jsonl"), before);
  EXPECT_TRUE(std::filesystem::exists(temp_.File("s/trial_002/model_iter_8.caffemodel")));
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(temp_.Read("s/trials.csv"), "trial,length,exit_code\n1,0,0\n2,0,0\n");
}

TEST_F(SweepTest, AnotherSweepInTheFolderIsRefused) {
  ASSERT_EQ(SweepOnOneThread({"--over=base_lr=0.1", "-o=s"}).exit_code, 0);
  ExpectRefused({"--over=base_lr=0.2", "-o=s"}, "'s' holds another sweep (see s/sweep.json)");
  std::filesystem::create_directory(temp_.File("other"));
  temp_.Write("other/file", "");
  ExpectRefused({"--over=base_lr=0.2", "-o=other"}, "'other' exists and holds no sweep");
}

TEST_F(SweepTest, ATrialThatDivergesDoesNotEndTheOthers) {
  const ProcessResult result = SweepOnOneThread({"--over=base_lr=1e30,0.1", "-o=s"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("trial 1 of 2: base_lr=1e30: diverged\n"), std::string::npos)
      << result.out;
  const std::vector<std::vector<std::string>> results = Results("s");
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[1][1], "2");
  EXPECT_EQ(results[2][2], "5");
}

TEST_F(SweepTest, HalvingTrainsTheBetterTrialsLonger) {
  const ProcessResult result = SweepOnOneThread(
      {"--search=halving", "--trials=4", "--keep=2", "--over=base_lr=1e-6..1e-1:log", "-o=s"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  // Rounds of 2, 4 and 8 iterations; the first is prolonged to the first test, at 4.
  const std::vector<std::vector<std::string>> ends = tools::ParseCsv(temp_.Read("s/trials.csv"));
  ASSERT_EQ(ends.size(), 6U);
  for (size_t trial = 1; trial <= 4; ++trial) EXPECT_EQ(ends[trial][1], "4");
  const std::vector<std::vector<std::string>> results = Results("s");
  ASSERT_EQ(results.size(), 5U);
  const std::string winner = "s/trial_00" + results[1][1];
  EXPECT_EQ(SolverOfTrial(winner).max_iter(), 8);
  // The winner continued from its snapshots: its metrics begin at 0 and have each row once.
  EXPECT_TRUE(std::filesystem::exists(temp_.File(winner + "/model_iter_4.caffemodel")));
  EXPECT_TRUE(std::filesystem::exists(temp_.File(winner + "/model_iter_8.caffemodel")));
  EXPECT_EQ(ends[5], (std::vector<std::string>{results[1][1], "8", "0"}));
  EXPECT_EQ(SolverOfTrial("s/trial_00" + results[4][1]).max_iter(), 4);
}

TEST_F(SweepTest, TheSameSeedDrawsTheSamePoints) {
  const std::vector<std::string> flags = {
      "--search=random", "--trials=3", "--over=base_lr=1e-4..1e-1:log",
      "--over=layer[ip1].inner_product_param.num_output=4..6", "--set=max_iter=1"};
  for (const char* folder : {"a", "b"}) {
    std::vector<std::string> one = flags;
    one.push_back(StrCat("-o=", folder));
    const ProcessResult result = SweepOnOneThread(one);
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    for (size_t rank = 1; rank <= 3; ++rank) {
      const std::vector<std::string> line = Results(folder)[rank];
      EXPECT_GE(std::stod(line[6]), 1e-4);
      EXPECT_LE(std::stod(line[6]), 1e-1);
      EXPECT_TRUE(line[7] == "4" || line[7] == "5" || line[7] == "6") << line[7];
    }
  }
  EXPECT_EQ(temp_.Read("a/sweep.json"), temp_.Read("b/sweep.json"));
}

TEST_F(SweepTest, MistakesAreErrorsBeforeTheFirstTrial) {
  ExpectRefused({}, "--over is required");
  ExpectRefused({"--over=base_lr"}, "--over base_lr: is not FIELD=VALUE");
  ExpectRefused({"--over=base_lr=0.1,"}, "--over base_lr: a value is empty");
  ExpectRefused({"--over=base_lr=0.1,0.1"}, "--over base_lr: the value 0.1 occurs twice");
  ExpectRefused({"--over=base_lr=0.1", "--over=base_lr=0.2"},
                "--over base_lr is given twice; write all its values in one");
  ExpectRefused({"--over=snapshot_prefix=a,b"}, "sweep sets this field itself");
  ExpectRefused({"--over=base_lr=0.1,abc"},
                "--over base_lr=abc: 'base_lr' expects a number, got abc");
  ExpectRefused({"--over=layer[ip9].type=ReLU"}, "there is no layer 'ip9'");
  ExpectRefused({"--over=base_lr=0.1..0.2"}, "--over base_lr: a grid takes lists of values");
  ExpectRefused({"--search=random", "--trials=2", "--over=base_lr=0.2..0.1"},
                "the range 0.2..0.1 is empty");
  ExpectRefused({"--search=random", "--trials=2", "--over=base_lr=0..0.1:log"},
                "a logarithmic range begins above 0, not at 0");
  ExpectRefused({"--search=random", "--over=base_lr=0.1"}, "needs --trials from 1 to 10000, not 0");
  ExpectRefused({"--trials=2", "--over=base_lr=0.1"}, "--trials belongs to --search=random");
  ExpectRefused({"--search=guess", "--over=base_lr=0.1"}, "use grid, random or halving");
  ExpectRefused({"--search=halving", "--trials=4", "--over=max_iter=4,8"},
                "--over max_iter: halving sets this field");
  ExpectRefused({"--over=base_lr=0.1", "--mode=best"}, "use auto, min or max");
  ExpectRefused({"--over=base_lr=0.1", "net.prototxt"}, "unexpected argument 'net.prototxt'");
  ExpectRefused({"--over=base_lr=0.1", "--metric=acuracy"},
                "--metric: the tests have no output 'acuracy'; they have loss");
  ExpectRefused({"--over=base_lr=0.1", "--", "-"}, "unexpected argument '-'");
  ExpectRefused({"--over=base_lr=0.1", "--", "--run=x"}, "--run cannot follow after --");
  Edit("solver.prototxt", "max_iter: 8", "max_epoch: 4");
  ExpectRefused({"--search=halving", "--trials=4", "--over=base_lr=0.1..0.2"},
                "--search=halving needs test_interval_epoch beside max_epoch");
}

TEST_F(SweepTest, TheDirectionOfTheMetricHoldsIfTheFirstTrialDiverges) {
  const ProcessResult result =
      SweepOnOneThread({"--over=base_lr=1e30,0.1,1e-9", "--metric=loss", "-o=s"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::vector<std::vector<std::string>> results = Results("s");
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[1][1], "2");
  EXPECT_EQ(results[2][1], "3");
  EXPECT_LT(std::stod(results[1][3]), std::stod(results[2][3]));
}

TEST_F(SweepTest, FailuresAreTriedAgainAndGiveTheirExitCode) {
  std::filesystem::rename(temp_.File("train_lmdb"), temp_.File("moved_lmdb"));
  const std::vector<std::string> flags = {"--over=base_lr=0.1", "-o=s"};
  const ProcessResult failed = SweepOnOneThread(flags);
  EXPECT_NE(failed.exit_code, 0);
  EXPECT_NE(failed.exit_code, 5) << failed.out << failed.err;
  std::filesystem::rename(temp_.File("moved_lmdb"), temp_.File("train_lmdb"));
  const ProcessResult again = SweepOnOneThread(flags);
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_TRUE(std::filesystem::exists(temp_.File("s/trial_001/model_iter_8.caffemodel")));
}

TEST_F(SweepTest, OtherFlagsOfTrainAreAnotherSweep) {
  ASSERT_EQ(SweepOnOneThread({"--over=base_lr=0.1", "-o=s"}).exit_code, 0);
  const ProcessResult other = Sweep({"--over=base_lr=0.1", "-o=s", "--", "--threads=2"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("'s' holds another sweep"), std::string::npos) << other.err;
}

TEST_F(SweepTest, FewerPointsThanTrialsIsAWarning) {
  const ProcessResult result =
      SweepOnOneThread({"--search=random", "--trials=5", "--over=momentum=0,0.9", "-o=s"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("only 2 different points"), std::string::npos) << result.err;
  EXPECT_EQ(Results("s").size(), 3U);
}

}  // namespace
}  // namespace crema
