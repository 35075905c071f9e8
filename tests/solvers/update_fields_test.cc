// The fields that update rules read: defaults, limits, and the momentum of an iteration.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/update_call.h"

namespace crema::test {
namespace {

// "field: message" of each problem.
std::string ProblemsOf(const std::string& type, const std::string& fields) {
  const SolverParameter param = SolverFields(fields);
  std::string text;
  for (const Problem& problem : CheckUpdate(*FindUpdateRule(type), param)) {
    EXPECT_EQ(problem.code, ErrorCode::kInvalidArgument);
    text += problem.where.field + ": " + problem.message + "\n";
  }
  return text;
}

TEST(UpdateFields, EveryTypeTakesItsDefaults) {
  for (const UpdateRule& rule : UpdateRules()) EXPECT_EQ(ProblemsOf(rule.name, ""), "");
}

// A rule that does not check a field that it reads would train with NaN.
TEST(UpdateFields, NoneMayBeNan) {
  for (const UpdateRule& rule : UpdateRules()) {
    std::vector<std::string> fields = rule.reads;
    fields.push_back("momentum");
    for (const std::string& field : fields) {
      EXPECT_NE(ProblemsOf(rule.name, field + ": nan"), "") << rule.name << " takes any " << field;
    }
  }
}

TEST(UpdateFields, AdaGradAndRmsPropHaveNoMomentum) {
  EXPECT_EQ(ProblemsOf("AdaGrad", "momentum: 0.9"),
            "momentum: momentum is 0.9, but AdaGrad has none; leave it out or use 0\n");
  EXPECT_EQ(ProblemsOf("RMSProp", "momentum: 0.9"),
            "momentum: momentum is 0.9, but RMSProp has none; leave it out or use 0\n");
  EXPECT_EQ(ProblemsOf("RMSProp", "momentum: 0"), "");
}

TEST(UpdateFields, DecaysOfMeansAreBelowOne) {
  EXPECT_EQ(ProblemsOf("RMSProp", "rms_decay: 1"),
            "rms_decay: rms_decay is 1; use 0 or more and less than 1\n");
  EXPECT_EQ(ProblemsOf("RMSProp", "rms_decay: -0.1"),
            "rms_decay: rms_decay is -0.1; use 0 or more and less than 1\n");
  for (const char* type : {"Adam", "AdamW", "LAMB", "Lion"}) {
    EXPECT_EQ(ProblemsOf(type, "momentum: 1"),
              "momentum: momentum is 1; use 0 or more and less than 1\n");
    EXPECT_EQ(ProblemsOf(type, "momentum2: nan"),
              "momentum2: momentum2 is nan; use 0 or more and less than 1\n");
  }
  EXPECT_NE(ProblemsOf("AdaDelta", "momentum: 1"), "");
  EXPECT_NE(ProblemsOf("LARS", "momentum: 1"), "");
}

TEST(UpdateFields, TheRestIsNotNegative) {
  EXPECT_EQ(ProblemsOf("SGD", "momentum: -1"), "momentum: momentum is -1; use 0 or more\n");
  EXPECT_EQ(ProblemsOf("Nesterov", "momentum: inf"), "momentum: momentum is inf; use 0 or more\n");
  for (const char* type : {"AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW", "LAMB"}) {
    EXPECT_EQ(ProblemsOf(type, "delta: -1e-8"), "delta: delta is -1e-08; use 0 or more\n");
  }
  EXPECT_EQ(ProblemsOf("LARS", "trust_coefficient: 0"),
            "trust_coefficient: trust_coefficient is 0; use a number above 0\n");
}

TEST(UpdateFields, ValuesThatLetWeightsGrowAreWarnedOf) {
  SolverParameter param;
  EXPECT_TRUE(WarnAboutUpdate(param).empty());
  param.set_momentum(0.99F);
  param.set_weight_decay(0);
  EXPECT_TRUE(WarnAboutUpdate(param).empty());
  param.set_momentum(1.5F);
  param.set_weight_decay(-0.25F);
  const std::vector<Problem> warnings = WarnAboutUpdate(param);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[0].message, "momentum is 1.5: steps add up without end; use less than 1");
  EXPECT_EQ(warnings[1].where.field, "weight_decay");
}

TEST(UpdateFields, SomeTypesHaveNoL1) {
  const std::set<std::string> without = {"AdamW", "LARS", "LAMB", "Lion"};
  for (const UpdateRule& rule : UpdateRules()) {
    const std::string problems = ProblemsOf(rule.name, "regularization_type: 'L1'");
    EXPECT_EQ(problems.empty(), !without.contains(rule.name)) << rule.name;
  }
  EXPECT_EQ(ProblemsOf("AdamW", "regularization_type: 'L1'"),
            "regularization_type: solver type 'AdamW' has no L1 regularisation; use \"L2\" or "
            "another solver type\n");
}

TEST(UpdateFields, OneWayOfClippingIsEnough) {
  EXPECT_EQ(ProblemsOf("SGD", "clip_gradient_value: 1 clip_gradients: 1"),
            "clip_gradient_value: clip_gradient_value and clip_gradients are both set; keep one of "
            "them\n");
  EXPECT_EQ(ProblemsOf("SGD", "clip_gradient_value: nan"),
            "clip_gradient_value: clip_gradient_value is nan\n");
  EXPECT_EQ(ProblemsOf("SGD", "clip_gradient_value: 1 clip_gradients: -1"), "");
}

double Momentum(const std::string& type, const std::string& fields, int64_t iteration = 0) {
  return MomentumAt(*FindUpdateRule(type), SolverFields(fields), iteration);
}

TEST(Momentum, DefaultsAreOfTheType) {
  for (const char* type : {"SGD", "Nesterov", "AdaDelta", "Adam"}) {
    EXPECT_EQ(Momentum(type, ""), 0) << type;
  }
  for (const char* type : {"AdamW", "LARS", "LAMB", "Lion"}) {
    EXPECT_EQ(Momentum(type, ""), 0.9) << type;
    EXPECT_EQ(Momentum(type, "momentum: 0"), 0) << type;
  }
}

TEST(Momentum, IsCorrectedWhileTheRateRises) {
  // Rates 0.1, 0.2, 0.3, 0.4, then 0.5.
  const std::string fields =
      "momentum: 0.5 base_lr: 0.5 lr_policy: 'fixed' warmup_iter: 4 warmup_start_lr: 0.1";
  const double expected[] = {0.5, 1, 0.75, 0.5 * 4 / 3, 0.5, 0.5};
  for (const char* type : {"SGD", "Nesterov", "LARS"}) {
    for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(Momentum(type, fields, i), expected[i], 1e-7) << i;
  }
  // These have no rate in their history.
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(Momentum("Adam", fields, i), 0.5);
}

TEST(Momentum, AWarmUpFromNothingDividesByNothing) {
  const std::string fields = "momentum: 0.5 base_lr: 0.4 lr_policy: 'fixed' warmup_iter: 4";
  EXPECT_EQ(Momentum("SGD", fields, 1), 0.5);
  EXPECT_NEAR(Momentum("SGD", fields, 2), 1, 1e-7);
}

// Returns the fields of a text, without momentum, which all rules read.
std::set<std::string> NamesIn(const std::string& fields) {
  const std::regex name("(\\w+):");
  std::set<std::string> names;
  for (std::sregex_iterator found(fields.begin(), fields.end(), name), end; found != end; ++found) {
    names.insert((*found)[1]);
  }
  names.erase("momentum");
  return names;
}

// One step from fields that are left out, against the same with the documented defaults.
TEST(UpdateFields, DefaultsAreAsDocumented) {
  const std::map<std::string, std::string> defaults = {
      {"SGD", "momentum: 0"},
      {"Nesterov", "momentum: 0"},
      {"AdaGrad", "delta: 1e-8"},
      {"RMSProp", "rms_decay: 0.99 delta: 1e-8"},
      {"AdaDelta", "momentum: 0 delta: 1e-8"},
      {"Adam", "momentum: 0 momentum2: 0.999 delta: 1e-8"},
      {"AdamW", "momentum: 0.9 momentum2: 0.999 delta: 1e-8"},
      {"LARS", "momentum: 0.9 trust_coefficient: 0.001"},
      {"LAMB", "momentum: 0.9 momentum2: 0.999 delta: 1e-6"},
      {"Lion", "momentum: 0.9 momentum2: 0.99"}};
  for (const UpdateRule& rule : UpdateRules()) {
    const std::string& name = rule.name;
    ASSERT_TRUE(defaults.contains(name)) << "write the defaults of " << name << " here";
    const std::string& fields = defaults.at(name);
    EXPECT_EQ(NamesIn(fields), std::set<std::string>(rule.reads.begin(), rule.reads.end())) << name;
    std::vector<UpdateBlob<double>> left_out = {RandomBlob<double>(rule, 40, 1)};
    std::vector<UpdateBlob<double>> written = left_out;
    for (int64_t iteration = 0; iteration < 3; ++iteration) {
      Update(rule, SolverFields(""), 1, &left_out, iteration);
      Update(rule, SolverFields(fields), 1, &written, iteration);
    }
    for (size_t i = 0; i < 40; ++i) {
      EXPECT_NEAR(left_out[0].weights[i], written[0].weights[i], 1e-7) << name;
    }
  }
}

}  // namespace
}  // namespace crema::test
