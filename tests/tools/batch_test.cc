// --batch and --set batch_size of the commands that train.
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

class Batch : public test::RunFolder {
 protected:
  // Of the data layer of TRAIN in a run folder.
  uint32_t RecordedBatch(const std::string& folder = "snap_run") const {
    return ReadNet(temp_.File(folder + "/net.prototxt")).net.layer(0).data_param().batch_size();
  }
  ProcessResult Train(std::vector<std::string> flags) {
    flags.insert(flags.begin(), "--solver=solver.prototxt");
    return Run("train", flags);
  }
};

TEST_F(Batch, ANumberIsThatOfTheTrainingDataAlone) {
  for (const char* flag : {"--batch=16", "--set=batch_size=16"}) {
    std::filesystem::remove_all(temp_.File("snap_run"));
    ASSERT_EQ(Train({flag}).exit_code, 0);
    EXPECT_EQ(RecordedBatch(), 16U);
    const NetFile net = ReadNet(temp_.File("snap_run/net.prototxt"));
    EXPECT_EQ(net.net.layer(1).data_param().batch_size(), 8U);
  }
  const ProcessResult wrong = Train({"--batch=x"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("--set batch_size=x: 'batch_size' expects"), std::string::npos)
      << wrong.err;
}

TEST_F(Batch, OfANetAloneIsThatOfAllItsData) {
  EXPECT_NE(Run("summary", {"--model=net.prototxt", "--phase=test", "--set=batch_size=5"})
                .out.find("5x16"),
            std::string::npos);
}

TEST_F(Batch, AutoIsPrintedRecordedAndKept) {
  const ProcessResult first = Train({"--batch=auto"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("batch_size=AUTO: a batch of 32, which needs "), std::string::npos)
      << first.err;
  EXPECT_NE(first.err.find("; the data set has 32 samples\n"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("base_lr stays 0.1, which was for a batch of 8; by the linear rule of "
                           "Goyal et al. (2017) it would be 0.4: --set base_lr=0.4\n"),
            std::string::npos)
      << first.err;
  EXPECT_EQ(RecordedBatch(), 32U);
  EXPECT_FLOAT_EQ(ReadSolver(temp_.File("snap_run/solver.prototxt")).solver.base_lr(), 0.1F);
  EXPECT_NE(temp_.Read("snap_run/run.json").find("\"--set=batch_size=32\""), std::string::npos);

  WriteLmdb("train_lmdb", 64);
  for (const char* flag : {"--batch=auto", "--set=batch_size=AUTO", "--quiet"}) {
    const ProcessResult resumed = Train({flag, "--resume=auto", "--set=max_iter=12"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_EQ(RecordedBatch(), 32U) << flag;
  }
  ASSERT_EQ(Train({"--set=batch_size=", "--resume=auto", "--set=max_iter=16"}).exit_code, 0);
  EXPECT_EQ(RecordedBatch(), 8U);
}

// `batch_size: AUTO` in the text of the net.
class BatchOfText : public Batch {
 protected:
  void SetUp() override {
    Batch::SetUp();
    WriteAuto("batch_size: 8");
  }
  // Replaces the first `from` in the net.
  void WriteAuto(const std::string& from) {
    std::string net = temp_.Read("net.prototxt");
    temp_.Write("net.prototxt", net.replace(net.find(from), from.size(), "batch_size: AUTO"));
  }
  static constexpr const char* kOnly =
      "AUTO is for data layers of phase TRAIN, in train, sweep and check: give a number";
};

TEST_F(BatchOfText, AutoIsChosenRecordedAndKept) {
  const ProcessResult check = Run("check", {"--solver=solver.prototxt"});
  EXPECT_NE(check.out.find("32 samples of 32 in batches of 32"), std::string::npos) << check.out;
  const ProcessResult first = Train({});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("batch_size=AUTO: a batch of 32, which needs "), std::string::npos)
      << first.err;
  EXPECT_EQ(first.err.find("base_lr stays"), std::string::npos) << "the text has no other batch";
  EXPECT_EQ(RecordedBatch(), 32U);
  EXPECT_NE(temp_.Read("snap_run/run.json").find("\"--set=batch_size=32\""), std::string::npos);
  WriteLmdb("train_lmdb", 64);
  ASSERT_EQ(Train({"--resume=auto", "--set=max_iter=12"}).exit_code, 0);
  EXPECT_EQ(RecordedBatch(), 32U);
  ASSERT_EQ(Train({"--set=batch_size=", "--resume=auto", "--set=max_iter=16"}).exit_code, 0);
  EXPECT_EQ(RecordedBatch(), 64U);
}

TEST_F(BatchOfText, ANumberOfTheCommandCountsMore) {
  ASSERT_EQ(Train({"--batch=4"}).exit_code, 0);
  EXPECT_EQ(RecordedBatch(), 4U);
  EXPECT_NE(Run("summary", {"--model=net.prototxt", "--set=batch_size=5"}).out.find("5x16"),
            std::string::npos);
}

TEST_F(BatchOfText, IsAnErrorWhereNothingChooses) {
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"summary", "--model=net.prototxt", "--phase=train"},
                                             {"profile", "--model=net.prototxt"},
                                             {"lr_find", "--solver=solver.prototxt"}}) {
    const ProcessResult result = Run(flags[0], {flags.begin() + 1, flags.end()});
    EXPECT_EQ(result.exit_code, 2) << flags[0];
    EXPECT_NE(result.err.find(StrCat("net.prototxt:4:37: layer \"data\": ", kOnly)),
              std::string::npos)
        << result.err;
  }
  WriteAuto("batch_size: 8");  // of TEST
  for (const char* command : {"check", "train"}) {
    const ProcessResult result = Run(command, {"--solver=solver.prototxt"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE((result.out + result.err).find(StrCat("net.prototxt:7:36: layer \"data\": ", kOnly)),
              std::string::npos)
        << result.out << result.err;
  }
}

// The input of the deploy net is for one sample.
TEST_F(BatchOfText, IsNotTheDefaultOfALayer) {
  temp_.Write("list.txt", "a.png 0\n");
  temp_.Write("images.prototxt",
              "layer { name: 'data' type: 'ImageData' top: 'data' top: 'label'\n"
              "  image_data_param { source: 'list.txt' batch_size: AUTO } }");
  const ProcessResult result = Run("summary", {"--model=images.prototxt"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find(kOnly), std::string::npos) << result.err;
}

TEST_F(BatchOfText, IsNotLostByUpgrade) {
  temp_.Write("v1.prototxt",
              "layers { name: 'data' type: DATA top: 'data' top: 'label'\n"
              "  data_param { source: 'train_lmdb' batch_size: AUTO } }");
  const ProcessResult result =
      test::RunProcess({test::Bin("upgrade"), "v1.prototxt", "-o", "v2.prototxt"}, temp_.path());
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("batch_size: AUTO would be lost"), std::string::npos) << result.err;
}

TEST_F(BatchOfText, DeployNeedsNoBatch) {
  ASSERT_EQ(Train({}).exit_code, 0);
  for (const std::vector<std::string>& from : std::vector<std::vector<std::string>>{
           {"--run=snap_run"}, {"--model=net.prototxt", "--weights=snap_iter_8.caffemodel"}}) {
    std::vector<std::string> flags = from;
    flags.insert(flags.begin(), {"export", "-o", "m.crema"});
    const ProcessResult result = Run("deploy", flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

TEST_F(Batch, ALaterSettingOfTheLayerCountsMore) {
  ASSERT_EQ(Train({"--batch=auto"}).exit_code, 0);
  ASSERT_EQ(Train({"--resume=auto", "--set=max_iter=12",
                   "--set=layer[data:TRAIN].data_param.batch_size=4"})
                .exit_code,
            0);
  EXPECT_EQ(RecordedBatch(), 4U);
}

TEST_F(Batch, AStoppedRunResumesWithTheNumber) {
  const ProcessResult result = Train({"--batch", "auto", "--run=none", "--set=max_iter=100000000",
                                      "--set=time_limit=1s", "--set=snapshot=100000000"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("resume: crema train --threads=1 --solver=solver.prototxt "
                            "--set=batch_size=32 --run=none "),
            std::string::npos)
      << result.out;
}

TEST_F(Batch, CheckChoosesTheSame) {
  const ProcessResult result = Run("check", {"--solver=solver.prototxt", "--batch=auto"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("32 samples of 32 in batches of 32"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("batch_size=AUTO: a batch of 32"), std::string::npos) << result.err;
}

TEST_F(Batch, CommandsThatDoNotChooseSaySo) {
  const ProcessResult result =
      Run("lr_find", {"--solver=solver.prototxt", "--set=batch_size=AUTO"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("--set batch_size=AUTO: AUTO is for train, sweep and check"),
            std::string::npos)
      << result.err;
}

TEST_F(Batch, AllTrialsOfASweepHaveTheBatchOfTheFirst) {
  const std::vector<std::string> sweep = {test::Bin("sweep"),
                                          "--solver=solver.prototxt",
                                          "--batch=auto",
                                          "--over=base_lr=0.1,0.01",
                                          "-o=s",
                                          "--",
                                          "--threads=1"};
  ASSERT_EQ(test::RunProcess(sweep, temp_.path()).exit_code, 0);
  EXPECT_EQ(RecordedBatch("s/trial_001"), 32U);
  // As if the second trial had not begun.
  temp_.Write("s/trials.csv", "trial,length,exit_code\n1,0,0\n");
  std::filesystem::remove_all(temp_.File("s/trial_002"));
  WriteLmdb("train_lmdb", 64);
  ASSERT_EQ(test::RunProcess(sweep, temp_.path()).exit_code, 0);
  EXPECT_EQ(RecordedBatch("s/trial_002"), 32U);
}

TEST_F(BatchOfText, AllTrialsOfASweepHaveTheBatchOfTheFirst) {
  const ProcessResult sweep =
      test::RunProcess({test::Bin("sweep"), "--solver=solver.prototxt", "--over=base_lr=0.1,0.01",
                        "-o=s", "--", "--threads=1"},
                       temp_.path());
  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  const std::string chooses = "batch_size=AUTO: a batch of 32";
  EXPECT_NE(temp_.Read("s/trial_001/train.log").find(chooses), std::string::npos);
  EXPECT_EQ(temp_.Read("s/trial_002/train.log").find(chooses), std::string::npos);
  EXPECT_EQ(RecordedBatch("s/trial_002"), 32U);
}

}  // namespace
}  // namespace crema
