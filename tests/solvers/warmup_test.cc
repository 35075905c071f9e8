// warmup_iter in a run: rates and the momentum that follows them.
#include <gtest/gtest.h>

#include "format/prototxt.h"
#include "solvers/solver.h"
#include "support/net.h"

namespace crema {
namespace {

// loss = 2 w, so that the gradient of the one weight is 2 in every iteration.
constexpr const char* kLinear = R"(
layer { name: "data" type: "DummyData" top: "x"
  dummy_data_param { shape { dim: 1 dim: 1 } data_filler { value: 2 } } }
layer { name: "w" type: "InnerProduct" bottom: "x" top: "y"
  inner_product_param { num_output: 1 bias_term: false weight_filler { value: 8 } } }
layer { name: "loss" type: "Reduction" bottom: "y" top: "loss" loss_weight: 1 }
)";

TEST(WarmUp, ScalesTheMomentumOfSgdAsIntelCaffeDoes) {
  Solver solver(MakeRunConfig(ParseSolver(
                    "net_param { " + std::string(kLinear) +
                        " } base_lr: 0.5 lr_policy: \"fixed\" momentum: 0.5 max_iter: 9 "
                        "warmup_iter: 4 warmup_start_lr: 0.25 snapshot_after_train: false",
                    "s")),
                test::TestRegistry(), {});
  double w = 8;
  double history = 0;
  double before = 0.25;
  for (int i = 0; i < 7; ++i) {
    const double rate = i < 4 ? 0.25 + 0.25 * i / 4 : 0.5;
    const double momentum = i < 4 ? 0.5 * rate / before : 0.5;
    history = momentum * history + rate * 2;
    w -= history;
    before = rate;
    solver.Step(1);
    EXPECT_NEAR(test::ValuesOf(std::as_const(solver.weights()).blob(0))[0], w, 1e-5) << i;
  }
}

}  // namespace
}  // namespace crema
