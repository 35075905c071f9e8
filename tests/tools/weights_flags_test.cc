// Messages about weights that do not fit, and about wrong files.
#include <gtest/gtest.h>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/solver_state.h"
#include "runtime/weights.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Bin;
using test::ProcessResult;
using test::RunProcess;
using test::TempDir;

std::string Net(const std::string& last_name, int last_size) {
  return "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 dim: 3 }\n"
         "  data_filler { value: 1 } } }\n"
         "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a'\n"
         "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
         "layer { name: '" +
         last_name + "' type: 'InnerProduct' bottom: 'a' top: 'b'\n" +
         "  inner_product_param { num_output: " + std::to_string(last_size) +
         " weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'l' type: 'EuclideanLoss' bottom: 'b' bottom: 'b' top: 'l' }\n";
}

class WeightsFlags : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto plan = test::PlanText(Net("b", 5), TEST);
    WriteCaffemodel(Weights::Make(*plan, 1)->Export(*plan), temp_.File("m.caffemodel"));
  }

  ProcessResult Evaluate(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {Bin("evaluate"), "--model=net", "--iterations=1"});
    return RunProcess(arguments, temp_.path());
  }
  void Expect(const ProcessResult& result, int exit_code, const std::string& text) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  }

  TempDir temp_;
};

TEST_F(WeightsFlags, MismatchesAreErrorsUnlessSkippedOrReshaped) {
  temp_.Write("net", Net("b", 6));
  Expect(Evaluate({"--weights=m.caffemodel"}), 2, "is 5x4 in the file, but 6x4 in the net");
  for (const char* flag : {"--on-mismatch=skip", "--on_mismatch=skip"}) {
    Expect(Evaluate({"--weights=m.caffemodel", flag}), 0, "skipped  b: blob 0 (weight)");
  }
  Expect(Evaluate({"--weights=m.caffemodel", "--on-mismatch=reshape"}), 2, "5x4 in the file");
  Expect(Evaluate({"--weights=m.caffemodel", "--on-mismatch=skp"}), 2, "did you mean 'skip'?");
}

TEST_F(WeightsFlags, SeveralFilesAndTheHalfWarning) {
  temp_.Write("net", Net("b", 5));
  Expect(Evaluate({"--weights=m.caffemodel, m.caffemodel"}), 0, "loaded 2 layers (a, b)");
  Expect(Evaluate({"--weights=m.caffemodel,n.caffemodel"}), 2, "did you mean 'm.caffemodel'?");
  temp_.Write("net",
              "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param {"
              " shape { dim: 2 dim: 3 } } }\n"
              "layer { name: 'a_new' type: 'InnerProduct' bottom: 'x' top: 'a'\n"
              "  inner_product_param { num_output: 4 } }\n");
  Expect(
      Evaluate({"--weights=m.caffemodel", "--on_mismatch=skip"}), 0,
      "only 0 of the 2 parameter blobs of the net came from m.caffemodel; rename 'a_new' to 'a'?");
}

TEST_F(WeightsFlags, TrainingFinetunes) {
  temp_.Write("net", Net("b", 6));
  temp_.Write("solver",
              "net: 'net' base_lr: 0 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 's'"
              " snapshot_after_train: false");
  const std::vector<std::string> train = {Bin("train"), "--solver=solver", "--quiet",
                                          "--weights=m.caffemodel"};
  Expect(RunProcess(train, temp_.path()), 2, "is 5x4 in the file");
  std::vector<std::string> skip = train;
  skip.push_back("--on-mismatch=skip");
  Expect(RunProcess(skip, temp_.path()), 0, "skipped  b: blob 0 (weight)");
}

TEST_F(WeightsFlags, WrongFilesAreNamedInOneSentence) {
  temp_.Write("net", Net("b", 5));
  SolverState state;
  state.set_iter(1);
  state.set_learned_net("m.caffemodel");
  state.set_current_step(0);
  WriteSolverState(state, temp_.File("s.solverstate"));
  temp_.Write("solver",
              "net: 'net' base_lr: 0 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 's'");
  Expect(Evaluate({"--weights=net"}), 3, "is a net as text (a prototxt)");
  Expect(Evaluate({"--weights=solver"}), 3, "is a solver as text (a prototxt)");
  Expect(Evaluate({"--weights=s.solverstate"}), 3, "is a solver state, not a weights file");
  const auto model = [&](const std::string& file) {
    return RunProcess({Bin("evaluate"), "--model=" + file, "--weights=m.caffemodel"}, temp_.path());
  };
  Expect(model("m.caffemodel"), 2, "is a binary weights file (caffemodel), not a net");
  Expect(model("s.solverstate"), 2, "is a solver state, not a net");
  Expect(model("solver"), 2, "is a solver file, not a net");
  Expect(RunProcess({Bin("train"), "--solver=net"}, temp_.path()), 2, "is a net, not a solver");
  Expect(RunProcess({Bin("train"), "--solver=solver", "--snapshot=m.caffemodel"}, temp_.path()), 3,
         "is a weights file (caffemodel), not a solver state");
}

TEST_F(WeightsFlags, DeployTellsATrainingNet) {
  const auto deploy = [&](const std::string& text) {
    temp_.Write("net", text);
    return RunProcess({Bin("deploy"), "classify", "--model=net", "--weights=m.caffemodel", "i.png"},
                      temp_.path());
  };
  Expect(deploy("layer { name: 'd' type: 'Data' top: 'x' top: 'y'\n"
                " data_param { source: 'none' batch_size: 1 backend: LMDB } }"),
         2, "net: no deploy net can be derived: the net has no loss and no metric");
  Expect(deploy("input: 'x' input_dim: [1, 1, 4, 4]\n"
                "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'label' top: 'l' }"),
         2, "layer \"l\": computes a loss from 'label', which is not there");
}

}  // namespace
}  // namespace crema
