// The rule of docs/development/add_an_update_rule.md does what the page says.
#include "examples/signum.h"

#include <gtest/gtest.h>

#include <vector>

#include "crema.pb.h"
#include "support/update_call.h"

namespace crema::test {
namespace {

void CheckSignum(const SolverParameter& param, FieldChecks* checks) {
  checks->BelowOne("momentum", param.momentum());
}

const UpdateRule& Rule() {
  static const std::vector<UpdateRule> rules = {
      MakeRule("Signum", 1, CheckSignum, UpdateByStep<SignumStep>, {.default_momentum = 0.9})};
  return rules.front();
}

constexpr double kMomentum = 0.9F;

double SignOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// Arguments of a formula, as in tests/solvers/update_rules_test.cc; no decay.
struct Call {
  std::vector<double>& w;
  const std::vector<double>& g;
  std::vector<std::vector<double>>& h;
  double rate;
};

void Signum(Call c) {
  for (size_t i = 0; i < c.w.size(); ++i) {
    c.h[0][i] = kMomentum * c.h[0][i] + (1 - kMomentum) * c.g[i];
    c.w[i] -= c.rate * SignOf(c.h[0][i]);
  }
}

TEST(Signum, IsItsFormula) {
  const SolverParameter param = SolverFields("momentum: 0.9");
  std::vector<UpdateBlob<double>> blobs = {RandomBlob<double>(Rule(), 101, 3)};
  UpdateBlob<double> expected = blobs[0];
  for (int64_t iteration = 0; iteration < 6; ++iteration) {
    blobs[0].gradient = RandomValues<double>(101, static_cast<uint64_t>(iteration));
    Signum({expected.weights, blobs[0].gradient, expected.history, expected.rate});
    ASSERT_EQ(Update(Rule(), param, 2, &blobs, iteration), -1);
  }
  for (size_t i = 0; i < 101; ++i) {
    EXPECT_NEAR(blobs[0].weights[i], expected.weights[i], 1e-12) << i;
    EXPECT_NEAR(blobs[0].history[0][i], expected.history[0][i], 1e-12) << i;
  }
}

TEST(Signum, RefusesAMomentumOfOne) {
  FieldChecks checks;
  Rule().check(SolverFields("momentum: 1"), &checks);
  const std::vector<Problem> problems = checks.Take();
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].where.field, "momentum");
}

}  // namespace
}  // namespace crema::test
