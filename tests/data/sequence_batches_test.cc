// HDF5SequenceData: batches of sequences of similar length.
#ifdef CREMA_HAVE_HDF5
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/hdf5_files.h"
#include "data/layer_runner.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::Dataset;
using testing::ExpectError;
using testing::LayerRunner;
using testing::WriteHdf5;

constexpr int kSteps = 20;
constexpr int kFeatures = 3;
constexpr int kSequenceClasses = 4;
constexpr float kIgnored = -1;

int LengthOf(int row) { return 1 + (row * 7) % kSteps; }

float SequenceValue(const RandomStream& random, uint64_t at) {
  return static_cast<float>(random.Uniform(at)) - 0.5F;
}

// Sequences first, first + 1, …. Steps after the end are 0 in `data` and `cont`, and ignored in
// `label`. `target` has two labels for CTC.
void WriteSequences(const std::string& path, int first, int rows) {
  const auto n = static_cast<hsize_t>(rows);
  Dataset data{"data", {n, kSteps, kFeatures}, {}};
  Dataset cont{"cont", {n, kSteps}, {}};
  Dataset label{"label", {n, kSteps}, {}};
  Dataset length{"length", {n}, {}};
  Dataset number{"number", {n}, {}};
  Dataset target{"target", {n, 2}, {}};
  const RandomStream random(3, 1);
  for (int row = first; row < first + rows; ++row) {
    for (int t = 0; t < kSteps; ++t) {
      const bool inside = t < LengthOf(row);
      for (int f = 0; f < kFeatures; ++f) {
        const auto at = static_cast<uint64_t>((row * kSteps + t) * kFeatures + f);
        data.values.push_back(inside ? SequenceValue(random, at) : 0);
      }
      cont.values.push_back(inside && t > 0 ? 1 : 0);
      label.values.push_back(inside ? (row + t) % kSequenceClasses : kIgnored);
    }
    length.values.push_back(LengthOf(row));
    number.values.push_back(row);
    target.values.insert(target.values.end(),
                         {double(1 + row % 3), LengthOf(row) > 1 ? double(1 + (row + 1) % 3) : -1});
  }
  WriteHdf5(path, {data, cont, label, length, number, target});
}

std::string WriteSequenceList(const TempDir& temp, const std::vector<int>& rows) {
  std::string list;
  int first = 0;
  for (const int count : rows) {
    const std::string file = temp.File(StrCat("rows_", first, ".h5"));
    WriteSequences(file, first, count);
    list += file + "\n";
    first += count;
  }
  return temp.Write("list.txt", list);
}

std::string SequenceLayer(const std::string& list, const std::string& fields,
                          const std::string& tops = "top: 'data' top: 'number' top: 'length'") {
  return StrCat("name: 'text' type: 'HDF5SequenceData' ", tops, " hdf5_data_param { source: '",
                list, "' ", fields, " }");
}

struct SequenceBatch {
  int64_t steps = 0;
  std::vector<int> rows;
};

SequenceBatch NextBatch(LayerRunner* runner) {
  runner->Forward();
  SequenceBatch batch{.steps = runner->shapes[0][1], .rows = {}};
  for (const float row : runner->outputs[1].view().span<float>()) {
    batch.rows.push_back(static_cast<int>(row));
  }
  return batch;
}

std::vector<int> Upto(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  return all;
}

TEST(SequenceBatches, AreCutToTheLongestOfTheirSequences) {
  TempDir temp;
  LayerRunner runner(test::TestRegistry(),
                     SequenceLayer(WriteSequenceList(temp, {9}), "batch_size: 4"));
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{4, kSteps, kFeatures}));
  const SequenceBatch first = NextBatch(&runner);
  int longest = 0;
  for (const int row : first.rows) longest = std::max(longest, LengthOf(row));
  EXPECT_EQ(runner.shapes[0], (Shape{4, longest, kFeatures}));
  EXPECT_EQ(runner.shapes[1], (Shape{4}));
  EXPECT_EQ(runner.shapes[2], (Shape{4}));
  const RandomStream random(3, 1);
  const float* x = runner.outputs[0].view().data<float>();
  for (const int row : first.rows) {
    for (int t = 0; t < longest; ++t) {
      for (int f = 0; f < kFeatures; ++f, ++x) {
        const auto at = static_cast<uint64_t>((row * kSteps + t) * kFeatures + f);
        EXPECT_EQ(*x, t < LengthOf(row) ? SequenceValue(random, at) : 0) << row << " " << t;
      }
    }
  }
}

TEST(SequenceBatches, WithoutShuffleTheShortestComeFirst) {
  TempDir temp;
  LayerRunner runner(test::TestRegistry(),
                     SequenceLayer(WriteSequenceList(temp, {9}), "batch_size: 3"));
  std::vector<int> rows;
  for (int batch = 0; batch < 3; ++batch) {
    for (const int row : NextBatch(&runner).rows) rows.push_back(row);
  }
  EXPECT_TRUE(std::ranges::is_sorted(rows, {}, LengthOf));
  std::ranges::sort(rows);
  EXPECT_EQ(rows, Upto(9));
}

TEST(SequenceBatches, ShuffledEpochsHoldEverySequenceOnce) {
  TempDir temp;
  constexpr int kRows = 50;
  LayerRunner runner(test::TestRegistry(), SequenceLayer(WriteSequenceList(temp, {30, 20}),
                                                         "batch_size: 4 shuffle: true"));
  std::vector<int> rows;
  int64_t steps = 0;
  while (rows.size() < 2 * kRows) {
    const SequenceBatch batch = NextBatch(&runner);
    steps += batch.steps;
    rows.insert(rows.end(), batch.rows.begin(), batch.rows.end());
  }
  std::vector<int> first(rows.begin(), rows.begin() + kRows);
  std::vector<int> second(rows.begin() + kRows, rows.end());
  EXPECT_NE(first, second);
  std::ranges::sort(first);
  std::ranges::sort(second);
  EXPECT_EQ(first, Upto(kRows));
  EXPECT_EQ(second, Upto(kRows));
  EXPECT_LT(steps, 2 * kRows / 4 * kSteps * 2 / 3);
}

TEST(SequenceBatches, AResumedRunContinuesInTheSameOrder) {
  TempDir temp;
  const std::string text =
      SequenceLayer(WriteSequenceList(temp, {17, 12}), "batch_size: 4 shuffle: true");
  LayerRunner whole(test::TestRegistry(), text);
  for (int batch = 0; batch < 6; ++batch) NextBatch(&whole);
  LayerState saved;
  whole.state().Save(&saved);
  LayerRunner resumed(test::TestRegistry(), text);
  resumed.state().Restore(saved);
  for (int batch = 0; batch < 9; ++batch) {
    const SequenceBatch expected = NextBatch(&whole);
    const SequenceBatch got = NextBatch(&resumed);
    EXPECT_EQ(got.rows, expected.rows);
    EXPECT_EQ(got.steps, expected.steps);
  }
}

TEST(SequenceBatches, MistakesAreNamed) {
  TempDir temp;
  const std::string list = WriteSequenceList(temp, {5});
  const auto open = [&](const std::string& tops, const std::string& fields) {
    return [=, &list] {
      LayerRunner runner(test::TestRegistry(), SequenceLayer(list, fields, tops));
      runner.Forward();
    };
  };
  const std::string all = "top: 'data' top: 'length'";
  ExpectError(ErrorCode::kInvalidArgument, "the rows of the first top, 'number', must be sequences",
              open("top: 'number' top: 'length'", "batch_size: 2"));
  ExpectError(ErrorCode::kInvalidArgument, "a row of 'length' is 20", [&] {
    const Dataset data{"data", {1, 3, 1}, {1, 2, 3}};
    const Dataset length{"length", {1, 20}, std::vector<double>(20, 1)};
    WriteHdf5(temp.File("wide.h5"), {data, length});
    LayerRunner runner(
        test::TestRegistry(),
        SequenceLayer(temp.Write("wide.txt", temp.File("wide.h5")), "batch_size: 1", all));
  });
  for (const double length : {0.0, 4.0, 1.5, -1.0, std::nan("")}) {
    const Dataset data{"data", {2, 3, 1}, {1, 2, 3, 4, 5, 6}};
    WriteHdf5(temp.File("bad.h5"), {data, {"length", {2}, {3, length}}});
    ExpectError(ErrorCode::kDataLoss, "row 1: 'length' is", [&] {
      LayerRunner runner(
          test::TestRegistry(),
          SequenceLayer(temp.Write("bad.txt", temp.File("bad.h5")), "batch_size: 1", all));
      runner.Forward();
    });
  }
}

// The features of a step are a frame of 1 x 3 pixels, as LRCN has it, for a batch of 4 sequences.
constexpr const char* kFrames = R"(
layer { name: 'frames' type: 'Reshape' bottom: 'x' top: 'frames'
  reshape_param { shape { dim: -1 dim: 1 dim: 1 dim: 3 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'frames' top: 'conv'
  convolution_param { num_output: 4 kernel_h: 1 kernel_w: 2 weight_filler { type: 'xavier' } } }
layer { name: 'fc' type: 'InnerProduct' bottom: 'conv' top: 'fc'
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'features' type: 'Reshape' bottom: 'fc' top: 'features'
  reshape_param { axis: 0 num_axes: 1 shape { dim: -1 dim: 4 } } }
)";

// Time first for the LSTM and the losses.
std::string SequenceNet(const std::string& data, bool ctc, bool frames = false) {
  const auto turned = [](const std::string& from, const std::string& to) {
    return StrCat("layer { name: '", to, "' type: 'Permute' bottom: '", from, "' top: '", to,
                  "' permute_param { order: 1 order: 0 } } ");
  };
  const std::string loss =
      ctc ? "layer { name: 'loss' type: 'CTCLoss' bottom: 'scores' bottom: 'target' "
            "bottom: 'length' top: 'loss' }"
          : "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'l' top: 'loss' "
            "softmax_param { axis: 2 } loss_param { ignore_label: -1 normalization: NONE } }";
  return StrCat("layer { ", data, " } ", turned("data", "x"), turned("cont", "c"),
                turned("label", "l"), frames ? kFrames : "",
                "layer { name: 'lstm' type: 'LSTM' bottom: '", frames ? "features" : "x",
                "' bottom: 'c' top: 'h' "
                "recurrent_param { num_output: 5 direction: BIDIRECTIONAL weight_filler { type: "
                "'uniform' min: -0.4 max: 0.4 } } } "
                "layer { name: 'scores' type: 'InnerProduct' bottom: 'h' top: 'scores' "
                "inner_product_param { num_output: 4 axis: 2 weight_filler { type: 'uniform' min: "
                "-0.4 max: 0.4 } } } layer { name: 'quiet' type: 'Silence' bottom: '",
                ctc ? "l" : "target", "' } ", loss);
}

// One update from the gradients of a whole epoch, which must not depend on the padding.
TEST(SequenceBatches, TrainAsPaddedOnesDo) {
  TempDir temp;
  constexpr int kRows = 24;
  const std::string list = WriteSequenceList(temp, {kRows});
  const std::string tops = "top: 'data' top: 'cont' top: 'label' top: 'target' top: 'length'";
  const std::string by_length = SequenceLayer(list, "batch_size: 4 shuffle: true", tops);
  std::string padded = by_length;
  padded.replace(padded.find("HDF5SequenceData"), std::string("HDF5SequenceData").size(),
                 "HDF5Data");
  for (const auto& [ctc, frames] : {std::pair{false, false}, {true, false}, {false, true}}) {
    std::vector<std::vector<std::vector<float>>> weights;
    std::vector<double> losses;
    for (const std::string& data : {padded, by_length}) {
      test::Recorder recorder;
      const auto solver =
          test::MakeSolver(StrCat("net_param { ", SequenceNet(data, ctc, frames),
                                  " } base_lr: 0.01 lr_policy: 'fixed' iter_size: ", kRows / 4,
                                  " max_iter: 2 random_seed: 3 snapshot_after_train: false"),
                           test::OptionsFor(&recorder));
      solver->Solve();
      ASSERT_EQ(recorder.iterations.size(), 2U);
      losses.push_back(recorder.iterations[1].loss);
      weights.push_back(test::ValuesOf(solver->weights()));
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-5 * std::abs(losses[0]));
    for (size_t s = 0; s < weights[0].size(); ++s) {
      for (size_t i = 0; i < weights[0][s].size(); ++i) {
        EXPECT_NEAR(weights[0][s][i], weights[1][s][i], 1e-5) << s << " " << i;
      }
    }
  }
}

// The last batch of the test has two sequences.
TEST(SequenceBatches, ATestCountsEverySequenceOnce) {
  TempDir temp;
  const std::string list = WriteSequenceList(temp, {14});
  std::vector<double> losses;
  for (const int batch : {4, 7}) {
    const std::string tops = "top: 'data' top: 'cont' top: 'label' top: 'target' top: 'length'";
    const std::string net =
        SequenceNet(SequenceLayer(list, StrCat("batch_size: ", batch, " shuffle: true"), tops),
                    /*ctc=*/true);
    test::Recorder recorder;
    const auto solver = test::MakeSolver(
        StrCat("train_net_param { ", net, " } test_net_param { ", net,
               " } base_lr: 0 lr_policy: 'fixed' max_iter: 1 test_interval: 1 random_seed: 3 "
               "snapshot_after_train: false"),
        test::OptionsFor(&recorder));
    solver->Solve();
    ASSERT_FALSE(recorder.tests.empty());
    EXPECT_EQ(recorder.tests[0].samples, 14);
    losses.push_back(recorder.tests[0].outputs[0].value);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[0]);
}

}  // namespace
}  // namespace crema
#endif
