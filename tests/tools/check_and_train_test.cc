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
