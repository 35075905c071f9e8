// HDF5Data with large and damaged files, and with pipeline_param.
#ifdef CREMA_HAVE_HDF5
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "core/deferred_warnings.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/layer_runner.h"
#include "data/pipeline/shuffle.h"
#include "data/same_batches.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {

namespace {

using test::TempDir;
using test::TestRegistry;
using testing::ExpectError;
using testing::ExpectSameBatches;
using testing::LayerRunner;

// `rows` x `width` numbers in checksummed chunks of whole rows; unwritten chunks take no space.
struct Rows {
  std::string name;
  hsize_t rows;
  hsize_t width;
  hsize_t chunk;
};

hid_t AddDataset(hid_t file, const Rows& rows) {
  const hsize_t dims[] = {rows.rows, rows.width};
  const hsize_t chunk[] = {rows.chunk, rows.width};
  const hid_t space = H5Screate_simple(2, dims, nullptr);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 2, chunk);
  H5Pset_fletcher32(properties);
  const hid_t set = H5Dcreate2(file, rows.name.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT,
                               properties, H5P_DEFAULT);
  H5Pclose(properties);
  H5Sclose(space);
  return set;
}

// Row n holds n in each column.
void WriteRows(hid_t set, const Rows& rows, hsize_t first, hsize_t count) {
  std::vector<float> values;
  for (hsize_t n = first; n < first + count; ++n) {
    values.insert(values.end(), rows.width, static_cast<float>(n));
  }
  const hsize_t start[] = {first, 0};
  const hsize_t part[] = {count, rows.width};
  const hid_t memory = H5Screate_simple(2, part, nullptr);
  const hid_t space = H5Dget_space(set);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, part, nullptr);
  EXPECT_GE(H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, values.data()), 0);
  H5Sclose(memory);
  H5Sclose(space);
}

void WriteFile(const std::string& path, const Rows& rows) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t set = AddDataset(file, rows);
  WriteRows(set, rows, 0, rows.rows);
  H5Dclose(set);
  H5Fclose(file);
}

std::string WideRowsLayer(const std::string& list, const std::string& more,
                          const std::string& tops) {
  return StrCat("name: 'rows' type: 'HDF5Data' ", tops, " hdf5_data_param { source: '", list, "' ",
                more, " }");
}

TEST(Hdf5Pipeline, BatchesAreTheSameForAnyWorkersAndFromAnySample) {
  TempDir temp;
  WriteFile(temp.File("a.h5"), {"data", 7, 3, 2});
  WriteFile(temp.File("b.h5"), {"data", 4, 3, 4});
  const std::string list = temp.Write("list", temp.File("a.h5") + "\n" + temp.File("b.h5") + "\n");
  const Registry& registry = TestRegistry();
  const std::string layer = WideRowsLayer(list, "batch_size: 3", "top: 'data'");
  ExpectSameBatches(registry, layer);
  ExpectSameBatches(registry, layer, "shuffle: true prefetch: 1");
}

int64_t ResidentKib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  return 0;
}

constexpr int64_t kLargeRows = 700'000;
constexpr hsize_t kLargeWidth = 1024;  // 2.8 GB in all
constexpr hsize_t kChunkRows = 512;

// `data` of kLargeRows x kLargeWidth, with only the first and the last chunk written (the others
// are zero), and a complete `label`.
std::string WriteLarge(const TempDir& temp) {
  const std::string path = temp.File("large.h5");
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const Rows data{"data", kLargeRows, kLargeWidth, kChunkRows};
  const hid_t set = AddDataset(file, data);
  WriteRows(set, data, 0, kChunkRows);
  WriteRows(set, data, kLargeRows / kChunkRows * kChunkRows, kLargeRows % kChunkRows);
  H5Dclose(set);
  const Rows label{"label", kLargeRows, 1, 10'000};
  const hid_t labels = AddDataset(file, label);
  WriteRows(labels, label, 0, kLargeRows);
  H5Dclose(labels);
  H5Fclose(file);
  return temp.Write("list", path);
}

#ifdef CREMA_SANITIZED
constexpr bool kMemoryIsOurs = false;  // sanitizers track freed memory
#else
constexpr bool kMemoryIsOurs = true;
#endif

TEST(Hdf5Pipeline, FilesBeyondTwoGigabytesAreReadInConstantMemory) {
  TempDir temp;
  const std::string list = WriteLarge(temp);
  const Registry& registry = TestRegistry();
  const int64_t before = ResidentKib();
  int64_t most = before;
  constexpr int64_t kAllowedKib = 200 << 10;  // of 2.8 GB; 400 MB are read
  LayerRunner runner(registry, WideRowsLayer(list, "batch_size: 1000", "top: 'data' top: 'label'") +
                                   " pipeline_param { prefetch: 1 }");
  for (int n = 0; n < 100; ++n) {
    const std::vector<float> labels = runner.Collect(1, 1);
    ASSERT_EQ(labels[999], static_cast<float>(n * 1000 + 999));
    most = std::max(most, ResidentKib());
  }
  if (kMemoryIsOurs) {
    EXPECT_LT(most - before, kAllowedKib);
  }
  LayerState state;
  state.set_position(kLargeRows - 1000);
  runner.state().Restore(state);
  runner.Forward();
  const TensorView data = runner.outputs[0].view();
  EXPECT_EQ(data.data<float>()[data.count() - 1], static_cast<float>(kLargeRows - 1));
  EXPECT_EQ(runner.state().SampleName(999), temp.File("large.h5") + " row 699999");
}

TEST(Hdf5Pipeline, LargeFilesAreShuffledInConstantMemory) {
  TempDir temp;
  const std::string list = WriteLarge(temp);
  const Registry& registry = TestRegistry();
  const int64_t before = ResidentKib();
  LayerRunner runner(
      registry, WideRowsLayer(list, "batch_size: 100 shuffle: true", "top: 'data' top: 'label'"));
  std::vector<float> all;
  for (int n = 0; n < 5; ++n) {
    const std::vector<float> labels = runner.Collect(1, 1);
    for (size_t i = 0; i < labels.size(); ++i) {
      EXPECT_EQ(runner.state().SampleName(static_cast<int64_t>(i)),
                StrCat(temp.File("large.h5"), " row ", static_cast<int>(labels[i])));
    }
    all.insert(all.end(), labels.begin(), labels.end());
  }
  if (kMemoryIsOurs) {
    EXPECT_LT(ResidentKib() - before, 200 << 10);
  }
  EXPECT_GT(*std::ranges::max_element(all), kLargeRows * 0.9);
  EXPECT_LT(*std::ranges::min_element(all), kLargeRows * 0.1);
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

// Flips a bit in a row, which the chunk's checksum detects.
void DamageValue(const std::string& path, float value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::string pattern(sizeof value, '\0');
  std::memcpy(pattern.data(), &value, sizeof value);
  const size_t at = bytes.find(pattern);
  ASSERT_NE(at, std::string::npos);
  file.clear();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(bytes[at] ^ 1));
}

TEST(Hdf5Pipeline, ADamagedChunkSpoilsItsRowsOnly) {
  TempDir temp;
  WriteFile(temp.File("a.h5"), {"data", 20, 3, 2});
  DamageValue(temp.File("a.h5"), 7);
  const std::string list = temp.Write("list", temp.File("a.h5"));
  const Registry& registry = TestRegistry();
  const std::string layer = WideRowsLayer(list, "batch_size: 10", "top: 'data'");
  LayerRunner strict(registry, layer);
  ExpectError(ErrorCode::kDataLoss,
              "the dataset 'data' of '" + temp.File("a.h5") + "' cannot be read",
              [&] { strict.Forward(); });
  LayerRunner runner(registry, layer + " pipeline_param { on_bad_sample: SKIP }");
  runner.Forward();
  std::vector<float> rows;
  for (int i = 0; i < 10; ++i) rows.push_back(runner.outputs[0].view().data<float>()[3 * i]);
  EXPECT_EQ(rows, (std::vector<float>{0, 1, 2, 3, 4, 5, 8, 8, 8, 9}));
  EXPECT_EQ(dynamic_cast<HasDeferredWarnings&>(runner.state()).TakeWarnings().size(), 2u);
}

// The file's header stores the dimensions, without a checksum.
TEST(Hdf5Pipeline, NumbersOfRowsThatCannotBeAreAnError) {
  TempDir temp;
  for (const uint64_t claim : {uint64_t{1} << 62, (uint64_t{1} << 63) + 5, UINT64_MAX}) {
    WriteFile(temp.File("a.h5"), {"data", 777, 3, 2});
    std::string bytes = temp.Read("a.h5");
    const uint64_t rows = 777;
    const std::string pattern(reinterpret_cast<const char*>(&rows), sizeof rows);
    size_t at = bytes.find(pattern);
    ASSERT_NE(at, std::string::npos);
    for (; at != std::string::npos; at = bytes.find(pattern, at + 1)) {
      bytes.replace(at, sizeof claim, reinterpret_cast<const char*>(&claim), sizeof claim);
    }
    temp.Write("a.h5", bytes);
    const std::string list = temp.Write(
        "list", StrCat(temp.File("a.h5"), " ", temp.File("a.h5"), " ", temp.File("a.h5"), "\n"));
    const Registry& registry = TestRegistry();
    ExpectError(ErrorCode::kDataLoss, temp.File("a.h5"), [&] {
      LayerRunner runner(registry, WideRowsLayer(list, "batch_size: 3", "top: 'data'"));
    });
  }
}

TEST(Hdf5Pipeline, DamagedRowsAreReplacedTheSameWayForAnyWorkers) {
  TempDir temp;
  WriteFile(temp.File("a.h5"), {"data", 9, 3, 1});
  WriteFile(temp.File("b.h5"), {"data", 4, 3, 4});
  DamageValue(temp.File("a.h5"), 4);
  const std::string list = temp.Write("list", temp.File("a.h5") + "\n" + temp.File("b.h5") + "\n");
  const Registry& registry = TestRegistry();
  const std::string layer = WideRowsLayer(list, "batch_size: 3", "top: 'data'");
  for (const char* pipeline : {"on_bad_sample: SKIP", "on_bad_sample: REPEAT prefetch: 1",
                               "on_bad_sample: SKIP shuffle: true"}) {
    ExpectSameBatches(registry, layer, pipeline, 12, testing::Resume::kBetweenBatches);
  }
}

TEST(LargePermutation, HoldsEachNumberOnceWithAndWithoutATable) {
  for (const uint64_t n :
       {uint64_t{1}, uint64_t{1000}, LargePermutation::kLargestTable,
        LargePermutation::kLargestTable + 1, LargePermutation::kLargestTable * 2 + 77}) {
    const LargePermutation order(n, RandomStream(1, 2));
    std::vector<bool> seen(n);
    uint64_t fixed = 0;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t value = order(i);
      ASSERT_LT(value, n);
      ASSERT_FALSE(seen[value]);
      seen[value] = true;
      fixed += value == i;
    }
    EXPECT_LT(fixed, 10u);  // one is expected
  }
}

TEST(LargePermutation, DependsOnTheStreamOnly) {
  const uint64_t n = LargePermutation::kLargestTable * 3;
  const LargePermutation order(n, RandomStream(1, 2, 5));
  const LargePermutation same(n, RandomStream(1, 2, 5));
  const LargePermutation other(n, RandomStream(1, 2, 6));
  int equal = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(order(i), same(i));
    equal += order(i) == other(i);
  }
  EXPECT_LT(equal, 5);
}

}  // namespace
}  // namespace crema
#endif
