#include "solvers/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/prototxt.h"

namespace crema {
namespace {

SolverParameter Param(const std::string& text) {
  return ParseSolver(text, "solver.prototxt").solver;
}

TEST(LearningRate, EveryPolicy) {
  const std::string base = "base_lr: 0.5 ";
  EXPECT_DOUBLE_EQ(LearningRate(Param(base + "lr_policy: \"fixed\"")).At(99), 0.5);
  LearningRate step(Param(base + "lr_policy: \"step\" gamma: 0.5 stepsize: 10"));
  EXPECT_DOUBLE_EQ(step.At(9), 0.5);
  EXPECT_DOUBLE_EQ(step.At(10), 0.25);
  EXPECT_DOUBLE_EQ(step.At(29), 0.125);
  EXPECT_EQ(step.current_step(), 2);
  EXPECT_DOUBLE_EQ(LearningRate(Param(base + "lr_policy: \"exp\" gamma: 0.5")).At(3), 0.0625);
  EXPECT_NEAR(LearningRate(Param(base + "lr_policy: \"inv\" gamma: 0.25 power: 2")).At(4),
              0.5 * std::pow(2.0, -2), 1e-9);
  EXPECT_NEAR(LearningRate(Param(base + "lr_policy: \"poly\" power: 2 max_iter: 10")).At(5), 0.125,
              1e-9);
  EXPECT_NEAR(LearningRate(Param(base + "lr_policy: \"sigmoid\" gamma: 2 stepsize: 5")).At(6),
              0.5 / (1 + std::exp(-2.0)), 1e-9);
}

TEST(LearningRate, MultistepAdvancesAtMostOneStepAnIteration) {
  LearningRate rate(Param(
      "base_lr: 1 lr_policy: \"multistep\" gamma: 0.5 stepvalue: 2 stepvalue: 3 stepvalue: 3"));
  EXPECT_DOUBLE_EQ(rate.At(1), 1);
  EXPECT_DOUBLE_EQ(rate.At(2), 0.5);
  EXPECT_DOUBLE_EQ(rate.At(3), 0.25);
  EXPECT_DOUBLE_EQ(rate.At(4), 0.125);
  EXPECT_DOUBLE_EQ(rate.At(5), 0.125);
  EXPECT_EQ(rate.current_step(), 3);
}

std::string Problems(const std::string& text) {
  std::string lines;
  for (const Problem& problem : CheckLearningRate(Param(text))) lines += problem.message + "\n";
  return lines;
}

TEST(LearningRate, ProblemsAreNamed) {
  EXPECT_EQ(Problems("base_lr: 1 lr_policy: \"fixed\""), "");
  EXPECT_NE(Problems("base_lr: 1").find("missing required field 'lr_policy'"), std::string::npos);
  EXPECT_NE(
      Problems("base_lr: 1 lr_policy: \"stepp\" stepsize: 1 gamma: 1").find("did you mean 'step'"),
      std::string::npos);
  EXPECT_NE(
      Problems("base_lr: 1 lr_policy: \"step\" gamma: 0.1").find("needs the field 'stepsize'"),
      std::string::npos);
  EXPECT_NE(Problems("base_lr: 1 lr_policy: \"step\" gamma: 0.1 stepsize: 0").find("not above 0"),
            std::string::npos);
  EXPECT_NE(Problems("base_lr: nan lr_policy: \"fixed\"").find("not a finite number"),
            std::string::npos);
  EXPECT_NE(Problems("base_lr: 1 lr_policy: \"exp\" gamma: -1").find("negative"),
            std::string::npos);
  EXPECT_NE(Problems("base_lr: 1 lr_policy: \"multistep\" gamma: 1 stepvalue: 5 stepvalue: 2")
                .find("ascending"),
            std::string::npos);
}

}  // namespace
}  // namespace crema
