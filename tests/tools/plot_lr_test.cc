// plot_lr: schedules without training.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/strings.h"
#include "data/image/image.h"
#include "support/error_text.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Contains;
using test::ProcessResult;
using test::TempDir;

class PlotLr : public ::testing::Test {
 protected:
  ProcessResult Run(const std::string& solver, std::vector<std::string> flags = {}) const {
    temp_.Write("s.prototxt", solver);
    flags.insert(flags.begin(), {test::Bin("plot_lr"), "--solver=s.prototxt"});
    return test::RunProcess(flags, temp_.path());
  }
  TempDir temp_;
};

// The net that it names does not exist, and is not needed.
constexpr const char* kStep =
    "net: \"nowhere\" base_lr: 0.5 lr_policy: \"step\" gamma: 0.5 stepsize: 2 max_iter: 5\n";

TEST_F(PlotLr, PrintsTheTableWithoutNetAndData) {
  const ProcessResult result = Run(kStep);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "iteration,lr\n0,0.5\n1,0.5\n2,0.25\n3,0.25\n4,0.125\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(PlotLr, TakesTheNumberOfIterations) {
  EXPECT_EQ(Run(kStep, {"--iterations=2"}).out, "iteration,lr\n0,0.5\n1,0.5\n");
  // The schedule is that of the whole run.
  EXPECT_EQ(Run("base_lr: 1 lr_policy: \"poly\" power: 1 max_iter: 4", {"--iterations=6"}).out,
            "iteration,lr\n0,1\n1,0.75\n2,0.5\n3,0.25\n4,0\n5,0\n");
  EXPECT_EQ(Run("base_lr: 1 lr_policy: \"poly\" power: 1 max_epoch: 9", {"--iterations=4"}).out,
            "iteration,lr\n0,1\n1,0.75\n2,0.5\n3,0.25\n");
}

TEST_F(PlotLr, AsksForTheNumberOfIterationsWhereTheSolverHasNone) {
  for (const char* length : {"", "max_epoch: 9", "max_iter: 0"}) {
    const ProcessResult result = Run(StrCat("base_lr: 1 lr_policy: \"fixed\" ", length));
    EXPECT_EQ(result.exit_code, 2) << length;
    EXPECT_TRUE(Contains(result.err, "say with --iterations how long the run is")) << result.err;
  }
  EXPECT_EQ(Run(kStep, {"--iterations=-1"}).exit_code, 2);
}

TEST_F(PlotLr, WritesTheTableAsAFile) {
  const ProcessResult result = Run(kStep, {"--iterations=1", "--csv=lr.csv"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(temp_.Read("lr.csv"), "iteration,lr\n0,0.5\n");
  EXPECT_EQ(Run(kStep, {"--csv=nowhere/lr.csv"}).exit_code, 3);
}

TEST_F(PlotLr, SaysThatPlateauDependsOnTheTraining) {
  const ProcessResult result =
      Run("base_lr: 0.5 lr_policy: \"plateau\" gamma: 0.5 plateau_winsize: 1 max_iter: 3 "
          "warmup_iter: 2 ");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "iteration,lr\n0,0\n1,0.25\n2,0.5\n");
  EXPECT_TRUE(Contains(result.err, "upper bound; when the rate drops depends on the training"))
      << result.err;
}

TEST_F(PlotLr, NamesProblemsWithTheirLines) {
  const ProcessResult result = Run("lr_policy: \"exp\" gamma: 0.5\nbase_lr: nan max_iter: 3");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(Contains(result.err, "s.prototxt:2:1: base_lr is nan, not a finite number"))
      << result.err;
  const ProcessResult warned = Run(StrCat(kStep, "warmup_iter: 9"));
  EXPECT_EQ(warned.exit_code, 0);
  EXPECT_TRUE(Contains(warned.err, "s.prototxt:2:1: warmup_iter 9 is more than max_iter 5"))
      << warned.err;
  EXPECT_EQ(Run(kStep, {"--scale=logg"}).exit_code, 2);
  EXPECT_EQ(Run(kStep, {"extra"}).exit_code, 2);
}

#ifdef CREMA_HAVE_OPENCV
// Returns true if the blue curve is within two pixels of this place.
bool IsBlueAt(const Image& image, int x, int y) {
  const auto at = [&](int channel, int column, int row) {
    const auto index = (static_cast<size_t>(channel) * image.height + row) * image.width + column;
    return static_cast<int>(image.pixels[index]);
  };
  for (int row = y - 2; row <= y + 2; ++row) {
    for (int column = x - 2; column <= x + 2; ++column) {
      if (at(0, column, row) - at(2, column, row) > 80) return true;
    }
  }
  return false;
}

TEST_F(PlotLr, DrawsTheCurve) {
  const ProcessResult result =
      Run("base_lr: 1 lr_policy: \"poly\" power: 1 max_iter: 1001", {"--png=lr.png"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  Image image;
  DecodeImage(temp_.Read("lr.png"), ColorMode::kColor, "lr.png", &image);
  ASSERT_EQ(image.width, 1000);
  ASSERT_EQ(image.height, 560);
  // The plot is 880 x 414 at (90, 84), with a margin of 1/40 of the axis around 0..1000 and 0..1.
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const int x = static_cast<int>(90 + 880 * (share + 0.025) / 1.05);
    const int y = static_cast<int>(84 + 414 * (share + 0.025) / 1.05);
    EXPECT_TRUE(IsBlueAt(image, x, y)) << share;
    EXPECT_FALSE(IsBlueAt(image, x, y + (share < 0.6 ? 100 : -100))) << share;
  }
}

TEST_F(PlotLr, DrawsEveryPolicyAndConstantRates) {
  for (const std::string solver :
       {"base_lr: 0 lr_policy: \"fixed\" max_iter: 1",
        "base_lr: 0.1 lr_policy: \"fixed\" max_iter: 9",
        "base_lr: 0.1 lr_policy: \"exp\" gamma: 0.9 max_iter: 9000",
        "base_lr: 0.1 lr_policy: \"one_cycle\" max_iter: 100",
        "base_lr: 0.1 lr_policy: \"step\" gamma: 0.1 stepsize: 3 max_iter: 9 warmup_iter: 2"}) {
    const ProcessResult result = Run(solver, {"--png=lr.png"});
    EXPECT_EQ(result.exit_code, 0) << solver << result.err;
    EXPECT_TRUE(fs::exists(temp_.File("lr.png"))) << solver;
    fs::remove(temp_.File("lr.png"));
  }
}

TEST_F(PlotLr, RefusesPicturesThatItCannotDraw) {
  const ProcessResult other = Run(kStep, {"--png=lr.jpg"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(Contains(other.err, "--png is 'lr.jpg'; it ends in .png")) << other.err;
  const ProcessResult empty =
      Run("base_lr: 0 lr_policy: \"fixed\" max_iter: 1", {"--png=lr.png", "--scale=log"});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_TRUE(Contains(empty.err, "nothing to draw")) << empty.err;
  EXPECT_EQ(Run(kStep, {"--png=nowhere/lr.png"}).exit_code, 3);
}
#else
TEST_F(PlotLr, SaysThatPicturesNeedOpenCv) {
  const ProcessResult result = Run(kStep, {"--png=lr.png"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(Contains(result.err, "this build is without OpenCV")) << result.err;
}
#endif

}  // namespace
}  // namespace crema
