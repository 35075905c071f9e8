#ifdef CREMA_HAVE_HDF5
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/hdf5_files.h"
#include "data/layer_runner.h"
#include "data/pipeline/shuffle.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {

namespace {

using test::TempDir;
using test::TestRegistry;
using testing::Dataset;
using testing::ExpectError;
using testing::LayerRunner;
using testing::WriteHdf5;

// Rows first, first + 1, …: `data` holds (10n, 10n + 1), `label` (an integer) n.
void WriteRows(const std::string& path, int first, int rows) {
  Dataset data{"data", {static_cast<hsize_t>(rows), 2}, {}};
  Dataset label{"label", {static_cast<hsize_t>(rows)}, {}, H5T_STD_I32LE};
  for (int n = first; n < first + rows; ++n) {
    data.values.insert(data.values.end(), {10.0 * n, 10.0 * n + 1});
    label.values.push_back(n);
  }
  WriteHdf5(path, {data, label});
}

// Files of 3, 0 and 4 rows: numbers 0 to 6.
std::string WriteList(const TempDir& temp) {
  WriteRows(temp.File("a.h5"), 0, 3);
  WriteRows(temp.File("b.h5"), 3, 0);
  WriteRows(temp.File("c.h5"), 3, 4);
  return temp.Write("list.txt",
                    StrCat(temp.File("a.h5"), "\n", temp.File("b.h5"), " ", temp.File("c.h5")));
}

std::string RowsLayer(const std::string& list, const std::string& more = "batch_size: 2",
                      const std::string& tops = "top: 'data' top: 'label'") {
  return StrCat("name: 'rows' type: 'HDF5Data' ", tops, " hdf5_data_param { source: '", list, "' ",
                more, " }");
}

TEST(Hdf5DataLayer, BatchesSpanFilesAndWrap) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LayerRunner runner(registry, RowsLayer(WriteList(temp)));
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(runner.outputs[1].shape(), (Shape{2}));
  EXPECT_EQ(runner.Collect(1, 5), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 0, 1, 2}));
  EXPECT_EQ(runner.Collect(0, 1), (std::vector<float>{30, 31, 40, 41}));
}

TEST(Hdf5DataLayer, OneBatchMayHoldSeveralEpochs) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LayerRunner runner(registry, RowsLayer(WriteList(temp), "batch_size: 16", "top: 'label'"), TRAIN,
                     DType::kF64);
  EXPECT_EQ(runner.Collect<double>(0, 1),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1}));
}

TEST(Hdf5DataLayer, ShuffleIsAnotherPermutationEachEpoch) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string text = RowsLayer(WriteList(temp), "batch_size: 7 shuffle: true");
  LayerRunner runner(registry, text);
  std::set<std::vector<float>> orders;
  std::set<bool> begins_with_a;
  for (int epoch = 0; epoch < 12; ++epoch) {
    std::vector<float> order = runner.Collect(1, 1);
    orders.insert(order);
    begins_with_a.insert(order[0] < 3);
    // Rows of one file stay together, and data with its label.
    EXPECT_EQ(order[0] < 3, order[2] < 3);
    EXPECT_EQ(runner.outputs[0].view().data<float>()[4], 10 * order[2]);
    std::ranges::sort(order);
    EXPECT_EQ(order, (std::vector<float>{0, 1, 2, 3, 4, 5, 6}));
  }
  EXPECT_GT(orders.size(), 6u);
  EXPECT_EQ(begins_with_a.size(), 2u);
}

TEST(Hdf5DataLayer, ResumesWhereItWasSaved) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string text = RowsLayer(WriteList(temp), "batch_size: 3 shuffle: true");
  LayerRunner first(registry, text);
  first.Collect(0, 6);
  LayerState saved;
  first.state().Save(&saved);
  EXPECT_EQ(saved.position(), 18u);
  EXPECT_EQ(saved.epoch(), 2u);
  const std::vector<float> expected = first.Collect(1, 9);
  LayerRunner second(registry, text);
  second.state().Restore(saved);
  EXPECT_EQ(second.Collect(1, 9), expected);
}

TEST(Hdf5DataLayer, SamplesAreNamedByFileAndRow) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LayerRunner runner(registry, RowsLayer(WriteList(temp), "batch_size: 4"));
  EXPECT_EQ(runner.state().SampleName(0), "");
  runner.Forward();
  EXPECT_EQ(runner.state().SampleName(2), temp.File("a.h5") + " row 2");
  EXPECT_EQ(runner.state().SampleName(3), temp.File("c.h5") + " row 0");
  EXPECT_EQ(runner.state().SampleName(4), "");
  LayerRunner shuffled(registry, RowsLayer(temp.File("list.txt"), "batch_size: 7 shuffle: true"));
  for (int epoch = 0; epoch < 5; ++epoch) {
    const std::vector<float> rows = shuffled.Collect(1, 1);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string expected =
          rows[i] < 3 ? StrCat("a.h5 row ", rows[i]) : StrCat("c.h5 row ", rows[i] - 3);
      ASSERT_EQ(shuffled.state().SampleName(static_cast<int64_t>(i)), temp.File(expected));
    }
  }
  EXPECT_GT(shuffled.state().WaitedSeconds(), 0);
}

TEST(Hdf5DataLayer, MissingDatasetListsWhatTheFileHolds) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string list = WriteList(temp);
  ExpectError(ErrorCode::kDataLoss, "a.h5' has no dataset 'labels', it holds 'data', 'label'",
              [&] { LayerRunner(registry, RowsLayer(list, "batch_size: 1", "top: 'labels'")); });
  ExpectError(ErrorCode::kDataLoss, "did you mean 'label'?",
              [&] { LayerRunner(registry, RowsLayer(list, "batch_size: 1", "top: 'labels'")); });
}

TEST(Hdf5DataLayer, FilesThatDoNotFitAreRefused) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string good = temp.File("good.h5");
  const std::string bad = temp.File("bad.h5");
  WriteRows(good, 0, 2);
  const std::string list = temp.Write("list", good + "\n" + bad);
  const auto expect = [&](ErrorCode code, const std::string& text) {
    ExpectError(code, text, [&] { LayerRunner(registry, RowsLayer(list)); });
  };
  expect(ErrorCode::kNotFound, "there is no file");
  temp.Write("bad.h5", "not HDF5");
  expect(ErrorCode::kDataLoss, "is not an HDF5 file");
  WriteHdf5(bad, {{"data", {2, 3}, {}}, {"label", {2}, {}}});
  expect(ErrorCode::kDataLoss, "a row of the dataset 'data' is 3, but in");
  WriteHdf5(bad, {{"data", {2, 2}, {}}, {"label", {5}, {}}});
  expect(ErrorCode::kDataLoss, "'label' has 5 rows, but 'data' has 2");
  WriteHdf5(bad, {{"data", {2, 2}, {}}, {"label", {}, {}}});
  expect(ErrorCode::kDataLoss, "has no axes");
  WriteHdf5(bad, {{"data", {2, 2}, {}, H5T_C_S1}, {"label", {2}, {}}});
  expect(ErrorCode::kDataLoss, "neither floating-point numbers nor integers");
  WriteHdf5(bad, {{"data", {1 << 24, 2}, {}}, {"label", {1 << 24}, {}}});
  expect(ErrorCode::kDataLoss, "has a shape but no values");
  WriteRows(good, 0, 0);
  WriteRows(bad, 0, 0);
  expect(ErrorCode::kDataLoss, "hold no rows");
}

TEST(Hdf5DataLayer, BadParametersAreRefused) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string list = WriteList(temp);
  ExpectError(ErrorCode::kInvalidArgument, "does not transform",
              [&] { LayerRunner(registry, RowsLayer(list) + " transform_param { scale: 2 }"); });
  ExpectError(ErrorCode::kNotFound, "layer \"rows\": the list of HDF5 files",
              [&] { LayerRunner(registry, RowsLayer(temp.File("none"))); });
  ExpectError(ErrorCode::kDataLoss, "names no files",
              [&] { LayerRunner(registry, RowsLayer(temp.Write("empty", " \n"))); });
  ExpectError(ErrorCode::kInvalidArgument, "is an HDF5 file: source names a text file",
              [&] { LayerRunner(registry, RowsLayer(temp.Write("x.h5", "\x89HDF\r\n"))); });
}

TEST(Permutation, HoldsEachNumberOnce) {
  for (const uint32_t n : {0u, 1u, 2u, 1000u}) {
    std::vector<uint32_t> order = Permutation(n, RandomStream(1, 2));
    ASSERT_EQ(order.size(), n);
    EXPECT_EQ(order, Permutation(n, RandomStream(1, 2)));
    std::ranges::sort(order);
    for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(order[i], i);
  }
}

}  // namespace
}  // namespace crema
#endif
