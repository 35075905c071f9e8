#include <gtest/gtest.h>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "solvers/solver_config.h"

namespace crema {
namespace {

TEST(UnreadSolverFields, AreNamedWithTheirLine) {
  const RunConfig config =
      MakeRunConfig(ParseSolver("net_param { layer { name: 'x' type: 'DummyData' top: 'x' } }\n"
                                "base_lr: 0.1 lr_policy: 'fixed' max_iter: 1\n"
                                "momentum_policy: 'poly'\n"
                                "larc: true local_lr_auto: false\n",
                                "solver.prototxt"));
  ASSERT_EQ(config.solver.warnings.size(), 2U);
  EXPECT_EQ(ToString(config.solver.warnings[0]),
            "solver.prototxt:4:1: larc has no effect in this version: layers keep the common rate; "
            "type: \"LARS\" has rates by layer");
  EXPECT_NE(ToString(config.solver.warnings[1]).find("solver.prototxt:3:1: momentum_policy"),
            std::string::npos);
}

TEST(UnreadSolverFields, ThoseOfOtherPoliciesAndTypesAreNamed) {
  const RunConfig config =
      MakeRunConfig(ParseSolver("net_param { layer { name: 'x' type: 'DummyData' top: 'x' } }\n"
                                "base_lr: 0.1 lr_policy: 'cosine' max_iter: 1 gamma: 0.5\n"
                                "stepvalue: 3 warmup_iter: 1 min_lr: 0.01\n"
                                "type: 'LARS' trust_coefficient: 0.01 rms_decay: 0.9 delta: 1e-8\n",
                                "solver.prototxt"));
  std::string all;
  for (const Problem& warning : config.solver.warnings) all += ToString(warning) + "\n";
  EXPECT_EQ(all,
            "solver.prototxt:2:46: gamma has no effect: lr_policy 'cosine' does not read it\n"
            "solver.prototxt:3:1: stepvalue has no effect: lr_policy 'cosine' does not read it\n"
            "solver.prototxt:4:38: rms_decay has no effect: type 'LARS' does not read it\n")
      << "delta has its default";
}

TEST(UnreadSolverFields, EveryPolicyReadsWhatItNeeds) {
  SolverParameter step;
  step.set_lr_policy("step");
  step.set_base_lr(1);
  step.set_gamma(0.1F);
  step.set_stepsize(2);
  EXPECT_TRUE(WarnAboutUnreadFields(step).empty());
}

TEST(UnreadSolverFields, ASolverWithoutThemIsSilent) {
  EXPECT_TRUE(WarnAboutUnreadFields(SolverParameter()).empty());
}

}  // namespace
}  // namespace crema
