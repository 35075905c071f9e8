// check: verifies everything that train needs, without training.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tools/run_folder.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ProcessResult;

class Check : public test::RunFolder {
 protected:
  void ExpectChecked(int code, const std::vector<std::string>& expected,
                     std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), "--solver=solver.prototxt");
    const ProcessResult result = Run("check", std::move(flags));
    EXPECT_EQ(result.exit_code, code) << result.err;
    const std::string all = result.out + result.err;
    for (const std::string& text : expected) {
      EXPECT_NE(all.find(text), std::string::npos) << text << "\n---\n" << all;
    }
  }

  google::protobuf::Struct Json(int code, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"--solver=solver.prototxt", "--json"});
    const ProcessResult result = Run("check", std::move(flags));
    EXPECT_EQ(result.exit_code, code) << result.out;
    EXPECT_EQ(result.err, "");
    google::protobuf::Struct object;
    const auto status = google::protobuf::util::JsonStringToMessage(result.out, &object);
    EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << result.out;
    return object;
  }
};

TEST_F(Check, AWholeRunHasNoProblems) {
  const size_t files = temp_.FileCount();
  ExpectChecked(
      0,
      {"train: net \"small\", 5 layers, 660 parameters, 32 samples of 32 in batches of 8, "
       "loss of the first 1.",
       "test#0: net \"small\"", "16 samples of 16",
       "schedule: fixed, learning rate 0.1 to 0.1 over 8 iterations",
       "snapshots: 2 of 0.0 MiB each at snap, ", "MiB free", "memory: ", "0 problems, 0 warnings"});
  EXPECT_EQ(temp_.FileCount(), files) << "it left something behind";
}

TEST_F(Check, StrictMakesWarningsProblems) {
  Edit("solver.prototxt", "base_lr: 0.1", "base_lr: 0.1 layer_wise_reduce: false");
  ExpectChecked(0,
                {"warning: solver.prototxt:2:14: layer_wise_reduce has no effect in this version",
                 "0 problems, 1 warning"});
  ExpectChecked(2, {"error: solver.prototxt:2:14: layer_wise_reduce", "1 problem, 0 warnings"},
                {"--strict"});
}

TEST_F(Check, AllProblemsAreCollected) {
  Edit("solver.prototxt", "base_lr: 0.1", "base_lr: nan");
  Edit("solver.prototxt", "\"snap\"", "\"/proc/snap\"");
  WriteLmdb("train_lmdb", 32, 13, "this is no Datum, but it is something else");
  WriteLmdb("test_lmdb", 16, 9, Image(4).SerializeAsString());
  ExpectChecked(2, {"error: solver.prototxt:2:1: base_lr is nan",
                    "error: snapshots cannot be written with snapshot_prefix \"/proc/snap\"",
                    "error: layer \"data\": record \"00000013\" of 'train_lmdb' is not a Datum",
                    "error: layer \"loss\": label 4 at sample '00000009' but \"ip2\" has 4 outputs",
                    "24 samples of 32", "4 problems"});
}

TEST_F(Check, EveryBadBatchIsReported) {
  WriteLmdb("train_lmdb", 32, 3, "this is no Datum, but it is something else");
  WriteLmdb("test_lmdb", 16, 9, "nor is this, whatever one may think of it");
  ExpectChecked(3, {"\"00000003\" of 'train_lmdb'", "\"00000009\" of 'test_lmdb'", "2 problems"});
}

TEST_F(Check, SamplesSaysHowManyAreRead) {
  WriteLmdb("train_lmdb", 32, 20, "this is no Datum, but it is something else");
  ExpectChecked(0, {"16 samples of 32"}, {"--samples=10"});
  ExpectChecked(3, {"\"00000020\""}, {"--samples=24"});
  ExpectChecked(0, {"5 layers, 660 parameters\n"}, {"--samples=0"});
  ExpectChecked(2, {"--samples is -1"}, {"--samples=-1"});
}

TEST_F(Check, ProblemsOfTheNetsAreThoseOfTrain) {
  Edit("net.prototxt", "\"ip2\" type: \"InnerProduct\"", "\"ip2\" type: \"InerProduct\"");
  ExpectChecked(2, {"error: net.prototxt:11:21: layer \"ip2\": unknown layer type 'InerProduct'",
                    "did you mean 'InnerProduct'?", "\n1 problem, "});
  fs::remove(temp_.File("net.prototxt"));
  ExpectChecked(2, {"solver.prototxt:1:1: net \"net.prototxt\": there is no such file"});
  fs::remove(temp_.File("solver.prototxt"));
  ExpectChecked(2, {"solver.prototxt: there is no such file"});
}

TEST_F(Check, AProblemOfBothPhasesIsToldOnce) {
  Edit("net.prototxt", "layer { name: \"ip1\"",
       "layer { name: \"c\" type: \"Convolution\" bottom: \"data\" top: \"c\"\n"
       "  convolution_param { num_output: 1 kernel_size: 50 } }\nlayer { name: \"ip1\"");
  ExpectChecked(2, {"the kernel covers 50", "\n1 problem, "},
                {"--set=layer[data:TEST].data_param.batch_size=4"});
}

TEST_F(Check, ATestNetIsLookedAtThoughTheTrainingNetIsBroken) {
  fs::remove_all(temp_.File("train_lmdb"));
  WriteLmdb("test_lmdb", 16, 9, Image(4).SerializeAsString());
  ExpectChecked(2, {"train_lmdb", "label 4 at sample '00000009'"});
}

TEST_F(Check, ErrorsAreReportedWithAMissingDataSet) {
  Edit("net.prototxt", "scale: 0.00390625", "crop_size: 6 force_gray: true");
  fs::remove_all(temp_.File("train_lmdb"));
  ExpectChecked(2, {"net.prototxt:4:16: layer \"data\": ", "train_lmdb", "1 problem,",
                    "train: net \"small\", 5 layers, 660 parameters\n"});
  Edit("net.prototxt", "\"SoftmaxWithLoss\" bottom: \"ip2\"",
       "\"SoftmaxWithLoss\" bottom: \"data\"");
  ExpectChecked(2, {"train_lmdb", "net.prototxt:13:46: layer \"loss\": scores of shape 8x1x6x6"});
}

TEST_F(Check, WeightsAreMatched) {
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt"}).exit_code, 0);
  ExpectChecked(0, {"0 problems"}, {"--weights=snap_iter_8.caffemodel"});
  Edit("net.prototxt", "num_output: 16", "num_output: 12");
  Edit("net.prototxt", "num_output: 4", "num_output: 3");
  ExpectChecked(2,
                {"layer \"ip1\": blob 0 (weight) is 16x36 in the file, but 12x36 in the net",
                 "give the layer another name or --on_mismatch=skip", "layer \"ip2\"",
                 "label 3 at sample '00000003'"},
                {"--weights=snap_iter_8.caffemodel"});
  ExpectChecked(2, {"missing.caffemodel"}, {"--weights=missing.caffemodel"});
  temp_.Write("broken.caffemodel", temp_.Read("snap_iter_8.caffemodel").substr(0, 1000));
  Edit("net.prototxt", "num_output: 3", "num_output: 4");
  ExpectChecked(3, {"broken.caffemodel"}, {"--weights=broken.caffemodel"});
  Edit("solver.prototxt", "max_iter: 8", "max_iter: 8 weights: \"broken.caffemodel\"");
  ExpectChecked(3, {"broken.caffemodel"});
}

TEST_F(Check, ALossThatIsNotFiniteIsExplained) {
  ReplaceData(
      "type: \"DummyData\" dummy_data_param { shape { dim: 4 dim: 36 } shape { dim: 4 } "
      "data_filler { type: \"constant\" value: inf } data_filler { type: \"constant\" } }");
  ExpectChecked(3, {"The data are at fault: \"data\" holds inf in 144 of 144 values"});
}

// In TEST it divides by running statistics, which are 0 before the first step.
TEST_F(Check, ADeepNetOfBatchNormIsNoProblem) {
  std::string layers;
  for (int i = 0; i < 20; ++i) {
    layers += StrCat("layer { name: \"deep", i, "\" type: \"InnerProduct\" bottom: \"ip1\" ",
                     "top: \"ip1\" inner_product_param { num_output: 16 weight_filler { type: ",
                     "\"xavier\" } } }\nlayer { name: \"norm", i, "\" type: \"BatchNorm\" ",
                     "bottom: \"ip1\" top: \"ip1\" }\n");
  }
  Edit("net.prototxt", "layer { name: \"relu\"", layers + "layer { name: \"relu\"");
  const ProcessResult result = Run("check", {"--solver=solver.prototxt"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(Check, FaultOfSeveralBatchesIsReportedOnce) {
  ReplaceData(
      "type: \"DummyData\" dummy_data_param { shape { dim: 4 dim: 36 } shape { dim: 4 } "
      "data_filler { type: \"constant\" value: nan } data_filler { type: \"constant\" } }");
  Edit("solver.prototxt", "test_iter: 2 test_interval: 4", "");
  ExpectChecked(3,
                {"error: layer \"data\": the loss of batch 0 is nan. The data are at fault: "
                 "\"data\" holds nan in 144 of 144 values, in all samples; mend these samples or "
                 "leave them out; the same in 24 more batches\n",
                 "1 problem, "});
  const ProcessResult result = Run("check", {"--solver=solver.prototxt"});
  for (const char* other : {"diverged", "iteration 0", "learning rate 0)", "snapshot was"}) {
    EXPECT_EQ(result.err.find(other), std::string::npos) << result.err;
  }
}

TEST_F(Check, EpochsSayHowLongTheRunIs) {
  Edit("solver.prototxt", "max_iter: 8", "max_epoch: 3");
  Edit("solver.prototxt", "snapshot: 4", "snapshot_epoch: 1");
  ExpectChecked(0, {"learning rate 0.1 to 0.1 over 12 iterations", "snapshots: 4 of "});
  Edit("solver.prototxt", "\"fixed\"", "\"exp\" gamma: 1e40");
  ExpectChecked(2, {"gamma is inf"});
  Edit("solver.prototxt", "1e40", "1e30");
  ExpectChecked(2, {"the learning rate is inf in iteration 11"});
}

TEST_F(Check, WarningsOfTheFieldsAreTold) {
  Edit("solver.prototxt", "max_iter: 8", "max_iter: 8 warmup_iter: 9");
  ExpectChecked(0, {"warning: solver.prototxt:3:13: warmup_iter 9 is more than max_iter 8",
                    "0 problems, 1 warning"});
}

TEST_F(Check, NetsWithoutFillersAreToldByCheckAndTrain) {
  const std::string filler = " weight_filler { type: \"xavier\" }";
  Edit("net.prototxt", filler, "");
  Edit("net.prototxt", filler, "");
  const std::string warning =
      "the weights of these layers are all 0, so none of them can learn: ip1, ip2; give each a "
      "weight_filler";
  ExpectChecked(0, {warning, "0 problems, 1 warning"});
  const ProcessResult train = Run("train", {"--solver=solver.prototxt", "--run=none"});
  EXPECT_EQ(train.exit_code, 0);
  EXPECT_NE(train.err.find(warning), std::string::npos) << train.err;
}

TEST_F(Check, MistakesThatRunAreToldByCheckAndTrain) {
  Edit("net.prototxt", "{ scale: 0.00390625 }", "{ scale: 0.5 }");
  const std::string warning =
      "net.prototxt:6:21: layer \"data\": TEST scales by 0.00390625, but TRAIN by 0.5";
  ExpectChecked(0, {warning, "0 problems, 1 warning"});
  const ProcessResult train = Run("train", {"--solver=solver.prototxt", "--run=none"});
  EXPECT_NE(train.err.find(warning), std::string::npos) << train.err;
}

TEST_F(Check, OddRatesAndPrefixesAreTold) {
  Edit("solver.prototxt", "lr_policy: \"fixed\"", "lr_policy: \"step\" stepsize: 4 gamma: 10");
  Edit("solver.prototxt", "\"snap\"", "\"~/snap\"");
  ExpectChecked(0, {"gamma 10 raises the rate", "'~' is not expanded"});
  ExpectChecked(0, {"nothing is left of it after 100"},
                {"--set=lr_policy=exp", "--set=gamma=0.1", "--set=max_iter=1000"});
}

TEST_F(Check, TwoDataLayersOfOnePhaseAreOneMistake) {
  Edit("net.prototxt", "phase: TEST", "phase: TRAIN");
  ExpectChecked(2, {"both are for phase TRAIN: write include { phase: TEST } in one of them"});
}

TEST_F(Check, RulesThatNeverActAreTold) {
  Edit("solver.prototxt", "test_interval: 4", "test_interval: 9 early_stop { }");
  ExpectChecked(0, {"solver.prototxt:4:31: early_stop never acts on what was learned: the first "
                    "test after training "
                    "began would be at iteration 9, but the run ends at 8",
                    "0 problems, 1 warning"});
}

TEST_F(Check, TheNetIsThatOfLevelAndStage) {
  Edit("net.prototxt", "name: \"relu\" type: \"ReLU\"",
       "include { stage: \"wide\" min_level: 2 } name: \"relu\" type: \"ReLU\"");
  ExpectChecked(0, {"train: net \"small\", 4 layers"});
  ExpectChecked(0, {"train: net \"small\", 5 layers"}, {"--stage=wide", "--level=2"});
}

TEST_F(Check, RulesAreLookedAtThoughAFieldIsWrong) {
  Edit("solver.prototxt", "\"fixed\"", "\"fixxed\" freeze: \"ip3\" early_stop { patience: 0 }");
  ExpectChecked(2, {"unknown lr_policy", "freeze: 'ip3'", "is 0; use 1 or more", "3 problems"});
}

TEST_F(Check, DiskThatIsTooSmallIsAProblem) {
  // A million snapshots of this net fit the disk, but a hundred million of a larger one do not.
  Edit("net.prototxt", "num_output: 16", "num_output: 20000");
  Edit("solver.prototxt", "snapshot: 4", "snapshot: 1");
  Edit("solver.prototxt", "max_iter: 8", "max_iter: 9000000");
  ExpectChecked(3, {"solver.prototxt:5:", "9000000 snapshots of 6.3 MiB need ",
                    "free on the disk: make room, or set snapshot_keep"});
  Edit("solver.prototxt", "snapshot: 1", "snapshot: 1 snapshot_keep: 3");
  ExpectChecked(0, {"snapshots: 4 of 6.3 MiB"});
}

TEST_F(Check, JsonHasAFixedSchema) {
  const google::protobuf::Struct good = Json(0);
  const auto& fields = good.fields();
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.first);
  std::ranges::sort(names);
  EXPECT_EQ(names,
            (std::vector<std::string>{"exit_code", "memory", "nets", "problems", "schedule",
                                      "schema", "seconds", "snapshots", "solver", "warnings"}));
  EXPECT_EQ(fields.at("schema").number_value(), 1);
  EXPECT_EQ(fields.at("exit_code").number_value(), 0);
  EXPECT_EQ(fields.at("problems").list_value().values_size(), 0);
  const auto& nets = fields.at("nets").list_value();
  ASSERT_EQ(nets.values_size(), 2);
  const auto& train = nets.values(0).struct_value().fields();
  EXPECT_EQ(train.at("role").string_value(), "train");
  EXPECT_EQ(train.at("parameters").number_value(), 660);
  EXPECT_EQ(train.at("samples").number_value(), 32);
  EXPECT_EQ(train.at("epoch").number_value(), 32);
  EXPECT_EQ(train.at("batch").number_value(), 8);
  EXPECT_NEAR(fields.at("schedule").struct_value().fields().at("last_rate").number_value(), 0.1,
              1e-6);
  // Weights and momentum, and the message overhead.
  EXPECT_GT(fields.at("snapshots").struct_value().fields().at("bytes").number_value(), 2 * 4 * 660);
  EXPECT_GT(fields.at("memory").struct_value().fields().at("needed_bytes").number_value(), 2640);

  Edit("net.prototxt", "num_output: 4", "num_outputs: 4");
  const google::protobuf::Struct bad = Json(2);
  const auto& problems = bad.fields().at("problems").list_value();
  ASSERT_GE(problems.values_size(), 1);
  const auto& problem = problems.values(0).struct_value().fields();
  EXPECT_EQ(problem.at("kind").string_value(), "configuration");
  EXPECT_EQ(problem.at("file").string_value(), "net.prototxt");
  EXPECT_EQ(problem.at("line").number_value(), 12);
  EXPECT_EQ(problem.at("column").number_value(), 25);
  EXPECT_EQ(problem.at("layer").string_value(), "ip2");
}

TEST_F(Check, WarningsAreToldAndAreNoProblems) {
  ASSERT_EQ(Run("train", {"--solver=solver.prototxt"}).exit_code, 0);
  Edit("net.prototxt", "name: \"ip2\"", "name: \"other\"");
  ExpectChecked(0, {"warning: ", "other", "0 problems, "}, {"--weights=snap_iter_8.caffemodel"});
}

}  // namespace
}  // namespace crema
