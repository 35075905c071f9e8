// Solver states as Caffe writes them: iteration, model, history in Caffe's order, nothing more.
#include <gtest/gtest.h>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/solver_state.h"
#include "support/temp_dir.h"
#include "support/toy_solver.h"
#include "support/update_call.h"

namespace crema::test {
namespace {

// Two layers with two blobs each: P = 4.
constexpr const char* kTwoProductsNet = R"(
layer { name: 'data' type: 'DummyData' top: 'x' top: 't'
  dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 2 }
    data_filler { type: 'constant' value: 0.5 } data_filler { type: 'constant' value: 1 } } }
layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'h'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'b' type: 'InnerProduct' bottom: 'h' top: 'y'
  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' })";
constexpr size_t kBlobs = 4;

class CaffeState : public ::testing::TestWithParam<bool> {  // HDF5?
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_HDF5
    if (GetParam()) GTEST_SKIP() << "this build has no HDF5";
#endif
  }

  std::unique_ptr<Solver> Make(const std::string& type) const {
    return SolverOf(kTwoProductsNet,
                    StrCat("max_iter: 50 random_seed: 5 base_lr: 0.05 lr_policy: 'fixed' ",
                           "delta: 1e-4 snapshot_format: ", GetParam() ? "HDF5" : "BINARYPROTO",
                           " type: '", type, "' snapshot_prefix: '", temp_.path(), "/s'"));
  }

  // A state of iteration 11 with positive random numbers, as `type` of Caffe would write it.
  SolverState HandMade(Solver& solver, const std::string& type) const {
    SolverState state;
    state.set_iter(11);
    state.set_learned_net(temp_.File("model"));
    WriteCaffemodel(solver.weights().Export(solver.plan()), state.learned_net());
    const int histories = FindUpdateRule(type)->histories;
    for (int h = 0; h < histories; ++h) {
      for (size_t s = 0; s < kBlobs; ++s) {
        const Shape& shape = solver.plan().parameters[s].shape;
        BlobProto* blob = state.add_history();
        for (int axis = 0; axis < shape.axes(); ++axis) blob->mutable_shape()->add_dim(shape[axis]);
        const uint64_t seed = 10 * s + static_cast<uint64_t>(h);
        for (float x : RandomValues<float>(static_cast<size_t>(shape.count()), seed)) {
          blob->add_data(x * x);
        }
      }
    }
    state.set_current_step(0);
    return state;
  }

  std::string Save(const SolverState& state) const {
    if (!GetParam()) return temp_.Write("state", state.SerializeAsString());
    WriteSolverStateHdf5(state, temp_.File("state.h5"));
    return temp_.File("state.h5");
  }

  std::string PathOfSnapshot(int iteration) const {
    return StrCat(temp_.path(), "/s_iter_", iteration, ".solverstate", GetParam() ? ".h5" : "");
  }

  std::string RestoreError(const std::string& type, const SolverState& state) const {
    try {
      Make(type)->Restore(Save(state));
    } catch (const Error& error) {
      EXPECT_EQ(ExitCode(error.code()), 2);
      return error.what();
    }
    return "";
  }

  TempDir temp_;
};

std::vector<float> DataOf(const BlobProto& blob) {
  return {blob.data().begin(), blob.data().end()};
}

TEST_P(CaffeState, StateOfAllSixTypesIsReadAndWrittenInCaffesOrder) {
  for (const UpdateRule& rule : UpdateRules()) {
    if (!rule.in_caffe) continue;
    SCOPED_TRACE(rule.name);
    const auto solver = Make(rule.name);
    const SolverState state = HandMade(*solver, rule.name);
    const auto before = WeightsOf(*solver);
    solver->Restore(Save(state));
    EXPECT_EQ(solver->iteration(), 11);
    solver->Step(1);
    solver->Snapshot();
    const SolverState written = ReadSolverState(PathOfSnapshot(12));
    EXPECT_EQ(written.iter(), 12);
    EXPECT_EQ(written.solver_type(), rule.name);
    ASSERT_EQ(written.history_size(), state.history_size());
    for (size_t s = 0; s < kBlobs; ++s) {
      std::vector<UpdateBlob<float>> blob(1);
      blob[0].weights = before[s];
      blob[0].gradient = ValuesOf(solver->session().ParameterGradient(s));
      blob[0].rate = 0.05F;
      for (int h = 0; h < rule.histories; ++h) {
        blob[0].history.push_back(
            DataOf(state.history(h * static_cast<int>(kBlobs) + static_cast<int>(s))));
      }
      Update(rule, solver->config().solver.solver, 1, &blob, 11);
      EXPECT_EQ(WeightsOf(*solver)[s], blob[0].weights) << s;
      for (int h = 0; h < rule.histories; ++h) {
        const BlobProto& got = written.history(h * static_cast<int>(kBlobs) + static_cast<int>(s));
        EXPECT_EQ(DataOf(got), blob[0].history[static_cast<size_t>(h)]) << s;
      }
    }
  }
}

TEST_P(CaffeState, ResumedIsUninterruptedForEveryType) {
  for (const UpdateRule& rule : UpdateRules()) {
    const auto whole = Make(rule.name);
    whole->Step(4);
    whole->Snapshot();
    whole->Step(5);
    const auto resumed = Make(rule.name);
    resumed->Restore(PathOfSnapshot(4));
    resumed->Step(5);
    EXPECT_EQ(WeightsOf(*resumed), WeightsOf(*whole)) << rule.name;
  }
}

TEST_P(CaffeState, StateOfAnotherTypeIsDetectedByTheNumberOfBlobs) {
  const auto solver = Make("SGD");
  EXPECT_NE(
      RestoreError("SGD", HandMade(*solver, "Adam"))
          .find("the state holds 8 history blobs, but SGD keeps 4 for this net; that many are "
                "of these solver types: AdaDelta, Adam. Resume with"),
      std::string::npos)
      << RestoreError("SGD", HandMade(*solver, "Adam"));
  EXPECT_NE(RestoreError("Adam", HandMade(*solver, "SGD"))
                .find("the state holds 4 history blobs, but Adam keeps 8 for this net; that many "
                      "are of these solver types: SGD, Nesterov, AdaGrad, RMSProp."),
            std::string::npos);
  SolverState odd = HandMade(*solver, "SGD");
  odd.mutable_history()->RemoveLast();
  EXPECT_NE(RestoreError("SGD", odd).find("SGD keeps 4 for this net; it is of another net"),
            std::string::npos);
}

TEST_P(CaffeState, StateOfAnotherTypeIsDetectedByNegativeNumbers) {
  const auto solver = Make("SGD");
  SolverState state = HandMade(*solver, "SGD");
  state.mutable_history(1)->set_data(2, -0.5F);
  EXPECT_EQ(RestoreError("SGD", state), "");
  for (const char* type : {"AdaGrad", "RMSProp"}) {
    EXPECT_NE(
        RestoreError(type, state)
            .find(StrCat("layer \"a\": history blob 1 holds negative numbers, but ", type,
                         " keeps sums of squares there; the state is of another solver type")),
        std::string::npos)
        << RestoreError(type, state);
  }
  state = HandMade(*solver, "Adam");
  state.mutable_history(3)->set_data(0, -0.5F);
  EXPECT_EQ(RestoreError("Adam", state), "");
  EXPECT_NE(RestoreError("AdaDelta", state).find("history blob 3 holds negative"),
            std::string::npos);
  state.mutable_history(4)->set_data(0, -0.5F);
  EXPECT_NE(RestoreError("Adam", state).find("history blob 4 holds negative"), std::string::npos);
}

TEST_P(CaffeState, OursOfAnotherTypeIsRefusedByName) {
  for (const UpdateRule& rule : UpdateRules()) {
    const auto solver = Make(rule.name);
    solver->Step(1);
    solver->Snapshot();
    for (const UpdateRule& other : UpdateRules()) {
      if (other.name == rule.name) continue;
      try {
        Make(other.name)->Restore(PathOfSnapshot(1));
        FAIL() << rule.name << " taken for " << other.name;
      } catch (const Error& error) {
        EXPECT_NE(
            std::string(error.what())
                .find(StrCat("of a ", rule.name, " solver, but the solver file says ", other.name)),
            std::string::npos)
            << error.what();
      }
    }
  }
}

// Caffe: a restored history still moves a blob whose lr_mult is 0 if it contains the rate.
TEST_P(CaffeState, RestoredMomentumMovesFrozenBlobsOnlyWhereCaffesDoes) {
  for (const UpdateRule& rule : UpdateRules()) {
    if (!rule.in_caffe) continue;
    std::string net = kTwoProductsNet;
    net.insert(net.find("bottom: 'x' top: 'h'"), "param { lr_mult: 0 } ");
    const auto solver =
        SolverOf(net, StrCat("max_iter: 50 base_lr: 0.05 lr_policy: 'fixed' momentum: ",
                             rule.rate_in_history ? "0.5" : "0", " type: '", rule.name,
                             "' snapshot_after_train: false"));
    const std::vector<float> before = WeightsOf(*solver)[0];
    const SolverState state = HandMade(*solver, rule.name);
    solver->Restore(Save(state));
    solver->Step(1);
    EXPECT_EQ(WeightsOf(*solver)[0] != before, rule.rate_in_history) << rule.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CaffeState, ::testing::Bool(), [](const auto& tested) {
  return tested.param ? std::string("Hdf5") : std::string("Binary");
});

}  // namespace
}  // namespace crema::test
