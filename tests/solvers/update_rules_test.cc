// Every rule against its formula, in plain code in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/update_call.h"

namespace crema::test {
namespace {

using Values = std::vector<double>;

double Norm(const Values& values) {
  double sum = 0;
  for (double x : values) sum += x * x;
  return std::sqrt(sum);
}

double SignOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// The inputs of a formula: one blob, g with decay in it, and `plain` without.
struct Call {
  Values& w;
  const Values& g;
  const Values& plain;
  std::vector<Values>& h;
  double rate;
  double decay;
  double t;  // iteration + 1
};
using Formula = std::function<void(Call)>;

// Fields are floats: the formulas start from the same numbers.
constexpr double kMomentum = 0.9F;
constexpr double kSecond = 0.97F;
constexpr double kDelta = 1e-3F;
constexpr double kRmsDecay = 0.95F;
constexpr double kTrust = 0.02F;

void Sgd(Call c) {
  for (size_t i = 0; i < c.w.size(); ++i) {
    c.h[0][i] = kMomentum * c.h[0][i] + c.rate * c.g[i];
    c.w[i] -= c.h[0][i];
  }
}

void Nesterov(Call c) {
  for (size_t i = 0; i < c.w.size(); ++i) {
    const double before = c.h[0][i];
    c.h[0][i] = kMomentum * before + c.rate * c.g[i];
    c.w[i] -= (1 + kMomentum) * c.h[0][i] - kMomentum * before;
  }
}

void AdaGrad(Call c) {
  for (size_t i = 0; i < c.w.size(); ++i) {
    c.h[0][i] += std::pow(c.g[i], 2);
    c.w[i] -= c.rate * c.g[i] / (std::sqrt(c.h[0][i]) + kDelta);
  }
}

void RmsProp(Call c) {
  for (size_t i = 0; i < c.w.size(); ++i) {
    c.h[0][i] = kRmsDecay * c.h[0][i] + (1 - kRmsDecay) * std::pow(c.g[i], 2);
    c.w[i] -= c.rate * c.g[i] / (std::sqrt(c.h[0][i]) + kDelta);
  }
}

void AdaDelta(Call c) {
  for (size_t i = 0; i < c.w.size(); ++i) {
    c.h[0][i] = kMomentum * c.h[0][i] + (1 - kMomentum) * std::pow(c.g[i], 2);
    const double u = c.g[i] * std::sqrt((c.h[1][i] + kDelta) / (c.h[0][i] + kDelta));
    c.h[1][i] = kMomentum * c.h[1][i] + (1 - kMomentum) * u * u;
    c.w[i] -= c.rate * u;
  }
}

// Both means of Adam.
void AddMoments(Call c, const Values& g) {
  for (size_t i = 0; i < c.w.size(); ++i) {
    c.h[0][i] = kMomentum * c.h[0][i] + (1 - kMomentum) * g[i];
    c.h[1][i] = kSecond * c.h[1][i] + (1 - kSecond) * std::pow(g[i], 2);
  }
}

void Adam(Call c) {
  AddMoments(c, c.g);
  const double correction = std::sqrt(1 - std::pow(kSecond, c.t)) / (1 - std::pow(kMomentum, c.t));
  for (size_t i = 0; i < c.w.size(); ++i) {
    c.w[i] -= c.rate * correction * c.h[0][i] / (std::sqrt(c.h[1][i]) + kDelta);
  }
}

double AdamDirection(const Call& c, size_t i) {
  const double mean = c.h[0][i] / (1 - std::pow(kMomentum, c.t));
  const double square = c.h[1][i] / (1 - std::pow(kSecond, c.t));
  return mean / (std::sqrt(square) + kDelta);
}

void AdamW(Call c) {
  AddMoments(c, c.plain);
  for (size_t i = 0; i < c.w.size(); ++i) {
    c.w[i] -= c.rate * c.decay * c.w[i] + c.rate * AdamDirection(c, i);
  }
}

void Lars(Call c) {
  const double w = Norm(c.w);
  const double g = Norm(c.plain);
  const double ratio = w > 0 && g > 0 ? kTrust * w / (g + c.decay * w) : 1;
  for (size_t i = 0; i < c.w.size(); ++i) {
    c.h[0][i] = kMomentum * c.h[0][i] + c.rate * ratio * c.g[i];
    c.w[i] -= c.h[0][i];
  }
}

void Lamb(Call c) {
  AddMoments(c, c.plain);
  Values u(c.w.size());
  for (size_t i = 0; i < u.size(); ++i) u[i] = AdamDirection(c, i) + c.decay * c.w[i];
  const double ratio = Norm(c.w) > 0 && Norm(u) > 0 ? Norm(c.w) / Norm(u) : 1;
  for (size_t i = 0; i < u.size(); ++i) c.w[i] -= c.rate * ratio * u[i];
}

void Lion(Call c) {
  for (size_t i = 0; i < c.w.size(); ++i) {
    const double direction = SignOf(kMomentum * c.h[0][i] + (1 - kMomentum) * c.plain[i]);
    c.h[0][i] = kSecond * c.h[0][i] + (1 - kSecond) * c.plain[i];
    c.w[i] -= c.rate * (direction + c.decay * c.w[i]);
  }
}

const std::map<std::string, Formula>& Formulas() {
  static const std::map<std::string, Formula> formulas = {
      {"SGD", Sgd},   {"Nesterov", Nesterov}, {"AdaGrad", AdaGrad}, {"RMSProp", RmsProp},
      {"Adam", Adam}, {"AdaDelta", AdaDelta}, {"AdamW", AdamW},     {"LARS", Lars},
      {"LAMB", Lamb}, {"Lion", Lion}};
  return formulas;
}

SolverParameter FieldsFor(const UpdateRule& rule, const std::string& regularization) {
  const bool none = rule.name == "AdaGrad" || rule.name == "RMSProp";
  SolverParameter param = SolverFields(StrCat(
      "momentum2: 0.97 delta: 1e-3 rms_decay: 0.95 trust_coefficient: 0.02 regularization_type: '",
      regularization, "'", none ? "" : " momentum: 0.9"));
  EXPECT_TRUE(CheckUpdate(rule, param).empty());
  for (const std::string& field : rule.reads) {
    EXPECT_TRUE(
        param.GetReflection()->HasField(param, param.GetDescriptor()->FindFieldByName(field)))
        << "set " << field << ", which " << rule.name
        << " reads, to a value other than the default";
  }
  return param;
}

class Rule : public ::testing::TestWithParam<std::string> {
 protected:
  const UpdateRule& rule() const { return *FindUpdateRule(GetParam()); }

  // Six updates of five blobs: with and without gradient, decay, weights and rate.
  void CompareWithFormula(const std::string& regularization, double scale, double limit) const {
    const SolverParameter param = FieldsFor(rule(), regularization);
    std::vector<UpdateBlob<double>> blobs;
    for (size_t b = 0; b < 6; ++b) {
      blobs.push_back(RandomBlob<double>(rule(), b == 2 ? 1 : 37 * (b + 1), b));
      blobs.back().rate = 0.05 * static_cast<double>(b);  // a blob with lr_mult 0
      blobs.back().decay = b == 1 ? 0 : 0.3 * static_cast<double>(b);
    }
    blobs[3].weights.assign(blobs[3].weights.size(), 0);
    std::vector<UpdateBlob<double>> expected = blobs;
    for (int64_t iteration = 0; iteration < 6; ++iteration) {
      for (size_t b = 0; b < blobs.size(); ++b) {
        if (b == 4) {
          blobs[b].gradient.clear();
        } else {
          blobs[b].gradient = RandomValues<double>(
              blobs[b].weights.size(), 100 * (b + 1) + static_cast<uint64_t>(iteration));
        }
        Apply(param, blobs[b].gradient, scale, limit, iteration, &expected[b]);
      }
      ASSERT_EQ(Update(rule(), param, 2, &blobs, iteration, scale, limit), -1);
    }
    for (size_t b = 0; b < blobs.size(); ++b) {
      for (size_t i = 0; i < blobs[b].weights.size(); ++i) {
        ASSERT_NEAR(blobs[b].weights[i], expected[b].weights[i], 1e-12) << b << " " << i;
        for (size_t h = 0; h < blobs[b].history.size(); ++h) {
          ASSERT_NEAR(blobs[b].history[h][i], expected[b].history[h][i], 1e-12) << b << " " << i;
        }
      }
    }
  }

 private:
  void Apply(const SolverParameter& param, const Values& gradient, double scale, double limit,
             int64_t iteration, UpdateBlob<double>* blob) const {
    Values plain(blob->weights.size());
    Values g(blob->weights.size());
    for (size_t i = 0; i < g.size(); ++i) {
      if (!gradient.empty()) plain[i] = std::clamp(scale * gradient[i], -limit, limit);
      const double w = blob->weights[i];
      g[i] = plain[i] + blob->decay * (param.regularization_type() == "L1" ? SignOf(w) : w);
    }
    Formulas().at(GetParam())({.w = blob->weights,
                               .g = g,
                               .plain = plain,
                               .h = blob->history,
                               .rate = blob->rate,
                               .decay = blob->decay,
                               .t = static_cast<double>(iteration + 1)});
  }
};

TEST_P(Rule, IsItsFormula) { CompareWithFormula("L2", 1, 1e300); }

TEST_P(Rule, IsItsFormulaWithScaledAndClippedGradients) { CompareWithFormula("L2", 0.25, 0.1); }

class RuleWithL1 : public Rule {};

TEST_P(RuleWithL1, IsItsFormula) { CompareWithFormula("L1", 1, 1e300); }

TEST_P(RuleWithL1, DiffersFromL2) {
  std::vector<UpdateBlob<double>> l1 = {RandomBlob<double>(rule(), 40, 1)};
  l1[0].decay = 0.3;
  std::vector<UpdateBlob<double>> l2 = l1;
  Update(rule(), FieldsFor(rule(), "L1"), 1, &l1, 0);
  Update(rule(), FieldsFor(rule(), "L2"), 1, &l2, 0);
  EXPECT_NE(l1[0].weights, l2[0].weights) << "set UpdateRule::takes_l1 to false";
}

TEST_P(Rule, HasTheFactsOfItsHistories) {
  std::vector<UpdateBlob<double>> slow = {RandomBlob<double>(rule(), 40, 1)};
  std::vector<UpdateBlob<double>> fast = slow;
  fast[0].rate = 2 * slow[0].rate;
  Update(rule(), FieldsFor(rule(), "L2"), 1, &slow, 0);
  Update(rule(), FieldsFor(rule(), "L2"), 1, &fast, 0);
  EXPECT_EQ(slow[0].history != fast[0].history, rule().rate_in_history) << "rate_in_history";
  for (size_t h = 0; h < slow[0].history.size(); ++h) {
    EXPECT_EQ(std::ranges::min(slow[0].history[h]) >= 0, ((rule().squares >> h) & 1U) != 0)
        << "squares, history " << h;
  }
}

// In float, as training runs: a few roundings away from double.
TEST_P(Rule, FloatFollowsDouble) {
  const SolverParameter param = FieldsFor(rule(), "L2");
  std::vector<UpdateBlob<double>> wide = {RandomBlob<double>(rule(), 1001, 3)};
  std::vector<UpdateBlob<float>> narrow = {RandomBlob<float>(rule(), 1001, 3)};
  wide[0].decay = narrow[0].decay = 0.01;
  for (int64_t iteration = 0; iteration < 5; ++iteration) {
    wide[0].gradient = RandomValues<double>(1001, 50 + static_cast<uint64_t>(iteration));
    narrow[0].gradient = RandomValues<float>(1001, 50 + static_cast<uint64_t>(iteration));
    Update(rule(), param, 1, &wide, iteration);
    Update(rule(), param, 1, &narrow, iteration);
  }
  for (size_t i = 0; i < 1001; ++i) {
    ASSERT_NEAR(narrow[0].weights[i], wide[0].weights[i], 2e-5) << i;
  }
}

std::vector<std::string> Names(bool only_l1) {
  std::vector<std::string> names;
  for (const UpdateRule& rule : UpdateRules()) {
    if (rule.takes_l1 || !only_l1) names.push_back(rule.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, Rule, ::testing::ValuesIn(Names(false)),
                         [](const auto& tested) { return tested.param; });
INSTANTIATE_TEST_SUITE_P(All, RuleWithL1, ::testing::ValuesIn(Names(true)),
                         [](const auto& tested) { return tested.param; });

TEST(Rules, AllOfThemHaveAFormulaHere) {
  for (const UpdateRule& rule : UpdateRules()) EXPECT_TRUE(Formulas().contains(rule.name));
  EXPECT_EQ(UpdateRules().size(), Formulas().size());
}

}  // namespace
}  // namespace crema::test
