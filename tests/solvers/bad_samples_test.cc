// Bad samples of a run: the messages in its log, and its end.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <string>

#include "core/strings.h"
#include "data/expect_error.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using testing::ExpectError;

class BadSamplesOfARun : public ::testing::Test {
 protected:
  // Four images of 1 x 1, of which the third is none.
  BadSamplesOfARun() {
    std::string lines;
    for (int i = 0; i < 4; ++i) {
      std::string image = "P6\n1 1\n255\n";
      image += std::string(3, static_cast<char>(40 * i));
      lines += StrCat(temp_.Write(StrCat(i, ".ppm"), i == 2 ? "no image" : image), " ", i, "\n");
    }
    list_ = temp_.Write("list.txt", lines);
  }

  std::string SolverText(const std::string& pipeline) const {
    const auto data = [&](const std::string& phase) {
      return StrCat("layer { name: 'pets' type: 'ImageData' top: 'data' top: 'label' include { ",
                    "phase: ", phase, " } image_data_param { source: '", list_,
                    "' batch_size: 2 } transform_param { scale: 0.01 } pipeline_param { ", pipeline,
                    " } } ");
    };
    return StrCat("net_param { ", data("TRAIN"), data("TEST"),
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
                  "inner_product_param { num_output: 4 } } "
                  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
                  "top: 'loss' } } base_lr: 0.01 lr_policy: 'fixed' max_iter: 4 test_interval: 2 "
                  "random_seed: 1 snapshot_after_train: false ");
  }

  TempDir temp_;
  std::string list_;
};

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(BadSamplesOfARun, AreLoggedByNetNameAndReason) {
  Recorder recorder;
  MakeSolver(SolverText("on_bad_sample: SKIP") + "test_iter: 2", OptionsFor(&recorder))->Solve();
  const std::string name = StrCat("'", temp_.File("2.ppm"), "' (line 3 of '", list_, "')");
  EXPECT_NE(recorder.log.find("layer \"pets\" (TRAIN): bad sample 1: " + name), std::string::npos)
      << recorder.log;
  EXPECT_NE(recorder.log.find("layer \"pets\" (TRAIN): bad sample 2: " + name), std::string::npos);
  EXPECT_EQ(Count(recorder.log, "(TRAIN): bad sample"), 2);  // 4 batches of 2: two epochs
  EXPECT_EQ(Count(recorder.log, "(TEST): bad sample"), 3);   // tests at 0, 2 and 4
}

TEST_F(BadSamplesOfARun, AreReportedInTestsOfOneEpoch) {
  Recorder recorder;
  MakeSolver(SolverText("on_bad_sample: REPEAT"), OptionsFor(&recorder))->Solve();
  EXPECT_EQ(Count(recorder.log, "(TEST): bad sample"), 3);
}

TEST_F(BadSamplesOfARun, EndItWhenThereAreTooMany) {
  Recorder recorder;
  const auto solver = MakeSolver(SolverText("on_bad_sample: SKIP max_bad: 1") + "test_iter: 1",
                                 OptionsFor(&recorder));
  ExpectError(ErrorCode::kDataLoss,
              "layer \"pets\": there are 2 bad samples, and max_bad allows 1; the last is: '" +
                  temp_.File("2.ppm"),
              [&] { solver->Solve(); });
  EXPECT_EQ(recorder.iterations.size(), 3u);
  EXPECT_EQ(Count(recorder.log, "bad sample 2"), 1);
}

TEST_F(BadSamplesOfARun, EndItAtOnceByDefault) {
  Recorder recorder;
  const auto solver = MakeSolver(SolverText("") + "test_iter: 1", OptionsFor(&recorder));
  ExpectError(ErrorCode::kDataLoss, temp_.File("2.ppm"), [&] { solver->Solve(); });
}

}  // namespace
}  // namespace crema::test
#endif
