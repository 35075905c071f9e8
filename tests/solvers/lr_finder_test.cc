#include "solvers/lr_finder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/lmdb.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using test::ValuesOf;

// Fourteen images of noise, so that batches of four do not end where the set does.
void WriteNoise(const std::string& path) {
  LmdbWriter writer(path);
  const RandomStream random(1, 2);
  for (int i = 0; i < 14; ++i) {
    Datum datum;
    datum.set_channels(1);
    datum.set_height(3);
    datum.set_width(3);
    datum.set_label(i % 3);
    std::string pixels;
    for (int p = 0; p < 9; ++p) {
      pixels += static_cast<char>(random.Below(static_cast<uint64_t>(i * 9 + p), 250));
    }
    datum.set_data(pixels);
    writer.Put(StrCat(static_cast<char>('a' + i)), datum.SerializeAsString());
  }
  writer.Close();
}

// A net with all state that a step could change: a reader, random masks, running means, momentum.
constexpr const char* kFinderNet = R"(
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.004 mirror: true }
  data_param { source: "SOURCE" batch_size: 4 backend: LMDB } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 8 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "ip1" top: "ip1" }
layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
)";

class LrFinder : public ::testing::Test {
 protected:
  void SetUp() override { WriteNoise(temp_.File("lmdb")); }

  std::unique_ptr<Solver> Make(const std::string& rest = "") const {
    std::string net = kFinderNet;
    net.replace(net.find("SOURCE"), 6, temp_.File("lmdb"));
    SolverOptions options;
    options.threads = 1;
    return std::make_unique<Solver>(
        MakeRunConfig(ParseSolver(
            StrCat("net_param { ", net,
                   " } base_lr: 0.1 lr_policy: \"multistep\" gamma: 0.5 stepvalue: 4 stepvalue: 9 "
                   "momentum: 0.9 weight_decay: 0.01 random_seed: 3 max_iter: 20 average_loss: 5 "
                   "snapshot_after_train: false ",
                   rest),
            "s")),
        TestRegistry(), std::move(options));
  }
  static std::vector<std::vector<float>> WeightsOf(Solver& solver) {
    std::vector<std::vector<float>> weights;
    for (size_t s = 0; s < solver.weights().size(); ++s) {
      weights.push_back(ValuesOf(std::as_const(solver.weights()).blob(s)));
    }
    return weights;
  }
  TempDir temp_;
};

TEST_F(LrFinder, TrainingAfterItGivesTheSameBytes) {
  const auto plain = Make();
  plain->Step(17);
  for (const int before : {0, 1, 5, 6}) {
    const auto searched = Make();
    searched->Step(before);
    const auto weights = WeightsOf(*searched);
    const LrFinding finding = FindLearningRate({.iterations = 40}, searched.get());
    EXPECT_GE(finding.points.size(), 10U);
    EXPECT_EQ(WeightsOf(*searched), weights);
    EXPECT_EQ(searched->iteration(), before);
    searched->Step(17 - before);
    EXPECT_EQ(WeightsOf(*searched), WeightsOf(*plain)) << before;
  }
}

TEST_F(LrFinder, PutsEverythingBackAfterARunThatBlewUp) {
  const auto plain = Make();
  plain->Step(9);
  const auto searched = Make();
  searched->Step(3);
  const LrFinding finding =
      FindLearningRate({.start = 1, .end = 1e30, .iterations = 60}, searched.get());
  EXPECT_TRUE(finding.diverged);
  EXPECT_LT(finding.points.size(), 60U);
  for (const LrFinding::Point& point : finding.points) EXPECT_TRUE(std::isfinite(point.loss));
  searched->Step(6);
  EXPECT_EQ(WeightsOf(*searched), WeightsOf(*plain));
}

TEST_F(LrFinder, PutsEverythingBackWhenTheBodyThrows) {
  const auto plain = Make();
  plain->Step(6);
  const auto searched = Make();
  searched->Step(2);
  EXPECT_THROW(searched->WithoutTrace([&] {
    searched->Iterate(0.5);
    Fail(ErrorCode::kCancelled, "enough");
  }),
               Error);
  searched->Step(4);
  EXPECT_EQ(WeightsOf(*searched), WeightsOf(*plain));
}

TEST_F(LrFinder, RatesGrowGeometrically) {
  const auto solver = Make();
  const LrFinding finding =
      FindLearningRate({.start = 1e-6, .end = 1e-2, .iterations = 21}, solver.get());
  ASSERT_EQ(finding.points.size(), 21U);
  EXPECT_FALSE(finding.diverged);
  for (size_t i = 0; i < 21; ++i) {
    const double expected = 1e-6 * std::pow(1e4, static_cast<double>(i) / 20);
    EXPECT_NEAR(finding.points[i].rate, expected, 1e-9 * expected);
  }
}

TEST_F(LrFinder, OptionsOutOfRangeAreRefused) {
  const auto solver = Make();
  const auto error = [&](const LrFinderOptions& options) -> std::string {
    try {
      FindLearningRate(options, solver.get());
    } catch (const Error& e) {
      EXPECT_EQ(ExitCode(e.code()), 2);
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error({.start = 0}).find("the first rate is 0; use a number above 0"),
            std::string::npos);
  EXPECT_NE(error({.start = NAN}).find("the first rate is nan"), std::string::npos);
  EXPECT_NE(error({.start = 1, .end = 1}).find("the last rate is 1; use a number above"),
            std::string::npos);
  EXPECT_NE(error({.end = INFINITY}).find("the last rate is inf"), std::string::npos);
  EXPECT_NE(error({.iterations = 9}).find("there are 9 iterations; use 10 to"), std::string::npos);
}

#ifdef CREMA_HAVE_HDF5
TEST_F(LrFinder, ANetThatWritesAFileIsRefusedBeforeItDoes) {
  const std::string output = temp_.File("out.h5");
  const auto solver = std::make_unique<Solver>(
      MakeRunConfig(ParseSolver(
          StrCat("net_param { layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' "
                 "dummy_data_param { shape { dim: 1 dim: 1 } } } layer { name: 'out' type: "
                 "'HDF5Output' bottom: 'x' bottom: 'y' hdf5_output_param { file_name: '",
                 output, "' } } } base_lr: 0 lr_policy: 'fixed' max_iter: 1 ",
                 "snapshot_after_train: false"),
          "s")),
      TestRegistry(), SolverOptions());
  try {
    FindLearningRate({}, solver.get());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layer \"out\": this layer writes a file"),
              std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(output));
}
#endif

// A finding of these losses, at rates of 1e-6, 1e-5.9, ...
LrFinding Judge(const std::vector<double>& losses) {
  LrFinding finding;
  for (size_t i = 0; i < losses.size(); ++i) {
    finding.points.push_back(
        {.rate = std::pow(10, -6 + 0.1 * static_cast<double>(i)), .loss = losses[i]});
  }
  JudgeLosses(&finding);
  return finding;
}

// Flat, a fall around `middle`, a rise from `wall` on; and noise.
std::vector<double> Curve(int count, int middle, int wall, double noise) {
  const RandomStream random(7, 7);
  std::vector<double> losses;
  for (int i = 0; i < count; ++i) {
    double loss = 2.3 - 2 / (1 + std::exp(-0.5 * (i - middle)));
    if (i > wall) loss += 0.1 * (i - wall) * (i - wall);
    loss += noise * (random.Below(static_cast<uint64_t>(i), 1001) / 500.0 - 1);
    losses.push_back(loss);
  }
  return losses;
}

TEST(JudgeLosses, SuggestsWhereTheLossFallsFastest) {
  const LrFinding clean = Judge(Curve(80, 40, 60, 0));
  ASSERT_TRUE(clean.suggested.has_value()) << clean.reason;
  EXPECT_EQ(*clean.suggested, 40U);
  EXPECT_NEAR(static_cast<double>(clean.lowest), 58, 3);
  EXPECT_FALSE(clean.still_falling);
  const LrFinding noisy = Judge(Curve(80, 40, 60, 0.1));
  ASSERT_TRUE(noisy.suggested.has_value()) << noisy.reason;
  EXPECT_NEAR(static_cast<double>(*noisy.suggested), 40, 4);
}

TEST(JudgeLosses, SmoothingKeepsALineAndDoesNotLag) {
  std::vector<double> line;
  for (int i = 0; i < 60; ++i) line.push_back(10 - 0.1 * i);
  const LrFinding finding = Judge(line);
  for (size_t i = 0; i < line.size(); ++i) {
    EXPECT_NEAR(finding.points[i].smoothed, line[i], 1e-12);
  }
  EXPECT_TRUE(finding.still_falling);
}

TEST(JudgeLosses, ALossThatDoesNotFallGivesNoSuggestion) {
  for (const std::vector<double>& losses :
       {std::vector<double>(50, 2.3), Curve(50, 1000, 30, 0.005), Curve(50, 1000, 5, 0)}) {
    const LrFinding finding = Judge(losses);
    EXPECT_FALSE(finding.suggested.has_value());
    EXPECT_NE(finding.reason.find("fell at no rate"), std::string::npos);
  }
  const LrFinding few = Judge({1, 2, 3});
  EXPECT_FALSE(few.suggested.has_value());
  EXPECT_NE(few.reason.find("within a few iterations"), std::string::npos);
}

TEST(SolverForFinding, KeepsNetAndRuleAndDropsTheRest) {
  const SolverFile file = SolverForFinding(
      ParseSolver(
          "net: 'n' type: 'SGD' momentum: 0.9 lr_policy: 'cosinus' base_lr: nan max_epoch: 3 "
          "snapshot: 5 snapshot_prefix: '/nowhere/x' test_iter: 3 test_interval: 7 "
          "early_stop { } plateau { } warmup_iter: 5 random_seed: 3 iter_size: 2",
          "s"),
      {.start = 0.5, .iterations = 30});
  EXPECT_EQ(PrintText(file.solver),
            PrintText(ParseSolver("net: 'n' base_lr: 0.5 max_iter: 30 lr_policy: 'fixed' "
                                  "momentum: 0.9 random_seed: 3 snapshot_after_train: false "
                                  "iter_size: 2 type: 'SGD'",
                                  "s")
                          .solver));
}

}  // namespace
}  // namespace crema
