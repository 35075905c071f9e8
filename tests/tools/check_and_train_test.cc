// check finds what train refuses before its first iteration, and nothing more.
#include <gtest/gtest.h>

#include "tools/run_folder.h"

namespace crema {
namespace {

using test::ProcessResult;

struct BadRun {
  std::string from;  // in the solver
  std::string to;
  std::string part;  // of what both say
  int code = 2;
};

class CheckAndTrain : public test::RunFolder {
 protected:
  void ExpectBothRefuse(const std::string& part, int code) {
    for (const char* command : {"check", "train"}) {
      const ProcessResult result = Run(command, {"--solver=solver.prototxt"});
      EXPECT_EQ(result.exit_code, code) << command << ": " << part << "\n" << result.err;
      EXPECT_NE(result.err.find(part), std::string::npos)
          << command << " does not say: " << part << "\n---\n"
          << result.err;
    }
  }

  // Tests each fault separately.
  void ExpectBothRefuse(const std::vector<BadRun>& runs) {
    const std::string good = temp_.Read("solver.prototxt");
    for (const BadRun& run : runs) {
      Edit("solver.prototxt", run.from, run.to);
      ExpectBothRefuse(run.part, run.code);
      temp_.Write("solver.prototxt", good);
    }
  }

  void ReadDataWithoutAnEnd() {
    ReplaceData(
        "type: \"DummyData\" dummy_data_param { shape { dim: 4 dim: 36 } shape { dim: 4 } }");
  }
};

constexpr const char* kEnd = "max_iter: 8";
constexpr const char* kTests = "test_iter: 2 test_interval: 4";

#ifdef CREMA_HAVE_HDF5
TEST_F(CheckAndTrain, LayerNamesThatHdf5CannotHold) {
  Edit("net.prototxt", "name: \"ip2\"", "name: \"head/ip2\"");
  Edit("solver.prototxt", "BINARYPROTO", "HDF5");
  ExpectBothRefuse("layer \"head/ip2\": HDF5 cannot hold a layer name with '/'", 2);
  EXPECT_FALSE(std::filesystem::exists(temp_.File("snap_iter_4.caffemodel.h5")));
}
#endif

TEST_F(CheckAndTrain, AnOutputOfManyValuesIsWarnedAboutAndNotLogged) {
  Edit("net.prototxt", "layer { name: \"ip2\"",
       "layer { name: \"side\" type: \"InnerProduct\" bottom: \"ip1\" top: \"side\"\n"
       "  inner_product_param { num_output: 200 weight_filler { type: \"xavier\" } } }\n"
       "layer { name: \"ip2\"");
  Edit("solver.prototxt", "test_iter: 2", "test_iter: 2 display: 1");
  for (const char* command : {"check", "train"}) {
    const ProcessResult result = Run(command, {"--solver=solver.prototxt"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string all = result.out + result.err;
    EXPECT_NE(
        all.find("layer \"side\": top 'side' (8x200) is read by no layer, so it is an output; "
                 "its 1600 values are not logged"),
        std::string::npos)
        << all;
    EXPECT_EQ(all.find("side = "), std::string::npos) << all;
  }
}

TEST_F(CheckAndTrain, BothAcceptAGoodRun) {
  Edit("solver.prototxt", kEnd,
       "max_epoch: 2 snapshot_epoch: 1 freeze: \"ip1\" early_stop { metric: \"loss\" } "
       "snapshot_best { }");
  for (const char* command : {"check", "train"}) {
    const ProcessResult result = Run(command, {"--solver=solver.prototxt"});
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
  }
}

TEST_F(CheckAndTrain, FieldsOfTheSolver) {
  ExpectBothRefuse({
      {"base_lr: 0.1", "base_lr: -0.01", "solver.prototxt:2:1: base_lr -0.01 is negative"},
      {"base_lr: 0.1", "base_lr: nan", "solver.prototxt:2:1: base_lr is nan"},
      {"\"fixed\"", "\"fixxed\"", "unknown lr_policy 'fixxed' (did you mean 'fixed'?)"},
      {kEnd, "max_iter: 8 type: \"SDG\"", "unknown solver type 'SDG'"},
      {kEnd, "max_iter: 8 max_epoch: 1", "max_iter and max_epoch are both set"},
      {kEnd, "", "missing required field 'max_iter'"},
      {kEnd, "max_iter: 8 iter_size: 0", "iter_size is 0"},
      {kEnd, "max_iter: 8 ema_decay: 1", "use 0 (none) or more, and below 1"},
      {kEnd, "max_iter: 8 time_limit: \"soon\"", "'soon' is not a time"},
      {"test_iter: 2", "test_iter: 0", "test_iter[0] is 0"},
      {"\"snap\"", "\"/proc/snap\"", "snapshot_prefix \"/proc/snap\"", 3},
      {"\"net.prototxt\"", "\"nosuch.prototxt\"", "there is no such file"},
  });
}

TEST_F(CheckAndTrain, MissingFieldsComeWithAnExample) {
  ExpectBothRefuse({
      {"base_lr: 0.1", "", "missing required field 'base_lr'; for example base_lr: 0.01"},
      {"base_lr: 0.1", "base_lr: 0,1", "decimals take a point, not a comma: write 0.1"},
      {"base_lr: 0.1", "base_lr: 0,0039", "decimals take a point, not a comma: write 0.0039"},
      {"lr_policy: \"fixed\"", "", "multifixed; for example lr_policy: \"fixed\""},
      {"\"fixed\"", "\"step\" stepsize: 5", "needs the field 'gamma'; for example gamma: 0.1"},
      {"\"fixed\"", "\"step\" gamma: 1", "the field 'stepsize'; for example stepsize: 10000"},
      {kEnd, "", "missing required field 'max_iter' (or max_epoch); for example max_iter: 10000"},
      {kEnd, "max_iter: 10k", "'10k' is not a number; write 10000"},
  });
}

TEST_F(CheckAndTrain, MistakesInTheNet) {
  const std::vector<BadRun> kMistakes = {
      {"layer { name: \"loss\" type: \"SoftmaxWithLoss\"",
       "layer { name: \"loss\" type: \"SoftmaxWithLoss\" loss_weight: 0",
       "this net learns nothing: no loss depends on a parameter"},
      {"\"SoftmaxWithLoss\" bottom: \"ip2\" bottom: \"label\" top: \"loss\"",
       "\"Silence\" bottom: \"ip2\" bottom: \"label\"", "add a layer such as SoftmaxWithLoss"},
      {"top: \"label\" include { phase: TRAIN }", "top: \"label\" phase: TRAIN",
       "write include { phase: TRAIN }"},
      {"type: \"ReLU\"", "type: \"Dropout\" dropout_param { dropout_ratio: 50 }",
       "dropout_ratio is 50, expected 0 or more and less than 1; 50 % is 0.5"},
      {"\"ip1\"\n  inner_product_param { num_output: 16",
       "\"ip1\"\n  inner_product_param { num_output = 16", "write num_output: 16"},
      {"type: \"InnerProduct\" bottom: \"data\" top: \"ip1\"\n  inner_product_param { num_output: "
       "16",
       "type: \"Convolution\" bottom: \"data\" top: \"ip1\"\n"
       "  convolution_param { num_output: 16 kernel_size: 50",
       "the kernel covers 50 along the height, but the input of shape 8x1x6x6 has only 6 there"},
  };
  const std::string good = temp_.Read("net.prototxt");
  for (const BadRun& run : kMistakes) {
    Edit("net.prototxt", run.from, run.to);
    if (run.to.find("phase: TRAIN") != std::string::npos) {
      Edit("net.prototxt", "include { phase: TEST }", "phase: TEST");
      ExpectBothRefuse("write include { phase: TEST }", 2);
    } else {
      ExpectBothRefuse(run.part, run.code);
    }
    temp_.Write("net.prototxt", good);
  }
}

TEST_F(CheckAndTrain, ANetWithoutALossRunsWhereTheRateIsZero) {
  Edit("net.prototxt", "type: \"SoftmaxWithLoss\"", "type: \"SoftmaxWithLoss\" loss_weight: 0");
  Edit("solver.prototxt", "base_lr: 0.1", "base_lr: 0");
  for (const char* command : {"check", "train"}) {
    const ProcessResult result = Run(command, {"--solver=solver.prototxt"});
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
  }
}

TEST_F(CheckAndTrain, RandomStepsInTestAreWarnedAbout) {
  const std::string text = temp_.Read("net.prototxt");
  Edit("net.prototxt", "scale: 0.00390625 }", "scale: 0.00390625 mirror: true }");
  const char* const kWarning = "layer \"data\": mirror acts in TEST too, at random";
  for (const char* command : {"check", "train"}) {  // only the TRAIN layer mirrors
    const ProcessResult result = Run(command, {"--solver=solver.prototxt"});
    EXPECT_EQ(result.err.find(kWarning), std::string::npos) << result.err;
  }
  const size_t test = text.find("phase: TEST");
  temp_.Write("net.prototxt", text.substr(0, test) +
                                  "phase: TEST }\n  transform_param { mirror: "
                                  "true" +
                                  text.substr(text.find(" scale", test)));
  for (const char* command : {"check", "train"}) {
    const ProcessResult result = Run(command, {"--solver=solver.prototxt"});
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
    EXPECT_NE(result.err.find(StrCat("net.prototxt:6:21: ", kWarning)), std::string::npos)
        << command << "\n"
        << result.err;
  }
}

TEST_F(CheckAndTrain, FrozenLayersAreInTheNet) {
  ExpectBothRefuse({
      {kEnd, "max_iter: 8 freeze: \"(\"", "is not a regular expression"},
      {kEnd, "max_iter: 8\nfreeze: \"ip3\"",
       "solver.prototxt:4:1: freeze: 'ip3' is not the whole name of a layer with parameter blobs"},
  });
}

TEST_F(CheckAndTrain, RulesLookAtTestsThatThereAre) {
  ExpectBothRefuse({
      {kTests, "test_iter: 2 test_interval: 4\nearly_stop { metric: \"nosuch\" }",
       "solver.prototxt:5:14: early_stop.metric: test net #0 has no output 'nosuch'"},
      {kTests, "test_iter: 2 test_interval: 4\nearly_stop { patience: 0 }",
       "solver.prototxt:5:14: early_stop.patience is 0; use 1 or more"},
      {kTests, "early_stop { }", "early_stop looks at tests, but this run has no test net"},
      {"snapshot: 4", "snapshot_best { metric: \"test#3:loss\" }", "there is no test net #3"},
      {"\"fixed\"", "\"plateau\" gamma: 0.1 plateau { metric: \"nosuch\" }",
       "test net #0 has no output 'nosuch'"},
  });
}

TEST_F(CheckAndTrain, EpochsNeedDataWithAnEnd) {
  ReadDataWithoutAnEnd();
  ExpectBothRefuse({
      {kEnd, "max_epoch: 3", "max_epoch counts passes over the data"},
      {kEnd, "max_iter: 8 snapshot_epoch: 1", "snapshot_epoch counts passes over the data"},
      {kTests, "test_iter: 2 test_interval_epoch: 1", "test_interval_epoch counts passes"},
  });
}

TEST_F(CheckAndTrain, TestsOnEverySampleNeedDataWithAnEnd) {
  ReadDataWithoutAnEnd();
  Edit("net.prototxt", "layer { name: \"ip1\"",
       "layer { name: \"test\" type: \"Silence\" "
       "bottom: \"data\" include { phase: TEST } }\nlayer { name: \"ip1\"");
  ExpectBothRefuse({{kTests, "test_interval: 5", "test net #0: "}});
}

TEST_F(CheckAndTrain, EpochsThatAreTooMany) {
  ExpectBothRefuse({{kEnd, "max_epoch: 2000000000", "iterations; at most 2147483647 can be"}});
}

TEST_F(CheckAndTrain, Nets) {
  Edit("net.prototxt", "bottom: \"data\" top: \"ip1\"",
       "bottom: \"data\" top: \"ip1\" param { lr_mult: nan }");
  ExpectBothRefuse("layer \"ip1\": lr_mult is nan", 2);
}

TEST_F(CheckAndTrain, Data) {
  std::filesystem::remove_all(temp_.File("train_lmdb"));
  ExpectBothRefuse("train_lmdb", 2);
}

}  // namespace
}  // namespace crema
