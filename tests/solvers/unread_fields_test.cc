#include "solvers/unread_fields.h"

#include <gtest/gtest.h>

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

TEST(UnreadSolverFields, ASolverWithoutThemIsSilent) {
  EXPECT_TRUE(WarnAboutUnreadFields(SolverParameter()).empty());
}

}  // namespace
}  // namespace crema
