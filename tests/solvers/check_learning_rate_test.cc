// Problems of the fields of lr_policy, and their positions.
#include <gtest/gtest.h>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "solvers/learning_rate.h"
#include "solvers/solver_config.h"

namespace crema {
namespace {

// "line:column: message" of each problem, as MakeRunConfig reports them.
std::string Problems(const std::string& text,
                     std::vector<Problem> (*check)(const SolverParameter&) = CheckLearningRate) {
  const SolverFile file = ParseSolver(text, "s");
  std::string lines;
  for (const Problem& problem : check(file.solver)) {
    const Where where = file.source.Locate(problem.where.field);
    lines += StrCat(where.line, ":", where.column, ": ", problem.message, "\n");
  }
  return lines;
}

struct Case {
  std::string text;
  std::string expect;  // a part of the problems; empty: there is none
};

void Expect(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string problems = Problems(c.text);
    if (c.expect.empty()) {
      EXPECT_EQ(problems, "") << c.text;
    } else {
      EXPECT_NE(problems.find(c.expect), std::string::npos)
          << c.text << "\nexpected: " << c.expect << "\ngot: " << problems;
    }
  }
}

TEST(CheckLearningRate, PoliciesAndTheirFieldsAreNamed) {
  Expect({
      {"base_lr: 1 lr_policy: \"fixed\"", ""},
      {"lr_policy: \"fixed\"", "missing required field 'base_lr'"},
      {"base_lr: 1",
       "missing required field 'lr_policy'; one of: fixed step exp inv multistep "
       "poly sigmoid cosine one_cycle plateau multifixed"},
      {"base_lr: 1\nlr_policy: \"stepp\" stepsize: 1 gamma: 1",
       "2:1: unknown lr_policy 'stepp' (did you mean 'step'?)"},
      {"base_lr: 1\nlr_policy: \"onecycle\"",
       "2:1: unknown lr_policy 'onecycle' (did you mean 'one_cycle'?)"},
      {"base_lr: 1 lr_policy: \"step\" gamma: 0.1", "lr_policy 'step' needs the field 'stepsize'"},
      {"base_lr: 1 lr_policy: \"step\" gamma: 0.1 stepvalue: 5",
       "lr_policy 'step' needs the field 'stepsize'; stepvalue belongs to 'multistep'"},
      {"base_lr: 1 lr_policy: \"sigmoid\" stepsize: 1",
       "lr_policy 'sigmoid' needs the field 'gamma'"},
      {"base_lr: 1 lr_policy: \"inv\" gamma: 1", "lr_policy 'inv' needs the field 'power'"},
      {"base_lr: 1 lr_policy: \"plateau\" plateau_winsize: 1",
       "lr_policy 'plateau' needs the field 'gamma'"},
      {"lr_policy: \"multifixed\" stagelr: 1", "'multifixed' needs the field 'stageiter'"},
      {"lr_policy: \"multifixed\" stageiter: 1", "'multifixed' needs the field 'stagelr'"},
  });
}

TEST(CheckLearningRate, NumbersMustBeFinite) {
  Expect({
      {"base_lr: nan lr_policy: \"fixed\"", "1:1: base_lr is nan, not a finite number"},
      {"base_lr: 1\nlr_policy: \"exp\"\ngamma: inf", "3:1: gamma is inf, not a finite number"},
      {"base_lr: 1\nlr_policy: \"poly\" max_iter: 1\npower: nan", "3:1: power is nan"},
      {"base_lr: 1\nlr_policy: \"cosine\" max_iter: 1\nmin_lr: nan", "3:1: min_lr is nan"},
      {"base_lr: 1\nlr_policy: \"fixed\"\nwarmup_start_lr: inf", "3:1: warmup_start_lr is inf"},
      {"base_lr: 1\nlr_policy: \"fixed\"\nrampup_lr: nan", "3:1: rampup_lr is nan"},
      {"lr_policy: \"multifixed\" stageiter: 1 stageiter: 2 stagelr: 1\nstagelr: nan",
       "2:1: stagelr[1] is nan"},
      {"base_lr: 1 lr_policy: \"one_cycle\" max_iter: 1\none_cycle_param {\n div_factor: nan }",
       "3:2: one_cycle_param.div_factor is nan; use a number above 0"},
      {"base_lr: 1 lr_policy: \"one_cycle\" max_iter: 1\none_cycle_param {\n pct_start: nan }",
       "3:2: one_cycle_param.pct_start is nan; it is a share"},
  });
}

// Each is said once.
TEST(CheckLearningRate, ANumberIsReportedOnce) {
  EXPECT_EQ(Problems("base_lr: 1\nlr_policy: \"exp\"\ngamma: nan"),
            "3:1: gamma is nan, not a finite number\n");
}

TEST(CheckLearningRate, RangesAreKept) {
  Expect({
      {"base_lr: 1 lr_policy: \"step\" gamma: 0.1\nstepsize: 0", "2:1: stepsize 0 is not above 0"},
      {"base_lr: 1 lr_policy: \"exp\"\ngamma: -1", "2:1: gamma -1 is negative"},
      {"base_lr: 1 lr_policy: \"fixed\" gamma: -1", ""},
      {"base_lr: -0.01 lr_policy: \"fixed\"", "1:1: base_lr -0.01 is negative; use 0 or more"},
      {"base_lr: 1 lr_policy: \"multistep\" gamma: 1\nstepvalue: 5 stepvalue: 2",
       "2:1: the stepvalues are not in ascending order"},
      {"base_lr: 1 lr_policy: \"fixed\"\nmin_lr: -1", "2:1: min_lr -1 is negative"},
      {"base_lr: 1 lr_policy: \"cosine\" max_iter: 1\nmin_lr: 2",
       "2:1: min_lr 2 is above base_lr 1, but 'cosine' goes down to it"},
      {"base_lr: 1 lr_policy: \"fixed\"\nwarmup_iter: -1", "2:1: warmup_iter -1 is negative"},
      {"base_lr: 1 lr_policy: \"fixed\"\nwarmup_start_lr: -1", "warmup_start_lr -1 is negative"},
      {"base_lr: 1 lr_policy: \"fixed\"\nrampup_interval: -1", "rampup_interval -1 is negative"},
      {"base_lr: 1 lr_policy: \"fixed\" warmup_iter: 1\nrampup_interval: 1",
       "2:1: warmup_iter and rampup_interval both say how the rate rises"},
      {"base_lr: 1 lr_policy: \"one_cycle\" max_iter: 1 one_cycle_param {\n pct_start: 1.5 }",
       "2:2: one_cycle_param.pct_start is 1.5; it is a share of max_iter, 0 to 1"},
      {"base_lr: 1 lr_policy: \"one_cycle\" max_iter: 1 one_cycle_param {\n final_div_factor: 0 }",
       "2:2: one_cycle_param.final_div_factor is 0; use a number above 0"},
  });
}

TEST(CheckLearningRate, StagesOfMultifixed) {
  Expect({
      {"lr_policy: \"multifixed\" stagelr: 1 stageiter: 1", ""},
      {"lr_policy: \"multifixed\" stagelr: 1 stageiter: 1 warmup_iter: 1",
       "missing required field 'base_lr'"},
      {"lr_policy: \"multifixed\" stagelr: 1 stagelr: 2\nstageiter: 1",
       "1:25: there are 2 values of stagelr and 1 of stageiter; give one of each for every stage"},
      {"lr_policy: \"multifixed\" stagelr: 1 stagelr: 2\nstageiter: 2 stageiter: 1",
       "2:1: the stageiters are not in ascending order"},
      {"lr_policy: \"multifixed\" stageiter: 1\nstagelr: -1", "2:1: stagelr[0] -1 is negative"},
  });
}

TEST(CheckLearningRate, PlateauLooksAtOneThing) {
  const std::string plateau = "base_lr: 1 gamma: 0.1\nlr_policy: \"plateau\"\n";
  Expect({
      {plateau + "plateau_winsize: 5", ""},
      {plateau + "plateau { } test_interval: 5", ""},
      {plateau + "plateau { } test_interval_epoch: 1", ""},
      {plateau, "2:1: lr_policy 'plateau' needs one of plateau_winsize"},
      {plateau + "plateau_winsize: 5\nplateau { }",
       "4:1: lr_policy 'plateau' needs one, not both, of plateau_winsize"},
      {plateau + "plateau_winsize: 5\nplateau_winsize: 0",
       "4:1: plateau_winsize is 0; use 1 or more"},
      {plateau + "plateau { }", "3:1: the rate would never drop: plateau looks at tests"},
      {plateau + "plateau {\n patience: 0 } test_interval: 5",
       "4:2: plateau.patience is 0; use 1 or more"},
      {plateau + "plateau {\n min_delta: -1 } test_interval: 5",
       "4:2: plateau.min_delta is -1; use 0 or more"},
  });
}

TEST(CheckLearningRate, OddSchedulesAreWarnedAbout) {
  EXPECT_EQ(Problems("base_lr: 1 lr_policy: \"fixed\" max_iter: 9\nwarmup_iter: 10",
                     WarnAboutLearningRate),
            "2:1: warmup_iter 10 is more than max_iter 9: the rate never reaches base_lr\n");
  EXPECT_EQ(Problems("base_lr: 1 lr_policy: \"fixed\" max_iter: 9\nrampup_interval: 10",
                     WarnAboutLearningRate),
            "2:1: rampup_interval 10 is more than max_iter 9: the rate never reaches base_lr\n");
  EXPECT_EQ(
      Problems("base_lr: 1 lr_policy: \"fixed\" max_iter: 9\nmin_lr: 2", WarnAboutLearningRate),
      "2:1: min_lr 2 is above base_lr 1: no rate is below it\n");
  EXPECT_EQ(Problems("base_lr: -1 lr_policy: \"fixed\" max_iter: 9", WarnAboutLearningRate), "");
  EXPECT_EQ(
      Problems("base_lr: 1 lr_policy: \"fixed\" max_iter: 9 warmup_iter: 9", WarnAboutLearningRate),
      "");
  EXPECT_EQ(Problems("base_lr: 1 lr_policy: \"fixed\" max_epoch: 2 warmup_iter: 9",
                     WarnAboutLearningRate),
            "");
}

constexpr const char* kInputNet =
    "net_param { layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 1 } "
    "} } }\n";

TEST(CheckLearningRate, ARunConfigCarriesProblemsAndWarningsWithTheirLines) {
  try {
    MakeRunConfig(
        ParseSolver(StrCat(kInputNet, "lr_policy: 'fixed' max_iter: 1\nbase_lr: nan"), "s"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "s:3:1: base_lr is nan, not a finite number");
    EXPECT_EQ(ExitCode(error.code()), 2);
  }
  const RunConfig config = MakeRunConfig(ParseSolver(
      StrCat(kInputNet, "base_lr: 1 lr_policy: 'fixed' max_iter: 1\nwarmup_iter: 5"), "s"));
  ASSERT_EQ(config.solver.warnings.size(), 1U);
  EXPECT_EQ(ToString(config.solver.warnings[0]),
            "s:3:1: warmup_iter 5 is more than max_iter 1: the rate never reaches base_lr");
}

}  // namespace
}  // namespace crema
